"""The target's signature: what was seen of one must scale under load; what does not is a finding."""

from __future__ import annotations

import re

import pytest

from imsbench.kpi.kpis import StepKpis
from imsbench.report import RunResult, render
from imsbench.report.parts import HssResult, PcrfResult, ProcedureSignature, Signature
from imsbench.report.signature import compare
from tests.kpi.outcomes import call, success
from tests.report.call_results import EMBEDDED, calls_made
from tests.report.results import command

OBSERVED = Signature(
    registration=ProcedureSignature(
        messages={"-> REGISTER": 2, "<- 401 REGISTER": 1, "-> SUBSCRIBE": 1},
        commands={"UAR": 2, "MAR": 1, "AAR": 1},
    ),
    call=ProcedureSignature(
        messages={"-> INVITE": 1, "<- INVITE": 1, "<- 183 INVITE": 1}, commands={"LIR": 1, "AAR": 4}
    ),
    deregistration=ProcedureSignature(messages={"-> REGISTER": 1}, commands={"UAR": 1}),
    reregistration=ProcedureSignature(
        messages={"-> REGISTER": 1, "<- NOTIFY": 1}, commands={"UAR": 1}
    ),
    subscription_refresh=ProcedureSignature(messages={"-> SUBSCRIBE": 1, "<- NOTIFY": 1}),
)


def observed_run(*, refreshed: bool = False, settings: str = "") -> RunResult:
    """2,000 registrations, 1,000 de-registrations, 400 calls in steps and 436 in a warm-up."""
    text = EMBEDDED.replace("hold: {mean: 90s}", "hold: {mean: 90s}" + settings)
    result = calls_made(text)
    result.steps = result.steps[:3]
    clean = StepKpis()
    for i in range(400):
        clean.record_call(call(due_at=1000 + i / 2))
    if refreshed:
        clean.record(success("reregistration"))
    result.steps[2].kpis = clean
    outside = StepKpis()
    for i in range(436):
        outside.record_call(call(due_at=500 + i / 2))
    worker = result.workers[0]
    worker.outside = outside
    worker.messages = {
        "-> REGISTER": 5000, "<- 401 REGISTER": 2000, "-> SUBSCRIBE": 2000,
        "-> INVITE": 836, "<- INVITE": 836, "<- 183 INVITE": 836,
    }  # fmt: skip
    result.hss = HssResult(
        commands={
            "UAR": command(5000, 0.001),
            "MAR": command(2000, 0.001),
            "LIR": command(836, 0.001),
        },
        registered=1000,
    )
    result.pcrf = PcrfResult(commands={"AAR": command(2000 + 4 * 836, 0.001)}, sessions=1000)
    result.signature = OBSERVED
    return result


def test_what_was_observed_scales() -> None:
    compared = compare(observed_run())
    assert {one.name for one in compared} == {
        "-> REGISTER", "<- 401 REGISTER", "-> SUBSCRIBE", "-> INVITE", "<- INVITE", "<- 183 INVITE",
        "<- NOTIFY", "UAR", "MAR", "LIR", "AAR",
    }  # fmt: skip
    assert all(one.expected == one.measured for one in compared)
    page = render(observed_run())
    rows = re.findall(r"^\| (?:->|\\<-|UAR|MAR|LIR|AAR).*\|$", page, re.MULTILINE)
    assert sum("scales" in row for row in rows) == 11


def test_what_changed_is_a_finding() -> None:
    result = observed_run()
    result.workers[0].messages["<- 183 INVITE"] += 3  # sent again
    assert result.hss is not None
    result.hss.commands["MAR"] = command(2001, 0.001)  # another challenge
    changed = [one.name for one in compare(result) if one.differs]
    assert changed == ["<- 183 INVITE", "MAR"]
    page = render(result)
    assert re.search(r"<- 183 INVITE .*\| changed by \+3 ", page)


def test_a_message_that_was_never_observed_is_a_finding() -> None:
    result = observed_run()
    result.workers[0].messages["<- 500 INVITE"] = 2
    (finding,) = [one for one in compare(result) if one.differs]
    assert (finding.name, finding.expected, finding.measured) == ("<- 500 INVITE", 0.0, 2)


def test_refreshes_scale_too() -> None:
    result = observed_run(refreshed=True)
    messages = result.workers[0].messages
    messages["-> REGISTER"] += 1
    messages["<- NOTIFY"] = 1
    assert result.hss is not None
    result.hss.commands["UAR"] = command(5001, 0.001)
    assert not [one.name for one in compare(result) if one.differs or one.why]
    messages["-> REGISTER"] += 1  # challenged, as the one before the load was not
    assert [one.name for one in compare(result) if one.differs] == ["-> REGISTER"]


def test_where_refreshes_were_not_observed_the_rows_say_so() -> None:
    result = observed_run(refreshed=True)
    result.signature = OBSERVED.model_copy(update={"reregistration": None})
    compared = {one.name: one for one in compare(result)}
    for name in ("-> REGISTER", "-> SUBSCRIBE", "UAR", "AAR"):
        assert compared[name].expected is None
        assert compared[name].why == "not compared: no re-registration was observed"
    assert compared["<- 183 INVITE"].expected == 836
    assert render(result).count("not compared: no re-registration was observed") == 7


@pytest.mark.parametrize("settings", [", busy: 0.1", ", cancelled: 0.1", ", rejected: 0.1"])
def test_calls_that_end_otherwise_are_not_compared_and_the_rows_say_so(settings: str) -> None:
    compared = {one.name: one for one in compare(observed_run(settings=settings))}
    why = "not compared: some calls were to end before they are answered"
    assert {one.why for one in compared.values() if one.name.endswith("INVITE")} == {why}
    assert compared["AAR"].why == why
    assert compared["-> REGISTER"].expected == 5000


def test_nothing_is_said_where_nothing_was_observed_or_a_worker_is_missing() -> None:
    result = observed_run()
    result.signature = None
    assert compare(result) == []
    assert "signature" not in render(result)
    result = observed_run()
    result.workers = []
    assert compare(result) == []
