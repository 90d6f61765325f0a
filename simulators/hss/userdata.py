"""User-Data: the subscriber's profile as XML (TS 29.228 annex E; the order of elements matters)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from imsbench.subscriber import Subscriber

POINTS = ("RequestURI", "Method", "SIPHeader", "SessionCase", "SessionDescription")
"""What a service point trigger may look at."""


@dataclass(frozen=True, slots=True)
class ServicePoint:
    """One SPT of a trigger (TS 29.228 annex E)."""

    kind: str
    """One of POINTS."""
    value: str
    """What it is compared with: URI, method, header name, session case 0-4 or SDP line."""
    content: str = ""
    """Content of the header or line; empty: any."""
    group: int = 0
    """Which group of the normal form it belongs to."""
    negated: bool = False
    """Whether it must not match."""
    registration_types: tuple[int, ...] = ()
    """0 initial, 1 re-registration, 2 de-registration; at most two."""


@dataclass(frozen=True, slots=True)
class FilterCriteria:
    """One initial filter criterion: when these points match, this application server is asked."""

    priority: int
    """Lower comes first."""
    server_name: str
    """SIP URI of the application server."""
    points: tuple[ServicePoint, ...] = ()
    """The trigger; none: always."""
    conjunctive: bool = True
    """Whether the trigger is in conjunctive normal form."""
    default_handling: int | None = None
    """0 session continued, 1 session terminated, when the server does not answer."""
    service_info: str = ""
    """Given to the application server as it is."""

    @classmethod
    def from_config(cls, values: Mapping[str, Any]) -> FilterCriteria:
        """From a configuration's mapping; TypeError or ValueError if it is not of its form."""
        points = []
        for point in values.get("points", ()):
            types = tuple(point.get("registration_types", ()))
            points.append(ServicePoint(**{**point, "registration_types": types}))
            if points[-1].kind not in POINTS:
                raise ValueError(f"service point {points[-1].kind!r} is none of {POINTS}")
        return cls(**{**values, "points": tuple(points)})


class UserDataWriter:
    """Writes User-Data; filter criteria are the same for all, so rendered once."""

    def __init__(self, filter_criteria: Sequence[FilterCriteria] = ()) -> None:
        self._criteria = "".join(_criteria(one) for one in filter_criteria)

    def serialize(self, subscriber: Subscriber) -> bytes:
        """One service profile with the whole implicit set; the temporary identity is barred."""
        temporary, *others = subscriber.impus
        identities = _identity(temporary, barred=True) + "".join(
            _identity(one, barred=False) for one in others
        )
        return (
            '<?xml version="1.0" encoding="UTF-8"?><IMSSubscription>'
            f"<PrivateID>{escape(subscriber.impi)}</PrivateID>"
            f"<ServiceProfile>{identities}{self._criteria}</ServiceProfile></IMSSubscription>"
        ).encode()


def _identity(identity: str, *, barred: bool) -> str:
    return (
        f"<PublicIdentity><BarringIndication>{barred:d}</BarringIndication>"
        f"<Identity>{escape(identity)}</Identity></PublicIdentity>"
    )


def _criteria(one: FilterCriteria) -> str:
    trigger = ""
    if one.points:
        points = "".join(_point(point) for point in one.points)
        trigger = (
            f"<TriggerPoint><ConditionTypeCNF>{one.conjunctive:d}</ConditionTypeCNF>"
            f"{points}</TriggerPoint>"
        )
    handling = _element("DefaultHandling", one.default_handling)
    info = _element("ServiceInfo", one.service_info or None)
    return (
        f"<InitialFilterCriteria><Priority>{one.priority}</Priority>{trigger}"
        f"<ApplicationServer><ServerName>{escape(one.server_name)}</ServerName>"
        f"{handling}{info}</ApplicationServer></InitialFilterCriteria>"
    )


def _point(point: ServicePoint) -> str:
    content = _element("Content", point.content or None)
    match point.kind:
        case "SIPHeader":
            what = f"<SIPHeader><Header>{escape(point.value)}</Header>{content}</SIPHeader>"
        case "SessionDescription":
            line = f"<Line>{escape(point.value)}</Line>{content}"
            what = f"<SessionDescription>{line}</SessionDescription>"
        case _:
            what = f"<{point.kind}>{escape(point.value)}</{point.kind}>"
    types = "".join(_element("RegistrationType", one) for one in point.registration_types)
    extension = f"<Extension>{types}</Extension>" if types else ""
    return (
        f"<SPT><ConditionNegated>{point.negated:d}</ConditionNegated>"
        f"<Group>{point.group}</Group>{what}{extension}</SPT>"
    )


def _element(name: str, value: int | str | None) -> str:
    return "" if value is None else f"<{name}>{escape(str(value))}</{name}>"
