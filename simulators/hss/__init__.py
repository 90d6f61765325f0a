"""The HSS simulator: Cx towards I- and S-CSCF (TS 29.228), for computed subscribers.

procedures   UAR, MAR, SAR, LIR -> answers: what TS 29.228 §6 says, no I/O
store        what changed about a subscriber: registration, S-CSCF name, SQN
userdata     User-Data XML
node         the Diameter node: latency, errors, measurement, RTR and PPR
__main__     the process: under a coordinator, or alone
"""

from simulators.hss.node import HssNode, Injection
from simulators.hss.procedures import Procedures
from simulators.hss.store import State, Store

__all__ = ["HssNode", "Injection", "Procedures", "State", "Store"]
