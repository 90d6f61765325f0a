"""The course of a search: preamble, stir, the method's steps, confirmation, overload and relief.

It is a source of steps (``run.orders``): it yields the next and is sent what the last one measured. It
reads no clock and starts nothing; whether the generator vouches for a step it is told by a judge.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from math import ceil, inf
from typing import TypeVar

from imsbench.kpi.adequacy import Handled, Limits, all_meet, handled
from imsbench.profile import Span
from imsbench.report.searched import SearchOutcome, TrialRole
from imsbench.run.orders import Order, Source
from imsbench.run.record import StepRecord
from imsbench.search.methods import METHODS, NOTHING_KNOWN, Bracket, Trials, narrowed
from imsbench.search.plan import PROBE_S, Plan

ROUNDS = 4
"""How often a bracket that its confirmation contradicts is moved."""
TRIES = 2
"""How often a step is made that the generator does not vouch for."""
RELEASES = 3
"""How often phones are asked to de-register after a step."""
IDLE_CORES = 0.10
"""By so much a target's CPU may exceed what it was before the first step, and counts as recovered."""
SHORTEST_S = 5.0
"""An overload shorter than this, for want of phones, is not made."""

_T = TypeVar("_T")
_Steps = Generator[Order, StepRecord, _T]


@dataclass(slots=True)
class Measured:
    """One step of a search, judged."""

    role: TrialRole
    """Why it was made."""
    rate: float
    """Attempts per second."""
    record: StepRecord
    """What was measured."""
    parts: list[Handled]
    """How the attempts of each scenario were handled."""
    met: bool
    """Whether every scenario met the objective."""
    reasons: list[str]
    """Why the generator does not vouch for it; empty: it does."""
    recovered_s: float | None = None
    """From its end until a probe found the target as before, seconds; None: it was not looked for."""


class _Ended(Exception):
    """The search ends here."""

    def __init__(self, outcome: SearchOutcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome: SearchOutcome = outcome
        self.reason = reason


@dataclass(slots=True)
class Conductor:
    """One search under way; ``source`` drives it."""

    plan: Plan
    """What is searched, and how."""
    judge: Callable[[StepRecord], list[str]]
    """Why the generator does not vouch for a step."""
    trials: list[Measured] = field(default_factory=list)
    """Every measured step, in order."""
    bracket: Bracket = NOTHING_KNOWN
    """What is known so far."""
    outcome: SearchOutcome = "interrupted"
    """How it ended."""
    reason: str = "It was interrupted."
    """Why, in one sentence."""
    relief_s: int | None = None
    """From the end of the overload until the objective held again, seconds; None: never, or not tried."""
    remarks: list[str] = field(default_factory=list)
    """What was left out, and why."""
    _index: int = 0
    _resting_cores: float | None = None

    def source(self) -> Source:
        """The steps; when it is exhausted, everything is known."""
        try:
            yield from self._prepare()
            yield from self._find()
            yield from self._confirm()
        except _Ended as ended:
            self.outcome, self.reason = ended.outcome, ended.reason
            return
        try:
            yield from self._overload()
        except _Ended as ended:  # what was found stands
            self.remarks.append(f"What comes after an overload is not known: {ended.reason}")

    # private

    def _prepare(self) -> _Steps[None]:
        """TS 186 008's preamble and stir time; then what the target is like at rest."""
        yield Order(self.plan.preamble(self._next()), counted=False)
        if self.plan.search.stir:
            step = self.plan.trial(
                self._next(),
                min(self.plan.span.start, self._most_for(self.plan.search.stir)),
                "stir",
                warm_up_s=0.0,
                duration_s=self.plan.search.stir,
            )
            yield from self._tidied(Order(step, counted=False, title=f"stir: {step.title}"))
        record = yield self._probe()
        self._resting_cores = _cores(record)
        if not self._is_adequate(record):
            raise _Ended("none", "A single phone is not served adequately, before any load.")

    def _search(self, span: Span) -> _Steps[Bracket]:
        """The method's steps, and the bracket it ends with."""
        method = METHODS[self.plan.method]
        return (yield from self._follow(method(span, self.plan.most, self.plan.search)))

    def _follow(self, method: Trials) -> _Steps[Bracket]:
        try:
            rate = next(method)
            while True:
                measured = yield from self._measure(rate, "search")
                rate = method.send(measured.met)
        except StopIteration as end:
            bracket: Bracket = end.value
            return bracket

    def _find(self) -> _Steps[None]:
        self.bracket = yield from self._search(self.plan.span)
        if self.bracket.low is None:
            raise _Ended("none", f"The objective is missed at {self.bracket.high:.4g}/s already.")
        if self.bracket.high is None:
            raise self._at_ceiling()

    def _at_ceiling(self) -> _Ended:
        most = self.plan.most
        what = f"the subscribers suffice for {most:.4g}/s"
        if most == self.plan.span.most:
            what = f"the profile allows {most:.4g}/s at most (search.{self.plan.procedure}.most)"
        return _Ended("ceiling", f"No limit was found: {what}, and the objective is met there.")

    def _confirm(self) -> _Steps[None]:
        """A fresh step at each end of the bracket; where one contradicts it, the bracket moves."""
        for _ in range(ROUNDS):
            low, high = self.bracket.low, self.bracket.high
            assert low is not None
            assert high is not None
            below = yield from self._measure(low, "below")
            if not below.met:
                self.bracket = Bracket(self._highest_good(low), low)
                if self.bracket.low is None:
                    raise _Ended("none", f"No load was good twice; {low:.4g}/s was good once.")
                continue
            above = yield from self._measure(high, "above")
            if not above.met:
                self.outcome = "found"
                self.reason = "A fresh step at each end of the interval confirmed it."
                return
            yield from self._go_on(low, high)
        self.outcome = "unconfirmed"
        self.reason = f"Fresh steps contradicted the interval {ROUNDS} times: the limit moves."

    def _go_on(self, low: float, high: float) -> _Steps[None]:
        """The limit is above: up to the next load that was missed, or where none was, the method anew."""
        known = self._lowest_bad(high)
        if known is None:
            span = self.plan.span.model_copy(update={"start": high})
            further = yield from self._search(span)
            # Good and not good at the same load: the limit is about there.
            self.bracket = Bracket(low, high) if further.low is None else further
        elif self.plan.method == "bisect":
            self.bracket = yield from self._follow(narrowed(high, known, self.plan.search))
        else:
            self.bracket = Bracket(high, known)
        if self.bracket.high is None:
            raise self._at_ceiling()

    def _lowest_bad(self, above: float) -> float | None:
        """The lowest load above this one that was missed, and never was met."""
        good, bad = self._rates(met=True), self._rates(met=False)
        bad = {rate for rate in bad - good if rate > above}
        return min(bad, default=None)

    def _highest_good(self, below: float) -> float | None:
        """The highest load under this one that was good, and never was not."""
        good, bad = self._rates(met=True), self._rates(met=False)
        good = {rate for rate in good - bad if rate < below}
        return max(good, default=None)

    def _rates(self, *, met: bool) -> set[float]:
        """Loads at which the objective was met, or missed, by the generator's word."""
        return {one.rate for one in self.trials if one.met == met and not one.reasons}

    def _overload(self) -> _Steps[None]:
        """More than the limit, to see what is left; then less, to see when all is well again."""
        search, low = self.plan.search, self.bracket.low
        assert low is not None
        rate = search.overload * low
        duration_s = self._fitting(rate, search.duration, self.plan.transient_s)
        if not duration_s:
            return
        yield from self._measure(rate, "overload", duration_s=duration_s, tries=1)
        relief = search.relief * low
        before_s = float(ceil(self._fitting(rate, search.duration, search.duration)))
        if not before_s:
            return
        measured = yield from self._measure(
            relief,
            "relief",
            warm_up_s=before_s,
            duration_s=search.duration,
            before=search.overload / search.relief,
            by_second=True,
            tries=1,
        )
        held = measured.record.timeline.holds_after(int(before_s), self.plan.objective)
        self.relief_s = None if measured.reasons else held

    def _fitting(self, rate: float, wanted_s: float, beside_s: float) -> float:
        """How long this load can be held beside so much more time of it, seconds; 0: too short."""
        asked, why = self.plan.span.most, "the phones do not suffice for it"
        longest_s = wanted_s
        if asked is not None and rate > asked:
            longest_s, why = 0.0, f"the profile's search goes to {asked:.4g}/s"
        elif "registration" in self.plan.shares:
            longest_s = min(wanted_s, self.plan.available / rate - beside_s)
        elif rate > self.plan.most:
            longest_s, why = 0.0, f"the phones suffice for {self.plan.most:.4g}/s"
        if longest_s >= min(SHORTEST_S, wanted_s):
            return longest_s
        self.remarks.append(f"An overload of {rate:.4g}/s was left out: {why}.")
        return 0.0

    def _most_for(self, duration_s: float) -> float:
        return self.plan.available / duration_s if "registration" in self.plan.shares else inf

    def _measure(
        self,
        rate: float,
        role: TrialRole,
        *,
        warm_up_s: float | None = None,
        duration_s: float | None = None,
        before: float = 1.0,
        by_second: bool = False,
        tries: int = TRIES,
    ) -> _Steps[Measured]:
        """One step, made again if the generator does not vouch for it; the target is then as before."""
        for number in range(tries):
            if len(self.trials) >= self.plan.search.steps:
                raise _Ended("too many steps", f"{len(self.trials):,} steps were not enough.")
            step = self.plan.trial(
                self._next(), rate, role, warm_up_s=warm_up_s, duration_s=duration_s,
                before=before, by_second=by_second,
            )  # fmt: skip
            if not step.registrations and not step.evaluated_calls:
                length = f"{step.duration_s - step.warm_up_s:,.6g} s"
                raise _Ended("none", f"A step at {rate:.4g}/s makes no attempt in its {length}.")
            record = yield from self._tidied(Order(step))
            measured = self._judged(role, rate, record)
            self.trials.append(measured)
            if measured.reasons or not measured.met:
                yield from self._recover(measured)
            if not measured.reasons:
                return measured
            last = number + 1 == tries
        if last and role in ("overload", "relief"):
            self.remarks.append(f"The generator does not vouch for the {role} step.")
            return measured
        raise _Ended(
            "generator",
            f"The generator is the limit at {rate:.4g}/s, not the target: {measured.reasons[0]}",
        )

    def _judged(self, role: TrialRole, rate: float, record: StepRecord) -> Measured:
        wanted = record.step.registered_before
        if record.registered_before < wanted:
            raise _Ended(
                "no recovery",
                f"The target refused phones that are to be registered: {record.registered_before:,} of "
                f"{wanted:,} are.",
            )
        parts = handled(record.kpis, self.plan.limits)
        met = all_meet(parts, self.plan.objective)
        return Measured(role, rate, record, parts, met, self.judge(record))

    def _tidied(self, order: Order) -> _Steps[StepRecord]:
        """A step, and the phones that it registered de-registered again."""
        record = yield order
        left = record.registered_after
        for _ in range(RELEASES):
            if "registration" not in self.plan.shares or left <= self.plan.registered:
                break
            step = self.plan.release(self._next(), left - self.plan.registered)
            released = yield Order(step, counted=False, repair=False, title="release the phones")
            left = released.registered_after
        return record

    def _recover(self, measured: Measured) -> _Steps[None]:
        """Probes, until one is served adequately and the target's CPU is at rest."""
        ended_at = measured.record.started_at + measured.record.elapsed_s
        while True:
            probe = yield self._probe()
            waited_s = probe.started_at + probe.elapsed_s - ended_at
            cores = _cores(probe)
            resting = self._resting_cores
            at_rest = cores is None or resting is None or cores <= resting + IDLE_CORES
            if self._is_adequate(probe) and at_rest:
                measured.recovered_s = waited_s
                return
            if waited_s > self.plan.search.recovery:
                why = "a single phone is not served adequately"
                if self._is_adequate(probe):
                    why = f"its CPU is at {cores:.2f} cores, and was at {resting:.2f} before"
                raise _Ended(
                    "no recovery",
                    f"{waited_s:.0f} s after {measured.rate:.4g}/s the target has not recovered: {why}.",
                )

    def _probe(self) -> Order:
        step = self.plan.probe(self._next())
        return Order(step, counted=False, title=f"probe: one phone, {PROBE_S:g} s")

    def _is_adequate(self, probe: StepRecord) -> bool:
        limits = self.plan.search.time_limits
        wanted: Limits = {
            "deregistration": limits.deregistration,
            "registration": limits.registration,
        }
        parts = handled(probe.kpis, wanted)
        return all(part.attempted and part.meets(0.0) for part in parts)

    def _next(self) -> int:
        self._index += 1
        return self._index - 1


def _cores(record: StepRecord) -> float | None:
    cores: float | None = (record.sut or {}).get("cpu_cores")
    return cores
