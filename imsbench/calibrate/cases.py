"""The cases of a calibration: for each a load, what is injected into it, and how it is judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

from imsbench.calibrate import judge
from imsbench.calibrate.judge import CALLS, REGISTRATIONS, Apart, Failing, Judge
from imsbench.profile import Profile


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


FULL = Scale(phones=400, rate=80.0, calls=400, call_rate=25.0, stall_rate=5.0)
"""Near half of what a machine of two processors carries, phones, core and all."""
SHORT = Scale(phones=100, rate=25.0, calls=0, call_rate=0.0, stall_rate=10.0, few=True)
"""A few cases, in about half a minute."""


@dataclass(frozen=True, slots=True)
class Case:
    """One load with something known injected into it."""

    title: str
    """What is injected."""
    profile: Profile
    """The load and the faults."""
    judge: Judge
    """Which rows its result gives."""


def cases(scale: Scale) -> list[Case]:
    """All cases of a scale, in order."""
    found = list(_registrations(scale))
    if scale.calls:
        found += _calls(scale)
    return found


def _registrations(scale: Scale) -> Iterator[Case]:
    yield _case(scale, "Nothing", judge.all_succeed)
    yield _case(
        scale,
        "401 delayed, constant 120 ms to half, 20 ms to the others",
        judge.delayed(REGISTRATIONS, Apart((0.070, inf), (0, 0.070), held_s=0.020)),
        target=_delays("401 REGISTER", ("120ms", 0.5), ("20ms", 1.0)),
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
    yield _case(
        scale,
        "200 delayed, exponential, mean 30 ms, to half, constant 400 ms to the others",
        judge.delayed(REGISTRATIONS, Apart((0, 0.320), (0.320, inf), held_s=0.400)),
        target=_delays("200 REGISTER", ("30ms", 0.5), ("400ms", 1.0), kind="exponential"),
    )
    yield _case(
        scale,
        "401 delayed, constant 500 ms to 5%, 20 ms to the others",
        judge.delayed(REGISTRATIONS, Apart((0.250, inf), (0, 0.250), held_s=0.020)),
        target=_delays("401 REGISTER", ("500ms", 0.05), ("20ms", 1.0)),
    )
    yield _case(
        scale,
        "200 of 5% of registrations lost",
        judge.failing(Failing(0, ("timeout",))),
        phones={"registration_timeout": "4s"},
        target={"faults": [{"what": "loss", "on": ["200 REGISTER"], "share": 0.05}]},
    )
    yield _case(
        scale,
        "Slow HSS: 10 ms, and 100 ms more for half of the MARs",
        judge.delayed(REGISTRATIONS, Apart((0.100, inf), (0, 0.100))),
        hss={"response_time": {"mean": "10ms"}, "faults": [_slow("MAR", "100ms", 0.5)]},
    )
    yield _case(
        scale,
        "Silent HSS: 3% of MARs never answered",
        judge.failing(Failing(0, ("504",))),
        hss={"faults": [{"what": "silence", "commands": ["MAR"], "share": 0.03}]},
    )


def _calls(scale: Scale) -> Iterator[Case]:
    yield _case(scale, "Nothing, calls", judge.all_succeed, calls=True)
    yield _case(
        scale,
        "180 delayed, constant 140 ms to half, 20 ms to the others",
        judge.delayed(CALLS, Apart((0.090, inf), (0, 0.090), held_s=0.020)),
        calls=True,
        target=_delays("180 INVITE", ("140ms", 0.5), ("20ms", 1.0)),
    )
    yield _case(
        scale,
        "Slow PCRF: 10 ms, and 120 ms more for 20% of the AARs (calls of which one was struck)",
        # Four AARs come before a 180: for each leg at two SDP answers, one after the other.
        judge.delayed(CALLS, Apart((0.120, 0.240), (0, 0.120), counted=False)),
        calls=True,
        pcrf={"response_time": {"mean": "10ms"}, "faults": [_slow("AAR", "120ms", 0.2)]},
    )
    yield _case(
        scale,
        "503 to 10% of calls",
        judge.failing(Failing(0, ("503",), calls=True)),
        calls=True,
        target={"faults": [{"what": "error", "on": ["INVITE"], "share": 0.1, "status": 503}]},
    )
    yield _case(
        scale,
        "Silent PCRF: 2% of AARs never answered",
        judge.failing(Failing(0, ("Rx",), calls=True, spent_on="Rx: signalling sessions failed")),
        calls=True,
        pcrf={"faults": [{"what": "silence", "commands": ["AAR"], "share": 0.02}]},
    )


def _stall(scale: Scale) -> Case:
    count = 100
    middle_s = count / scale.stall_rate / 2
    return _case(
        scale,
        f"Core stands still for 2 s, {middle_s:g} s after the start",
        judge.stalled,
        # Who waited comes to the HSS at once; 100 ms are allowed.
        generator={"arrivals": "constant", "limits": {"simulator_p99": "50ms"}},
        phases=[{"fill": {"rate": scale.stall_rate, "to": count}}],
        faults=[
            {"what": "core_stall", "step": 1, "at": f"{middle_s:g}s", "duration": "2s"},
        ],
    )


# Those that are not struck are held too, where that can be: what sleeps and wakes takes longer than what
# goes on (by 0.7 ms, measured), and two messages of one turn go apart. The difference is a whole number of
# gaps between arrivals, where it can be: what goes on then meets as much of other attempts, struck or not.


def _delays(
    answer: str, some: tuple[str, float], others: tuple[str, float], *, kind: str = "constant"
) -> dict[str, Any]:
    """A target that delays some of its answers by a distribution of this mean, and others by a constant."""
    faults = [
        {"what": "delay", "on": [answer], "share": share, "delay": {"kind": shape, "mean": mean}}
        for (mean, share), shape in ((some, kind), (others, "constant"))
    ]
    return {"faults": faults}


def _slow(command: str, mean: str, share: float) -> dict[str, Any]:
    return {"what": "delay", "commands": [command], "share": share, "delay": {"mean": mean}}


def _case(
    scale: Scale,
    title: str,
    how: Judge,
    *,
    calls: bool = False,
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
        "phases": phases or _phases(scale, calls=calls),
    }
    return Case(title, Profile.model_validate(values | sections), how)


def _phases(scale: Scale, *, calls: bool) -> list[dict[str, Any]]:
    fill = {"fill": {"rate": scale.rate, "to": scale.phones}}
    if not calls:
        return [fill]
    load = {
        "rate": scale.call_rate,
        "duration": f"{scale.calls / scale.call_rate:g}s",
        "warm_up": "0s",
        "ring": {"mean": "300ms"},  # or the answer would overtake a 180 that is delayed
        "hold": {"mean": "1s"},
    }
    return [fill, {"calls": load}]
