"""The PCRF simulator: Rx towards the P-CSCF (TS 29.214), for the sessions of anybody.

procedures   AAR, STR -> answers: session state, no I/O
media        service information: Media-Component-Descriptions checked and put together
sessions     AF sessions by Session-Id
node         the Diameter node: RAR and ASR beside what simulators.node does for it
__main__     the process: under a coordinator, or alone
"""

from simulators.node import Injection
from simulators.pcrf.node import PcrfNode
from simulators.pcrf.procedures import Procedures
from simulators.pcrf.sessions import Session, Sessions

__all__ = ["Injection", "PcrfNode", "Procedures", "Session", "Sessions"]
