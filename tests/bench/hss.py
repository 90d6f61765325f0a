"""Speed of the HSS simulator: ``python -m tests.bench.hss``.

Prints two figures, with a client on loopback in another process than the HSS:

* Cx transactions per CPU-second of the HSS process, at full speed: registrations (UAR, MAR, UAR, SAR) and
  de-registrations (UAR, SAR) of as many subscribers as fit the seconds given.
* Response time at a steady rate, as the HSS measures it (last byte read -> first byte written) and as the
  client sees it (written -> decoded).
"""

from __future__ import annotations

from imsbench.subscriber import Population
from simulators.cx import (
    AKA_SCHEME,
    CX,
    MultimediaAuthRequest,
    ServerAssignmentRequest,
    ServerAssignmentType,
    SipAuthDataItem,
    UserAuthorizationRequest,
    UserAuthorizationType,
    succeeded,
)
from simulators.hss import HssNode, Procedures
from tests.bench.diameter import Bench, Client, run

POPULATION = Population(count=50_000, seed=7)
REALM = POPULATION.home_domain
SERVER = f"sip:scscf.{REALM}"


def make_node() -> HssNode:
    """The HSS."""
    return HssNode(Procedures(POPULATION), origin_host=f"hss.{REALM}", origin_realm=REALM)


async def register_and_leave(client: Client, n: int) -> None:
    """One registration and one de-registration of subscriber n: six transactions."""
    one = POPULATION.subscriber(n)
    impi, impu = one.impi, one.impu_temporary

    async def uar(kind: UserAuthorizationType) -> None:
        await client.ask(
            UserAuthorizationRequest(
                user_name=impi,
                public_identity=impu,
                visited_network_identifier=REALM.encode(),
                user_authorization_type=kind,
            )
        )

    async def sar(kind: ServerAssignmentType) -> None:
        await client.ask(
            ServerAssignmentRequest(
                user_name=impi,
                public_identity=[impu],
                server_name=SERVER,
                server_assignment_type=kind,
                user_data_already_available=0,
            )
        )

    await uar(UserAuthorizationType.REGISTRATION)
    await client.ask(
        MultimediaAuthRequest(
            user_name=impi,
            public_identity=impu,
            sip_auth_data_item=SipAuthDataItem(sip_authentication_scheme=AKA_SCHEME),
            sip_number_auth_items=1,
            server_name=SERVER,
        )
    )
    await uar(UserAuthorizationType.REGISTRATION)
    await sar(ServerAssignmentType.REGISTRATION)
    await uar(UserAuthorizationType.DE_REGISTRATION)
    await sar(ServerAssignmentType.USER_DEREGISTRATION)


BENCH = Bench(
    "HSS", make_node, CX, (f"cscf.{REALM}", REALM), succeeded, register_and_leave,
    transactions=6, units=POPULATION.count, bar=" (bar: 3,000)",
)  # fmt: skip

if __name__ == "__main__":
    run(BENCH, __doc__, rate=400.0)
