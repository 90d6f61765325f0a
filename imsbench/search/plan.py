"""From a profile and a procedure to the steps of a search: the population, the load, its ceiling."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor, inf

from imsbench.kpi.adequacy import Limits, Scenario
from imsbench.profile import (
    Calls,
    Fill,
    Phase,
    Problem,
    Profile,
    ProfileError,
    Search,
    SearchProcedure,
    Span,
    Step,
    Trial,
    TrialLoad,
    spell_duration,
)
from imsbench.profile.erlang import lacking_phones
from imsbench.run.configs import repair_rate
from imsbench.search.methods import Method

PROBE_S = 2.0
"""A probe's length, seconds: long enough to read the target's CPU."""
_MARGIN_PHONES = 2
"""Phones of each worker beyond its even share: two parts of a step may each be rounded up."""

_SCENARIOS: dict[TrialLoad, tuple[Scenario, ...]] = {
    "registration": ("registration", "subscription"),
    "cycle": ("deregistration", "registration", "subscription"),
    "calls": ("call",),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a search does with a profile."""

    profile: Profile
    """Whose phones, target and settings."""
    procedure: SearchProcedure
    """What is searched for."""
    method: Method
    """How."""
    registered: int
    """Phones that stay registered all along."""
    shares: dict[TrialLoad, float]
    """Each load's share of the attempts."""
    calls: Calls | None
    """The calls, where it has any."""
    most: float
    """Highest load that can be tried, attempts per second."""

    @property
    def search(self) -> Search:
        """What the profile says of searching."""
        return self.profile.search

    @property
    def span(self) -> Span:
        """Where it begins, and how it goes on."""
        return self.search.span(self.procedure)

    @property
    def objective(self) -> float:
        """Largest share of inadequately handled attempts, 0..1; RFC 7501 wants none."""
        return 0.0 if self.method == "rfc7502" else self.search.objective

    @property
    def limits(self) -> Limits:
        """Longest adequate time of each scenario that is judged, seconds."""
        limits = self.search.time_limits
        known: dict[Scenario, float] = {
            "registration": limits.registration,
            "deregistration": limits.deregistration,
            "subscription": limits.subscription,
            "call": limits.call,
        }
        judged = [name for load in self.shares for name in _SCENARIOS[load]]
        return {name: known[name] for name in dict.fromkeys(judged)}

    @property
    def leading(self) -> tuple[Scenario, ...]:
        """The scenarios that the load's rate counts."""
        return tuple("call" if load == "calls" else "registration" for load in self.shares)

    @property
    def transient_s(self) -> float:
        """Beginning of each step that is not evaluated, seconds: calls must first stand."""
        if self.method == "rfc7502":
            return 0.0
        standing_s = self.calls.hold.mean + self.calls.ring.mean if self.calls else 0.0
        return self.search.transient + standing_s

    def duration_s(self, rate: float) -> float:
        """Evaluated time of a step, seconds; RFC 7502 counts attempts instead."""
        return self.search.sessions / rate if self.method == "rfc7502" else self.search.duration

    @property
    def for_host(self) -> Profile:
        """A profile that asks of this host what the search will: all phones, where it registers them."""
        if "registration" not in self.shares:
            return self.profile
        everyone = Fill(rate=repair_rate(self.profile), to=self.profile.subscribers.count)
        return self.profile.model_copy(update={"phases": (Phase(fill=everyone),)})

    @property
    def available(self) -> int:
        """Phones that may be registered by a step."""
        spare = self.profile.subscribers.count - self.registered
        return spare - _MARGIN_PHONES * self.profile.generator.workers

    def trial(
        self,
        index: int,
        rate: float,
        role: str,
        *,
        warm_up_s: float | None = None,
        duration_s: float | None = None,
        before: float = 1.0,
        by_second: bool = False,
    ) -> Step:
        """A step of this load; before: rate of the warm-up, times that after it."""
        warm_up_s = self.transient_s if warm_up_s is None else warm_up_s
        duration_s = self.duration_s(rate) if duration_s is None else duration_s
        attempts = rate * (before * warm_up_s + duration_s)
        beyond = 0
        if "registration" in self.shares:
            beyond = round(attempts) + _MARGIN_PHONES * self.profile.generator.workers
        return Step(
            index=index,
            kind="trial",
            rate=rate,
            registered=min(self.registered + beyond, self.profile.subscribers.count),
            registered_before=self.registered,
            passes=1,
            duration_s=warm_up_s + duration_s,
            arrivals=self.profile.generator.arrivals,
            title=f"{self.procedure} at {rate:,.6g}/s ({role}, step {index})",
            warm_up_s=warm_up_s,
            calls=self.calls,
            trial=Trial(
                {load: rate * share for load, share in self.shares.items()},
                before=before,
                limits=dict(self.limits) if by_second else {},
            ),
        )

    def preamble(self, index: int) -> Step:
        """Register the phones that stay registered."""
        rate = repair_rate(self.profile)
        duration_s = self.registered / rate
        return Step(
            index=index,
            kind="fill",
            rate=rate,
            registered=self.registered,
            registered_before=0,
            passes=1,
            duration_s=duration_s,
            arrivals="constant",
            title=f"preamble: {self.registered:,} registered, in {spell_duration(duration_s)}",
        )

    def release(self, index: int, count: int) -> Step:
        """De-register what a step registered."""
        count += _MARGIN_PHONES * self.profile.generator.workers
        rate = self.search.release or repair_rate(self.profile)
        return self._aside(index, "release", rate, count)

    def probe(self, index: int) -> Step:
        """One phone de-registers and registers again."""
        return self._aside(index, "cycle", 1 / PROBE_S, 1)

    def _aside(self, index: int, load: TrialLoad, rate: float, count: int) -> Step:
        """A step that is no measurement; its warm-up is nothing."""
        return Step(
            index=index,
            kind="trial",
            rate=rate,
            registered=self.registered,
            registered_before=0,
            passes=1,
            duration_s=count / rate,
            arrivals="constant",
            title=f"{load} ({count:,})",
            trial=Trial({load: rate}),
        )


def make_plan(profile: Profile, procedure: SearchProcedure, method: Method) -> Plan:
    """What a search does with this profile; ProfileError if the profile has not what it takes."""
    shares, calls, problem = _load_of(profile, procedure)
    if problem:
        raise ProfileError(profile.name, [Problem("phases", None, problem)])
    registered = profile.search.registered
    if registered is None:
        first = next((step for step in profile.steps() if step.kind == "fill"), None)
        registered = 1 if procedure == "registration" or first is None else first.registered
    registered = min(registered, profile.subscribers.count)
    plan = Plan(profile, procedure, method, registered, shares, calls, inf)
    most = _ceiling(plan)
    wanted = plan.span.most
    most = most if wanted is None else min(most, wanted)
    if method == "rfc7502" and most < 1:
        text = (
            f"RFC 7502 tries whole attempts per second, but {most:.4g}/s are the most to be tried"
        )
        raise ProfileError(profile.name, [Problem(f"search.{procedure}.most", None, text)])
    if most < plan.span.start:
        text = (
            f"a search for {procedure} begins at {plan.span.start:g}/s, but {registered:,} registered "
            f"of {profile.subscribers.count:,} subscribers suffice for {max(most, 0.0):.4g}/s only"
        )
        raise ProfileError(profile.name, [Problem(f"search.{procedure}.start", None, text)])
    if not round(plan.span.start * plan.duration_s(plan.span.start)):
        text = f"{plan.span.start:g}/s makes no attempt in the first step of {profile.search.duration:g} s"
        raise ProfileError(profile.name, [Problem(f"search.{procedure}.start", None, text)])
    return replace(plan, most=most)


def _load_of(
    profile: Profile, procedure: SearchProcedure
) -> tuple[dict[TrialLoad, float], Calls | None, str]:
    """Shares of the loads, the calls, and what the profile lacks."""
    steps = profile.steps()
    calls = next((step.calls for step in steps if step.calls is not None), None)
    match procedure:
        case "registration":
            return {"registration": 1.0}, None, ""
        case "cycle":
            return {"cycle": 1.0}, None, ""
        case "call":
            lacks = (
                ""
                if calls
                else "a search for calls needs a phase of calls, which says how they are"
            )
            return {"calls": 1.0}, calls, lacks
        case "mix":
            both = next((s for s in steps if s.beside and s.beside.kind == "cycle"), None)
            if both is None or both.beside is None or both.beside.reattach:
                lacks = "a search for a mix needs calls and a cycle together, as its proportion"
                if both is not None:
                    lacks += "; re-attaches are not searched for"
                return {}, None, lacks
            whole = both.rate + both.beside.rate
            shares: dict[TrialLoad, float] = {
                "cycle": both.beside.rate / whole,
                "calls": both.rate / whole,
            }
            return shares, both.calls, ""


def _ceiling(plan: Plan) -> float:
    """Highest load that the subscribers suffice for, attempts per second."""
    if "registration" in plan.shares:
        if plan.method == "rfc7502":
            return inf if plan.search.sessions <= plan.available else 0.0
        return plan.available / (plan.transient_s + plan.search.duration)
    if plan.calls is None:
        return inf
    share, workers = plan.shares["calls"], plan.profile.generator.workers

    def suffice(rate: float) -> bool:
        step = replace(plan.trial(0, rate, "search"), rate=rate * share)
        return not lacking_phones(step, workers)

    low, high = 0.0, 1e6
    if suffice(high):
        return inf
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if suffice(middle) else (low, middle)
    return floor(low * 1000) / 1000
