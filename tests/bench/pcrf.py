"""Speed of the PCRF simulator: ``python -m tests.bench.pcrf``.

Prints two figures, with a client on loopback in another process than the PCRF. A leg of a call is AAR, AAR,
STR on one session, as a P-CSCF opens one for each side of a call with preconditions.

* Rx transactions per CPU-second of the PCRF process, at full speed.
* Response time at a steady rate, as the PCRF measures it (last byte read -> first byte written) and as the
  client sees it (written -> decoded).
"""

from __future__ import annotations

from simulators.ipfilter import permit
from simulators.pcrf import PcrfNode
from simulators.rx import (
    RX,
    AaRequest,
    FlowUsage,
    MediaComponentDescription,
    MediaSubComponent,
    MediaType,
    SessionTerminationRequest,
    SubscriptionId,
    SubscriptionIdType,
    TerminationCause,
    codec_data,
    framed,
    succeeded,
)
from tests.bench.diameter import Bench, Client, run

REALM = "ims.mnc001.mcc001.3gppnetwork.org"
TRANSACTIONS_PER_LEG = 3
SDP = (
    "m=audio 50000 RTP/AVP 97 98\nb=AS:49\na=rtpmap:97 AMR-WB/16000/1\n"
    "a=rtpmap:98 telephone-event/16000"
)


def make_node() -> PcrfNode:
    """The PCRF."""
    return PcrfNode(origin_host=f"pcrf.{REALM}", origin_realm=REALM)


async def leg(client: Client, n: int) -> None:
    """Both AARs and the STR of one side of a call."""
    phone, other = f"198.18.{n >> 8 & 255}.{n & 255}", "198.19.0.10"
    session_id = client.peer.new_session_id()
    for role in ("offer", "answer"):
        await client.ask(
            AaRequest(
                session_id=session_id,
                af_application_identifier=b"IMS Services",
                media_component_description=[audio(phone, other, role)],
                specific_action=[2, 4],
                subscription_id=[
                    SubscriptionId(SubscriptionIdType.END_USER_SIP_URI, f"sip:+{n}@{REALM}")
                ],
                **framed(phone),
            )
        )
    await client.ask(
        SessionTerminationRequest(session_id=session_id, termination_cause=TerminationCause.LOGOUT)
    )


def audio(phone: str, other: str, role: str) -> MediaComponentDescription:
    """RTP and RTCP, each way."""
    flows = [
        MediaSubComponent(
            number,
            [
                permit("out", (other, 40000 + number), (phone, 50000 + number)),
                permit("in", (phone, 50000 + number), (other, 40000 + number)),
            ],
            flow_usage=FlowUsage.RTCP if number == 2 else None,
        )
        for number in (1, 2)
    ]
    return MediaComponentDescription(
        media_component_number=1,
        media_sub_component=flows,
        media_type=MediaType.AUDIO,
        max_requested_bandwidth_ul=49_000,
        max_requested_bandwidth_dl=49_000,
        codec_data=[codec_data("uplink", role, SDP), codec_data("downlink", role, SDP)],
    )


BENCH = Bench(
    "PCRF", make_node, RX, (f"pcscf.{REALM}", REALM), succeeded, leg,
    transactions=TRANSACTIONS_PER_LEG, units=1_000_000,
)  # fmt: skip

if __name__ == "__main__":
    run(BENCH, __doc__, rate=600.0)
