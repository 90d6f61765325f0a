"""From a load of calls to two phones and one call, and from their counts to the target's signature."""

from __future__ import annotations

from datetime import UTC, datetime

from imsbench.profile import load_profile, parse_profile
from imsbench.report.parts import ProcedureSignature
from imsbench.run.derive import one_call
from imsbench.run.observe import signature_of
from imsbench.run.record import RunRecord, StepRecord

MIXED = parse_profile(
    """
name: mixed
subscribers: {count: 5000}
phones: {refresh_phase: uniform}
target: {call_faults: {lose_bye_share: 0.5, die_at_call: 7}, expires: 100s}
generator: {workers: 4, arrivals: poisson}
phases:
  - fill: {rate: 100, to: 4000}
  - together:
      - cycle: {rate: 100}
      - calls:
          {rate: 5, duration: 1h, preconditions: false, request_uri: tel, busy: 0.5, ring: {mean: 5s},
           hold: {kind: exponential, mean: 90s}, bye_by_callee: 0.5, calls_per_phone: 3,
           watch_release: 300s}
thresholds: [call_drop_rate < 1%]
"""
)


def test_the_one_call_is_as_those_of_the_load_but_short_and_answered() -> None:
    few = one_call(MIXED)
    assert (few.subscribers.count, few.generator.workers) == (2, 1)
    assert few.thresholds == ()
    fill, called, first, second, again = few.steps()
    assert (first.kind, first.refresh) == ("hold", "registration")
    assert (second.kind, second.refresh) == ("hold", "subscription")
    assert (fill.kind, fill.registered) == ("fill", 2)
    assert (called.kind, called.attempts, called.evaluated_calls) == ("calls", 1, 1)
    assert (again.kind, again.attempts) == ("cycle", 2)
    calls = called.calls
    assert calls is not None
    assert (calls.preconditions, calls.request_uri) == (False, "tel")
    assert (calls.busy, calls.bye_by_callee, calls.calls_per_phone) == (0.0, 0.0, 1)
    assert (calls.hold.mean, calls.ring.mean, calls.watch_release) == (0.5, 0.0, 0.0)
    assert few.target.call_faults.lose_bye_share == few.target.call_faults.die_at_call == 0
    assert few.target.expires == MIXED.target.expires


def test_a_profile_without_calls_is_called_by_the_defaults() -> None:
    few = one_call(load_profile("first-light-1000"))
    calls = few.steps()[1].calls
    assert calls is not None
    assert calls.preconditions


def step(index: int, messages: dict[str, int], commands: dict[str, dict[str, int]]) -> StepRecord:
    """A step that is over."""
    record = StepRecord(one_call(MIXED).steps()[index], complete=True)
    record.messages, record.commands = messages, commands
    return record


def test_the_signature_is_what_each_procedure_costs() -> None:
    record = RunRecord(started=datetime.now(UTC))
    record.steps = [
        step(
            0,
            {"-> REGISTER": 4, "<- 401 REGISTER": 2, "<- NOTIFY": 2},
            {"hss": {"UAR": 4, "MAR": 2, "SAR": 2}, "pcrf": {"AAR": 2}},
        ),
        step(
            1, {"-> INVITE": 1, "<- INVITE": 1}, {"hss": {"LIR": 1, "MAR": 0}, "pcrf": {"AAR": 4}}
        ),
        step(2, {"-> REGISTER": 2, "<- 200 REGISTER": 2}, {"hss": {"UAR": 2}, "pcrf": {}}),
        step(3, {"-> SUBSCRIBE": 2, "<- NOTIFY": 2}, {"hss": {}, "pcrf": {}}),
        step(
            4,
            {"-> REGISTER": 6, "<- 401 REGISTER": 2, "<- NOTIFY": 4},
            {"hss": {"UAR": 6, "MAR": 2, "SAR": 4}, "pcrf": {"AAR": 2, "STR": 2}},
        ),
    ]
    signature = signature_of(record)
    assert signature.registration == ProcedureSignature(
        messages={"-> REGISTER": 2, "<- 401 REGISTER": 1, "<- NOTIFY": 1},
        commands={"AAR": 1, "MAR": 1, "SAR": 1, "UAR": 2},
    )
    assert signature.call == ProcedureSignature(
        messages={"-> INVITE": 1, "<- INVITE": 1}, commands={"AAR": 4, "LIR": 1}
    )
    assert signature.deregistration == ProcedureSignature(
        messages={"-> REGISTER": 1, "<- NOTIFY": 1}, commands={"SAR": 1, "STR": 1, "UAR": 1}
    )
    assert signature.reregistration == ProcedureSignature(
        messages={"-> REGISTER": 1, "<- 200 REGISTER": 1}, commands={"UAR": 1}
    )
    assert signature.subscription_refresh == ProcedureSignature(
        messages={"-> SUBSCRIBE": 1, "<- NOTIFY": 1}
    )


def test_phones_that_do_not_subscribe_refresh_their_registration_only() -> None:
    silent = MIXED.model_copy(
        update={"phones": MIXED.phones.model_copy(update={"subscribe_reg_event": False})}
    )
    assert [step.refresh for step in one_call(silent).steps() if step.kind == "hold"] == [
        "registration"
    ]
