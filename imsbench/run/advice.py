"""What to look at when a phone does not register: from stage and cause to advice.

Stages and causes are the few fixed words of ``phone`` and ``engine``; the first rule that fits wins.
"""

from __future__ import annotations

from dataclasses import dataclass

from imsbench.profile import Profile
from imsbench.protocol.address import host_port
from imsbench.run import configs, network

UNREACHED_CAUSES = frozenset(
    ("refused", "timeout", "tcp timeout", "unreachable", "reset by target", "closed by target")
)
"""Causes that at the stage "connect" mean: nobody is there."""


@dataclass(frozen=True, slots=True)
class _Rule:
    stages: tuple[str, ...]
    """Stages it fits; none: all."""
    causes: tuple[str, ...]
    """Causes it fits; none: all."""
    text: str
    """The advice; {pcscf}, {route}, {domain}, {algs} are filled in."""


_RULES = (
    _Rule(
        ("connect",),
        ("refused",),
        "nothing listens for SIP over TCP at {pcscf}: check target.pcscf and the core's listener",
    ),
    _Rule(
        ("challenge",),
        ("refused",),
        "nothing listens for SIP over UDP at {pcscf}: check target.pcscf and phones.transport",
    ),
    _Rule(
        ("connect",),
        (),
        "no answer from {pcscf}: is the core's way back to the phones set ({route}), does this host "
        "forward (sysctl net.ipv4.ip_forward), does a firewall drop forwarded packets?",
    ),
    _Rule(
        ("challenge",),
        ("403", "404"),
        "the core knows no such subscriber: compare IMSI and home domain ({domain}) with its HSS",
    ),
    _Rule(
        ("challenge",),
        ("420", "421", "494"),
        "the core and the phones disagree on sec-agree: phones.ipsec, and what it offers ({algs})",
    ),
    _Rule(
        ("challenge", "answer"),
        ("408", "500", "503", "504"),
        "the core failed inside: its Diameter connection to the HSS is the first thing to look at",
    ),
    _Rule(
        ("challenge",),
        ("timeout",),
        "the REGISTER left (by TCP: the connection stands), but no response came: does the core's log "
        "show this REGISTER, and does it wait for its HSS?",
    ),
    _Rule(
        (),
        ("mac failure",),
        "the network's AUTN is not made with this phone's keys: compare subscribers.k, op or opc "
        "(an OP is not an OPc) and the AMF with the HSS",
    ),
    _Rule(
        (),
        ("sync failure",),
        "the HSS did not take the AUTS: does the core pass it on (SIP-Authorization in the MAR)?",
    ),
    _Rule(
        ("resynchronisation",),
        (),
        "the challenge was out of sequence, and the AUTS that says so was not answered by a new "
        "challenge: does the core pass it to the HSS (SIP-Authorization in the MAR)?",
    ),
    _Rule(
        (),
        ("bad challenge",),
        "the 401 carries no AKA challenge the phone can use: the core must ask for AKAv1-MD5",
    ),
    _Rule(
        (),
        ("no Security-Server", "bad Security-Server", "not protected"),
        "the P-CSCF did not agree to IPsec: is ims-3gpp with {algs} on at the core? "
        "(phones.ipsec: off registers without)",
    ),
    _Rule(
        ("sa",),
        (),
        "this host refused the security associations: imsbench check names what it lacks",
    ),
    _Rule(
        ("answer",),
        ("401", "403"),
        "the AKA response was refused: do core and HSS take RES as binary (RFC 3310), and is XRES "
        "as long as the phones' RES (8 bytes)?",
    ),
    _Rule(
        ("deregistration",),
        ("timeout",),
        "the 200 was lost, or came in clear because the P-CSCF had deleted its security associations: "
        "a line “noticed  esp clear_responses_in” would say so",
    ),
    _Rule(
        ("notify",),
        ("no notify",),
        "the SUBSCRIBE was accepted, but no NOTIFY came: does the P-CSCF reach the phone at port_us by "
        "its own connection, inside the security associations, and by the transport of phones.transport?",
    ),
    _Rule(
        ("answer", "refresh", "deregistration", "subscribe"),
        ("timeout", "refused", "reset", "unreachable"),
        "the clear part works, the protected one does not: are the core's security associations up, "
        "and may ESP (IP protocol 50) pass between this host and {pcscf}?",
    ),
    _Rule(
        (),
        ("Rx",),
        "no resources were authorised: does the PCRF know this AF and this phone's address, and does it "
        "answer (Diameter Rx)?",
    ),
    _Rule(
        ("invite",),
        ("404", "480", "604"),
        "the core does not find the called phone by this Request-URI: try calls.request_uri tel or sip, "
        "and look at the called subscriber's implicit registration set in the HSS",
    ),
    _Rule(
        ("invite",),
        ("timeout", "408", "504"),
        "the INVITE was lost on its way: the called phone's ladder shows whether it came so far",
    ),
    _Rule(
        ("invite",),
        ("500", "503"),
        "the core refused the call: what it says of it, its log and its processors tell why; the called "
        "phone's ladder shows whether the INVITE came so far",
    ),
    _Rule(
        ("prack", "update", "ack", "bye"),
        (),
        "within the dialog: do Record-Route and the route set lead through the core both ways?",
    ),
    _Rule(
        ("check",),
        ("wrong call",),
        "the call came through, but not as it was made: P-Asserted-Identity must be the caller's, and "
        "SDP must arrive as it was sent",
    ),
    _Rule((), (), "the ladder shows the last message; the core's log shows what came of it"),
)


def advice(profile: Profile, stage: str, cause: str, detail: str = "") -> str:
    """What to look at after a failure at this stage with this cause.

    ``detail``: what the far end said (``phone.attempt.rejected``); its Warning comes first, as it is
    the core's own word for what the rest can only guess.
    """
    rule = next(
        rule
        for rule in _RULES
        if (not rule.stages or stage in rule.stages) and (not rule.causes or cause in rule.causes)
    )
    external = profile.target.kind == "external"
    return _warning(detail) + rule.text.format(
        pcscf=host_port(*configs.pcscf(profile)),
        route=network.route_advice(profile) if external else "none is needed here",
        domain=configs.population(profile).home_domain,
        algs=", ".join(profile.phones.algs),
    )


def _warning(detail: str) -> str:
    """The text of a Warning (RFC 3261 §20.43: code, agent, quoted text), introduced; "" if none."""
    value = detail.partition("warning: ")[2]
    if not value:
        return ""
    text = value.partition('"')[2].rpartition('"')[0]
    return f"the core says: “{text or value}”; if that does not tell: "
