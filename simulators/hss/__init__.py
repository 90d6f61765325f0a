"""The HSS simulator: Cx towards I- and S-CSCF (TS 29.228), for computed subscribers.

procedures   UAR, MAR, SAR, LIR -> answers: what TS 29.228 §6 says, no I/O
store        what changed about a subscriber: registration, S-CSCF name, SQN
userdata     User-Data XML
node         the Diameter node: RTR and PPR beside what simulators.node does for it
__main__     the process: under a coordinator, or alone
"""

from simulators.hss.node import HssNode
from simulators.hss.procedures import Procedures
from simulators.hss.store import State, Store
from simulators.node import Injection

__all__ = ["HssNode", "Injection", "Procedures", "State", "Store"]
