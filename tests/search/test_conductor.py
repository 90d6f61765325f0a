"""Whole searches against targets of arithmetic: what is found, and what is said where nothing can be."""

from __future__ import annotations

from typing import get_args

import pytest

from imsbench.profile import ProfileError, Search, SearchProcedure, Span, parse_profile
from imsbench.run.record import StepRecord
from imsbench.search.answer import answer
from imsbench.search.conductor import Conductor
from imsbench.search.methods import Bracket, Method
from imsbench.search.plan import make_plan
from tests.search.targets import TEXT, FakeTarget, drive, no_reasons, profile

METHODS: tuple[Method, ...] = get_args(Method)
TRUTH: dict[SearchProcedure, float] = {
    "registration": 37.0, "cycle": 37.0, "call": 11.0, "mix": 11.0 * 4,
}  # fmt: skip


def search(
    procedure: SearchProcedure = "registration",
    method: Method = "bisect",
    target: FakeTarget | None = None,
    extra: str = "",
    count: int = 5000,
) -> tuple[Conductor, FakeTarget]:
    """A whole search."""
    target = target or FakeTarget()
    conductor = Conductor(make_plan(profile(extra, count), procedure, method), no_reasons)
    drive(conductor, target)
    return conductor, target


@pytest.mark.parametrize("procedure", get_args(SearchProcedure))
@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_every_limit_and_confirms_it(
    procedure: SearchProcedure, method: Method
) -> None:
    conductor, _ = search(procedure, method)
    truth = TRUTH[procedure]
    if procedure == "mix":
        truth = min(11.0 * 4, 37.0 / 3 * 4)  # a call for three registrations
    low, high = conductor.bracket.low, conductor.bracket.high
    assert conductor.outcome == "found"
    assert low is not None
    assert high is not None
    assert low <= truth <= high
    assert low == pytest.approx(truth, rel=0.05)
    roles = [one.role for one in conductor.trials]
    assert roles[-4:] == ["below", "above", "overload", "relief"]
    assert [one.met for one in conductor.trials[-4:-1]] == [True, False, False]


@pytest.mark.parametrize("truth", [7.0, 23.4, 36.5, 71.2])
@pytest.mark.parametrize("method", METHODS)
def test_the_interval_contains_whatever_the_truth_is(method: Method, truth: float) -> None:
    conductor, _ = search("cycle", method, FakeTarget(registrations=truth), "steps: 300")
    low, high = conductor.bracket.low, conductor.bracket.high
    if truth < 30 and method == "stepped":
        assert conductor.outcome == "none"
        assert conductor.reason == "The objective is missed at 30/s already."
        return
    assert conductor.outcome == "found"
    assert low is not None
    assert high is not None
    # The bucket's two tokens hide an excess of two attempts in a step.
    assert low - 2 / 20 <= truth <= high


def test_registrations_leave_between_the_steps_and_the_base_stays() -> None:
    _, target = search("registration", "stepped")
    before = [o.step for o in target.orders if o.counted]
    assert all(step.registered_before == 1 for step in before)
    assert target.registered == 1


def test_a_search_begins_with_preamble_stir_and_a_probe() -> None:
    _, target = search("cycle", "stepped")
    kinds = [(o.step.kind, o.counted, o.title.partition(":")[0]) for o in target.orders[:4]]
    assert kinds == [
        ("fill", False, ""), ("trial", False, "stir"), ("trial", False, "probe"),
        ("trial", True, ""),
    ]  # fmt: skip
    indices = [o.step.index for o in target.orders]
    assert indices == list(range(len(indices)))


def test_a_step_that_misses_is_followed_by_probes_until_one_is_well() -> None:
    """For 7 s after the end of a step beyond 37/s nobody is served."""
    target = FakeTarget()
    blocked: list[float] = [0.0]
    target.adequate_at = lambda at: 0.0 if at < blocked[0] else 1.0
    obey = target.obey

    def slow(order: object) -> StepRecord:
        record = obey(order)  # type: ignore[arg-type]
        if order.counted and record.step.rate > 37.0:  # type: ignore[attr-defined]
            blocked[0] = target.now + 7.0
        return record

    target.obey = slow  # type: ignore[method-assign]
    conductor, _ = search("cycle", "bisect", target)
    assert conductor.outcome == "found"
    missed = [one for one in conductor.trials if not one.met and one.role != "relief"]
    assert all(one.recovered_s is not None and one.recovered_s >= 7 for one in missed), [
        (one.role, one.recovered_s) for one in missed
    ]
    assert all(one.recovered_s is None for one in conductor.trials if one.met)


def test_a_target_that_does_not_recover_ends_the_search() -> None:
    target = FakeTarget()
    broken: list[bool] = [False]

    def adequate_at(_at: float) -> float:
        return 0.0 if broken[0] else 1.0

    target.adequate_at = adequate_at
    obey = target.obey

    def breaking(order: object) -> StepRecord:
        record = obey(order)  # type: ignore[arg-type]
        counted = order.counted  # type: ignore[attr-defined]
        broken[0] = broken[0] or (counted and record.step.rate > 37.0)
        return record

    target.obey = breaking  # type: ignore[method-assign]
    conductor, _ = search("cycle", "bisect", target, "recovery: 10s")
    assert conductor.outcome == "no recovery"
    assert "a single phone is not served adequately" in conductor.reason
    assert conductor.bracket.low is None


def test_cpu_that_stays_high_is_no_recovery_either() -> None:
    target = FakeTarget()
    cores = {"resting": 0.0}
    target.cores = lambda _rate: cores["resting"]
    obey = target.obey

    def heating(order: object) -> StepRecord:
        record = obey(order)  # type: ignore[arg-type]
        if order.counted and record.step.rate > 37.0:  # type: ignore[attr-defined]
            cores["resting"] = 0.9
        return record

    target.obey = heating  # type: ignore[method-assign]
    conductor, _ = search("cycle", "bisect", target, "recovery: 10s")
    assert conductor.outcome == "no recovery"
    assert "its CPU is at 0.90 cores, and was at 0.00 before" in conductor.reason


def test_a_step_without_the_generators_word_is_made_again_and_then_ends_the_search() -> None:
    asked: list[float] = []

    def judge(record: StepRecord) -> list[str]:
        asked.append(record.step.rate)
        return ["Worker 0 used 97% of a core."] if record.step.rate > 34.0 else []

    target = FakeTarget()
    conductor = Conductor(make_plan(profile(), "cycle", "stepped"), judge)
    drive(conductor, target)
    assert conductor.outcome == "generator"
    assert conductor.reason == (
        "The generator is the limit at 35/s, not the target: Worker 0 used 97% of a core."
    )
    assert asked[-2:] == [35.0, 35.0]
    assert [one.rate for one in conductor.trials if not one.reasons][-1] == 34.0


def test_a_hiccup_of_the_generator_costs_one_step() -> None:
    hiccups = [True]

    def judge(record: StepRecord) -> list[str]:
        return ["late"] if record.step.rate > 35.0 and hiccups and hiccups.pop() else []

    conductor = Conductor(make_plan(profile(), "cycle", "stepped"), judge)
    drive(conductor, FakeTarget())
    assert (conductor.outcome, conductor.bracket.low) == ("found", 37.0)
    assert sum(bool(one.reasons) for one in conductor.trials) == 1


def test_where_no_limit_is_found_the_ceiling_is_named() -> None:
    conductor, _ = search("mix", "bisect", FakeTarget(1000.0, 1000.0))
    assert conductor.outcome == "ceiling"
    assert "the subscribers suffice for 120/s" in conductor.reason
    allowed = profile().model_copy(
        update={"search": Search(cycle=Span(start=30.0, increase=1.0, most=50.0))}
    )
    conductor = Conductor(make_plan(allowed, "cycle", "stepped"), no_reasons)
    drive(conductor, FakeTarget(1000.0))
    assert conductor.outcome == "ceiling"
    assert "the profile allows 50/s at most (search.cycle.most)" in conductor.reason
    conductor, _ = search("registration", "bisect", FakeTarget(1000.0), count=1200)
    assert conductor.outcome == "ceiling"
    assert "the subscribers suffice for 54.41/s" in conductor.reason


def test_a_limit_that_moves_up_is_followed() -> None:
    """Refusing at random in the first steps, then at its true limit: the confirmation notices."""
    target = FakeTarget()
    first: list[int] = []
    target.adequate_at = lambda _at: 0.9 if len(first) < 4 else 1.0
    obey = target.obey

    def improving(order: object) -> StepRecord:
        record = obey(order)  # type: ignore[arg-type]
        if record.step.kind == "trial" and record.step.rate > 1:
            first.append(1)
        return record

    target.obey = improving  # type: ignore[method-assign]
    conductor, _ = search("cycle", "bisect", target, "recovery: 300s")
    low, high = conductor.bracket.low, conductor.bracket.high
    assert conductor.outcome == "found"
    assert low is not None
    assert high is not None
    assert low - 0.1 <= 37.0 <= high


def test_the_objective_holds_again_after_the_overload() -> None:
    conductor, target = search("cycle", "bisect")
    assert conductor.relief_s == 0
    blocked: dict[str, float] = {}
    target = FakeTarget()
    obey = target.obey

    def lasting(order: object) -> StepRecord:
        step = order.step  # type: ignore[attr-defined]
        if step.trial is not None and step.trial.limits:
            blocked["until"] = target.now + step.warm_up_s + 3.5
        return obey(order)  # type: ignore[arg-type]

    target.obey = lasting  # type: ignore[method-assign]
    target.adequate_at = lambda at: 0.5 if at < blocked.get("until", 0.0) else 1.0
    conductor, _ = search("cycle", "bisect", target)
    assert conductor.relief_s == 4


def test_too_few_phones_leave_the_overload_out_and_say_so() -> None:
    conductor, _ = search("registration", "bisect", count=1000)
    assert conductor.outcome == "found"
    roles = [one.role for one in conductor.trials]
    assert roles[-1] in ("overload", "above")
    assert any("was left out" in remark for remark in conductor.remarks)


def test_an_interrupted_search_says_so() -> None:
    conductor = Conductor(make_plan(profile(), "cycle", "stepped"), no_reasons)
    source = conductor.source()
    target = FakeTarget()
    order = next(source)
    for _ in range(6):
        order = source.send(target.obey(order))
    source.close()
    assert conductor.outcome == "interrupted"
    assert conductor.trials


def test_a_step_without_attempts_ends_the_search_and_broke_nothing() -> None:
    """Calls that all fail, halved until none is due in a step."""
    wanted = profile().search.model_copy(update={"duration": 10.0})
    plan = make_plan(profile().model_copy(update={"search": wanted}), "call", "bisect")
    conductor = Conductor(plan, no_reasons)
    drive(conductor, FakeTarget(calls=1e-6))
    assert (conductor.outcome, conductor.bracket.low) == ("none", None)
    assert conductor.reason == "A step at 0.03125/s makes no attempt in its 10 s."
    found = answer(conductor, 2)
    assert found.broke == "calls_as_planned"
    assert found.broke_step == conductor.trials[-1].record.step.index


@pytest.mark.parametrize("extra", ["steps: 11", "steps: 12", "recovery: 1s"])
def test_what_was_found_stands_whatever_comes_after_it(extra: str) -> None:
    """Too few steps for an overload; or a target that does not recover from one."""
    target = FakeTarget()
    over: list[bool] = []
    target.adequate_at = lambda _at: 0.0 if over else 1.0
    obey = target.obey

    def breaking(order: object) -> StepRecord:
        record = obey(order)  # type: ignore[arg-type]
        if extra.startswith("recovery") and record.step.rate > 50.0 and target.now > 400:
            over.append(True)
        return record

    target.obey = breaking  # type: ignore[method-assign]
    conductor, _ = search("cycle", "stepped", target, extra)
    assert conductor.outcome == "found"
    assert (conductor.bracket.low, conductor.bracket.high) == (37.0, 38.0)
    assert any("What comes after an overload is not known: " in r for r in conductor.remarks)


def test_an_interval_never_ends_below_where_it_begins() -> None:
    """After a good step above the interval the method begins anew there, and nothing is good any more."""
    conductor = Conductor(make_plan(profile(), "cycle", "rfc7502"), no_reasons)
    target = FakeTarget(registrations=0.5)
    go_on = conductor._go_on(37.0, 38.0)
    order = next(go_on, None)
    while order is not None:
        try:
            order = go_on.send(target.obey(order))
        except StopIteration:
            order = None
    assert min(one.rate for one in conductor.trials) == 1.0
    assert not any(one.met for one in conductor.trials)
    assert conductor.bracket == Bracket(37.0, 38.0)


def test_a_search_by_rfc_7502_wants_a_whole_attempt_per_second() -> None:
    few = profile().model_copy(
        update={"search": Search(cycle=Span(start=0.5, increase=0.1, most=0.8))}
    )
    with pytest.raises(ProfileError, match=r"search\.cycle\.most: RFC 7502 tries whole attempts"):
        make_plan(few, "cycle", "rfc7502")


def test_re_attaches_beside_calls_are_no_mix_to_search_for() -> None:
    text = TEXT.replace("- cycle: {{rate: 3/s}}", "- reattach: {{rate: 3/s}}")
    moving = parse_profile(text.format(search="", count=5000))
    with pytest.raises(ProfileError, match="re-attaches are not searched for"):
        make_plan(moving, "mix", "bisect")
