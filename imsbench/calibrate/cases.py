"""The cases of a calibration: for each a load, what is injected into it, and how it is judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from imsbench.calibrate import judge
from imsbench.calibrate.judge import CALLS, REGISTRATIONS, Failing, Judge
from imsbench.profile import Profile

Kind = Literal["registration", "call"]

_CX_TRANSACTIONS = 4
"""UAR, MAR, UAR, SAR: of a registration with IMS-AKA at the reference core, one after the other."""
_RX_TRANSACTIONS = 4
"""AARs before the 180 of a call with preconditions: for each leg at two SDP answers, one after the other."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the cases are."""

    phones: int
    """Initial registrations of a case; a hundred, or some, so that shares come out even."""
    rate: float
    """Of those, per second."""
    calls: int
    """Call attempts of a case; 0: no case with calls."""
    call_rate: float
    """Of those, per second."""
    stall_rate: float
    """Initial registrations per second at a target that stands still: few, so that they do not queue."""
    few: bool = False
    """Whether only one case of each sort is made."""


FULL = Scale(phones=400, rate=80.0, calls=200, call_rate=25.0, stall_rate=5.0)
"""Near half of what a machine of two processors carries, phones, core and all."""
SHORT = Scale(phones=100, rate=25.0, calls=0, call_rate=0.0, stall_rate=10.0, few=True)
"""A few cases, in about half a minute."""


@dataclass(frozen=True, slots=True)
class Case:
    """One load with something known injected into it."""

    title: str
    """What is injected."""
    kind: Kind
    """What is measured: the case without faults of the same kind comes first."""
    profile: Profile
    """The load and the faults."""
    judge: Judge
    """Which rows its result gives."""
    is_base: bool = False
    """Whether those of its kind behind it are compared with its times."""
    held_s: float = 0.0
    """What is injected into each attempt of it, if it is such a one, seconds."""

    @property
    def time(self) -> str:
        """The time KPI of its kind."""
        return REGISTRATIONS if self.kind == "registration" else CALLS


def cases(scale: Scale) -> list[Case]:
    """All cases of a scale, in order."""
    found = list(_registrations(scale))
    if scale.calls:
        found += _calls(scale)
    return found


def _registrations(scale: Scale) -> Iterator[Case]:
    yield _base(scale, "Nothing")
    yield _base(
        scale,
        "401 delayed, constant 20 ms",
        held_s=0.020,
        target={"faults": [_delay("401 REGISTER", "20ms")]},
    )
    yield _case(
        scale,
        "401 delayed, constant 50 ms",
        judge.delayed(REGISTRATIONS),
        target={"faults": [_delay("401 REGISTER", "50ms")]},
    )
    yield _case(
        scale,
        "503 to 10% of registrations",
        judge.failing(Failing(0, ("503",))),
        target={"faults": [{"what": "error", "on": ["REGISTER"], "share": 0.1, "status": 503}]},
    )
    yield _case(
        scale,
        "5012 of the HSS to 5% of MARs",
        judge.failing(Failing(0, ("500",))),
        hss={"faults": [{"what": "error", "commands": ["MAR"], "share": 0.05, "result": 5012}]},
    )
    yield _stall(scale)
    if not scale.few:
        yield from _more_registrations(scale)


def _more_registrations(scale: Scale) -> Iterator[Case]:
    yield _base(
        scale,
        "200 delayed, constant 20 ms",
        held_s=0.020,
        target={"faults": [_delay("200 REGISTER", "20ms")]},
    )
    yield _case(
        scale,
        "200 delayed, exponential, mean 30 ms",
        judge.delayed(REGISTRATIONS),
        target={"faults": [_delay("200 REGISTER", "30ms", kind="exponential")]},
    )
    yield _base(scale, "Nothing, once more")
    yield _case(
        scale,
        "401 of 5% of attempts delayed by 500 ms",
        judge.delayed(REGISTRATIONS, longer_than_s=0.25),
        target={"faults": [_delay("401 REGISTER", "500ms", share=0.05)]},
    )
    yield _case(
        scale,
        "200 of 5% of registrations lost",
        judge.failing(Failing(0, ("timeout",))),
        phones={"registration_timeout": "4s"},
        target={"faults": [{"what": "loss", "on": ["200 REGISTER"], "share": 0.05}]},
    )
    yield _base(
        scale,
        "Slow HSS, constant 8 ms",
        held_s=_CX_TRANSACTIONS * 0.008,
        hss={"response_time": {"mean": "8ms"}},
    )
    yield _case(
        scale,
        "Slow HSS, constant 10 ms",
        judge.slowed(REGISTRATIONS, _CX_TRANSACTIONS * 0.010),
        hss={"response_time": {"mean": "10ms"}},
    )
    yield _case(
        scale,
        "Silent HSS: 3% of MARs never answered",
        judge.failing(Failing(0, ("504",))),
        hss={"faults": [{"what": "silence", "commands": ["MAR"], "share": 0.03}]},
    )


def _calls(scale: Scale) -> Iterator[Case]:
    yield _base(scale, "Nothing, calls", "call")
    yield _base(
        scale,
        "180 delayed, constant 70 ms",
        "call",
        held_s=0.070,
        target={"faults": [_delay("180 INVITE", "70ms")]},
    )
    yield _case(
        scale,
        "180 delayed, constant 100 ms",
        judge.delayed(CALLS),
        kind="call",
        target={"faults": [_delay("180 INVITE", "100ms")]},
    )
    yield _base(
        scale,
        "Slow PCRF, constant 8 ms",
        "call",
        held_s=_RX_TRANSACTIONS * 0.008,
        pcrf={"response_time": {"mean": "8ms"}},
    )
    yield _case(
        scale,
        "Slow PCRF, constant 10 ms",
        judge.slowed(CALLS, _RX_TRANSACTIONS * 0.010),
        kind="call",
        pcrf={"response_time": {"mean": "10ms"}},
    )
    yield _case(
        scale,
        "503 to 10% of calls",
        judge.failing(Failing(0, ("503",), calls=True)),
        kind="call",
        target={"faults": [{"what": "error", "on": ["INVITE"], "share": 0.1, "status": 503}]},
    )
    yield _case(
        scale,
        "Silent PCRF: 2% of AARs never answered",
        judge.failing(Failing(0, ("Rx",), calls=True, spent_on="Rx: signalling sessions failed")),
        kind="call",
        pcrf={"faults": [{"what": "silence", "commands": ["AAR"], "share": 0.02}]},
    )


def _base(
    scale: Scale, title: str, kind: Kind = "registration", *, held_s: float = 0.0, **sections: Any
) -> Case:
    """What the cases behind it are compared with: nothing is injected, or less at the same place.

    Less rather than nothing where every message is held back: what sleeps and wakes takes a little longer
    than what goes on, the more so the longer it slept (2 ms between 20 and 100 ms, measured), and two
    messages of one turn go apart, however short the delay.
    """
    case = _case(scale, title, judge.all_succeed, kind=kind, **sections)
    return replace(case, is_base=True, held_s=held_s)


def _stall(scale: Scale) -> Case:
    count = 100
    middle_s = count / scale.stall_rate / 2
    return _case(
        scale,
        f"Core stands still for 2 s, {middle_s:g} s after the start",
        judge.stalled,
        phases=[{"fill": {"rate": scale.stall_rate, "to": count}}],
        faults=[
            {"what": "core_stall", "step": 1, "at": f"{middle_s:g}s", "duration": "2s"},
        ],
    )


def _delay(answer: str, mean: str, *, kind: str = "constant", share: float = 1.0) -> dict[str, Any]:
    delay = {"kind": kind, "mean": mean}
    return {"what": "delay", "on": [answer], "share": share, "delay": delay}


def _case(
    scale: Scale,
    title: str,
    how: Judge,
    *,
    kind: Kind = "registration",
    hss: dict[str, Any] | None = None,
    pcrf: dict[str, Any] | None = None,
    phases: list[dict[str, Any]] | None = None,
    **sections: Any,
) -> Case:
    """A case whose profile differs from that of its kind by these sections."""
    values = {
        "name": "calibration",
        "subscribers": {"count": scale.phones},
        "generator": {"arrivals": "constant"},
        "simulators": {"hss": hss or {}, "pcrf": pcrf or {}},
        "phases": phases or _phases(scale, kind),
    }
    return Case(title, kind, Profile.model_validate(values | sections), how)


def _phases(scale: Scale, kind: Kind) -> list[dict[str, Any]]:
    fill = {"fill": {"rate": scale.rate, "to": scale.phones}}
    if kind == "registration":
        return [fill]
    calls = {
        "rate": scale.call_rate,
        "duration": f"{scale.calls / scale.call_rate:g}s",
        "warm_up": "0s",
        "ring": {"mean": "300ms"},  # or the answer would overtake a 180 that is delayed
        "hold": {"mean": "1s"},
    }
    return [fill, {"calls": calls}]
