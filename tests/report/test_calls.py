"""The report of a run with calls: a golden page, and each table's rules."""

from __future__ import annotations

import pathlib
import re

import pytest

from imsbench.kpi.kpis import StepKpis
from imsbench.kpi.sessions import SessionKpis
from imsbench.profile import parse_profile
from imsbench.profile.model import Target
from imsbench.report import RunResult, render
from imsbench.report.calls import scenario
from imsbench.report.expected import (
    expected_cx,
    expected_in_progress,
    expected_rx,
)
from imsbench.report.parts import CoreResult, EndedCalls, PcrfResult, TargetUsage
from imsbench.report.result import ThresholdResult
from imsbench.report.system import host
from tests.kpi.outcomes import call, refused_call, success
from tests.report.call_results import EMBEDDED, PROFILE, calls_made, usage
from tests.report.results import command

GOLDEN = pathlib.Path(__file__).parent / "golden_calls.md"


def row(page: str, first: str) -> list[str]:
    """The cells of the only row whose first cell is this."""
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in page.splitlines()
        if line.startswith("|")
    ]
    (found,) = [one for one in cells if one[0] == first]
    return found


def section(page: str, title: str) -> str:
    return page.split(f"\n## {title}\n")[1].split("\n## ")[0]


def calls_of(profile_text: str) -> str:
    profile = parse_profile(
        PROFILE.replace("hold: {mean: 90s}", f"hold: {{mean: 90s}}, {profile_text}")
    )
    made = profile.phases[2].calls
    assert made is not None
    return scenario(made, profile)


def test_the_golden_page() -> None:
    assert render(calls_made()) == GOLDEN.read_text(encoding="utf-8")


def test_the_page_comes_from_the_json_alone() -> None:
    text = calls_made().to_json()
    assert RunResult.from_json(text).to_json() == text
    assert render(RunResult.from_json(text)) == GOLDEN.read_text(encoding="utf-8")


def test_tables_line_up_in_a_terminal() -> None:
    for table in re.findall(r"(?:^\|.*\n)+", render(calls_made()), re.MULTILINE):
        assert len({len(line) for line in table.splitlines()}) == 1


def test_the_published_tables_come_first_and_in_their_order() -> None:
    titles = re.findall(r"^## (.*)$", render(calls_made()), re.MULTILINE)
    published = [
        "Registrations",
        "Re-registrations",
        "Calls",
        "Memory",
        "Limits",
        "Host Requirements",
    ]
    assert [title for title in titles if title in published] == published
    assert titles[-1] == "Test Setup"


def test_a_self_test_shows_no_cpu_and_no_memory_whatever_was_read() -> None:
    result = calls_made(EMBEDDED)
    assert result.steps[2].sut is not None
    page = render(result)
    assert row(section(page, "Calls"), "2")[-2:] == ["—", "—"]
    assert "MiB" not in section(page, "Memory")
    assert section(page, "Memory").count("not measured in a self-test") == 4
    assert "a self-test: the target is no product" in section(page, "Calls")


def test_what_was_not_read_is_a_dash_with_its_reason() -> None:
    result = calls_made()
    result.idle = result.ended_calls = None
    for done in result.steps:
        done.sut = TargetUsage(note="its processes are not on this machine.")
    page = render(result)
    assert row(section(page, "Calls"), "2")[-2:] == ["—", "—"]
    assert "A dash: its processes are not on this machine." in section(page, "Calls")
    memory = section(page, "Memory")
    assert row(memory, "Resident memory, idle")[1:] == [
        "—", "not measured: its processes are not on this machine",
    ]  # fmt: skip
    assert "(calls.watch_release)" in memory
    for done in result.steps:
        done.sut = None
    assert "the target's processes were not read in this run" in render(result)


@pytest.mark.parametrize(
    ("ended", "text"),
    [
        (EndedCalls(released_s=0.2), "Released within 1 s"),
        (EndedCalls(released_s=118.2), "Released within 1 min 58 s"),
        (EndedCalls(again="reused"), "Kept, and reused by new calls"),
        (EndedCalls(again="grows"), "Kept, and grows with new calls"),
        (EndedCalls(), "Not released while it was watched"),
        (
            EndedCalls(
                again="grows",
                watched_s=300,
                growth_bytes=50 << 20,
                kept_bytes=40 << 20,
                added_bytes=30 << 20,
            ),
            "a second identical batch of calls added 30 MiB; 40 MiB of the first one's 50 MiB were left "
            "after 5 min",
        ),
        (
            EndedCalls(
                again="reused",
                watched_s=60,
                growth_bytes=50 << 20,
                kept_bytes=40 << 20,
                added_bytes=-4096,
            ),
            "added nothing; 40 MiB of the first one's 50 MiB were left after 1 min",
        ),
    ],
)
def test_memory_of_ended_calls(ended: EndedCalls, text: str) -> None:
    result = calls_made()
    result.ended_calls = ended
    assert text in " ".join(row(render(result), "Memory of ended calls"))


def test_memory_per_subscriber_is_of_the_fullest_step_without_calls() -> None:
    result = calls_made()
    # (101 - 30) MiB / 1,000 = 72.7 KiB, of the cycle; the calls' 267 MiB are not registrations'.
    assert row(render(result), "Resident memory per registered subscriber")[1] == "72.7 KiB"
    result.steps[1].sut = usage(0.9, 20 << 20)
    assert row(render(result), "Resident memory per registered subscriber")[1] == "—"


def test_several_processes_and_the_host_stand_in_parentheses() -> None:
    result = calls_made()
    result.steps[2].sut = TargetUsage(cpu_cores=0.5, memory_rss_bytes=4 << 30, memory_kind="pss")
    assert row(section(render(result), "Calls"), "2")[-2:] == ["0.50", "4.0 GiB"]


def test_limits_say_what_was_kept_and_what_was_first_broken() -> None:
    result = calls_made()
    assert row(render(result), "Call rate")[1] == "2/s kept; 5/s is the first broken"
    result.steps[2].reasons = ["the generator was the queue"]
    assert row(render(result), "Call rate")[1] == "2/s is the first not to be judged"
    result = calls_made()
    result.thresholds = []  # then every attempt must succeed
    assert row(render(result), "Call rate")[1] == "2/s kept; 5/s is the first broken"
    assert row(render(result), "Registration rate")[1] == "100/s kept; none broken"
    result.steps = result.steps[:2]
    assert row(render(result), "Call rate")[1:] == ["—", "not measured: not part of this profile"]


def test_a_load_whose_attempts_fail_is_not_kept_for_want_of_a_threshold() -> None:
    """A threshold on a time says nothing where too little succeeded to have one."""
    result = calls_made()
    of_time = ThresholdResult(text="registration_time.p99 < 200ms", state="kept", steps={0: 0.01})
    result.thresholds = [of_time]
    assert row(render(result), "Registration rate")[1] == "100/s kept; none broken"
    assert row(render(result), "Call rate")[1] == "2/s kept; 5/s is the first broken"
    of_rate = ThresholdResult(
        text="session_establishment_success_rate >= 50%", state="kept", steps={2: 1.0, 3: 0.9}
    )
    result.thresholds = [of_time, of_rate]
    assert row(render(result), "Call rate")[1] == "5/s kept; none broken"


def test_what_a_target_declares_stands_in_its_table_and_is_marked() -> None:
    page = render(calls_made())
    assert row(page, "MCPTT users")[1:] == ["1,000", "declared"]
    assert row(page, "Receive queues")[1:] == ["One per CPU", "declared"]
    assert row(page, "Network")[1:] == ["virtio_net \\| one queue per vCPU", "declared"]
    text = re.sub(r"  declared:\n(    - .*\n)+", "", PROFILE)
    page = render(calls_made(text))
    assert row(page, "Network")[1] == row(page, "Disk")[1] == row(page, "Receive queues")[1] == "—"
    assert "MCPTT" not in page


def test_a_labs_receive_queues_are_those_of_this_machine() -> None:
    result = calls_made(re.sub(r"  declared:\n(    - .*\n)+", "", PROFILE))
    assert "is not read by this run" in "\n".join(host(result))
    lab = Target(kind="lab")
    result.profile = result.profile.model_copy(update={"target": lab})
    assert "all traffic stays within this machine" in "\n".join(host(result))


def test_a_limit_that_the_generator_cannot_vouch_for_says_so() -> None:
    result = calls_made()
    for done in result.steps:
        done.reasons = ["The generator was late."]
    assert row(render(result), "Registered subscribers")[1:] == [
        "—",
        "not measured: the generator vouches for no step that ended with all its phones registered",
    ]
    for done in result.steps:
        done.registered_after = 1
    assert row(render(result), "Registered subscribers")[2] == (
        "not measured: no step ended with all its phones registered"
    )


def test_an_invalid_step_is_struck_through_in_every_table_of_calls() -> None:
    result = calls_made()
    result.steps[3].reasons = ["The generator was the queue."]
    page = render(result)
    assert section(page, "Calls").count("| ~~") >= 1
    assert "“Generator health” says why" in section(page, "Calls")
    assert page.count("* ~~1,000 registered, calls, 5/s~~: The generator was the queue.") == 1
    for title in ("Calls, RFC 6076", "Calls, both ends", "Generator health", "Re-registrations"):
        assert "| ~~" in section(page, title), title


def test_reregistrations_are_one_row_for_a_populations_calls() -> None:
    page = section(render(calls_made()), "Re-registrations")
    cells = row(page, "1,000")
    assert (cells[1], cells[-1]) == ("calls at 2, 5/s", "300")
    # 300 in 2 x (200 s + the drain of 90.1 s): the warm-up is left out.
    assert cells[2] == f"{300 / 580.2:.3g}"
    assert "drawn evenly from that interval" in page


def test_reregistrations_of_other_steps_keep_their_own_rows() -> None:
    result = calls_made()
    result.steps[1].kpis.record(success("reregistration"))
    page = section(render(result), "Re-registrations")
    assert len([line for line in page.splitlines() if line.startswith("| ")]) == 4


def test_both_ladders_of_a_call_stand_side_by_side_in_one_order() -> None:
    page = section(render(calls_made()), "Failures")
    block = page.split("```text\n")[1].split("\n```\n")[0].rstrip("`\n").splitlines()
    assert [line[:12].strip() for line in block[2:]] == [
        "0.1 ms", "7.0 ms", "8.0 ms", "15.1 ms", "30.1 ms",
    ]  # fmt: skip
    callee = block[0].index("called phone")
    assert block[3][callee:].startswith("<- * INVITE sip:402@")
    assert block[3][13:callee].strip(" |") == ""
    assert block[5][callee:] == ""
    assert "phone 17 calls phone 402" in page


def test_no_calls_no_tables_of_calls() -> None:
    result = calls_made()
    result.steps, result.pcrf = result.steps[:2], None
    page = render(result)
    assert section(page, "Calls").strip() == "No calls in any step."
    assert "RFC 6076\n" not in page.replace("RFC 6076 ", "")
    assert "## PCRF simulator" not in page


def test_a_pcrf_that_was_silent_is_named() -> None:
    result = calls_made()
    result.pcrf = None
    page = render(result)
    assert "None, or it did not live to report." in section(page, "PCRF simulator")
    assert row(page, "Policy")[1] == "Not simulated, or it did not live to report"


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ("pairs: fixed", "Voice calls with preconditions (IR.92 §2.4.1), answered at once, held 90 s; "
                         "without bearer set-up."),
        ("preconditions: false", "Voice calls without preconditions"),
        ("ring: {kind: exponential, mean: 5s}", "answered after ringing 5 s on average (exponential)"),
        ("ringing: false", "answered without a 180"),
        ("reliable_ringing: true", "answered at once after a 180 (sent reliably)"),
        ("busy: 0.02, rejected: 0.01", "2% busy (486), 1% rejected (603);"),
        ("cancelled: 0.1, cancel_after: 3s", "10% cancelled after 3 s of ringing"),
        ("bye_by_callee: 0.5", "50% of the answered ended by the called phone"),
        ("hold_resume: true", "each put on hold and resumed once"),
        ("session_expires: 90", "refreshed every 45 s (RFC 4028)"),
    ],
)  # fmt: skip
def test_a_scenario_in_words(settings: str, text: str) -> None:
    assert text in calls_of(settings)


@pytest.mark.parametrize(
    ("pcrf", "text"),
    [
        ("bearer_setup: {mean: 50ms}", "; bearer set-up 50 ms."),
        ("enabled: false", "; no PCRF is asked."),
    ],
)
def test_bearers_in_words(pcrf: str, text: str) -> None:
    profile = parse_profile(PROFILE.replace("response_time: {mean: 1ms}", pcrf))
    made = profile.phases[2].calls
    assert made is not None
    assert scenario(made, profile).endswith(text)


# -- expected against measured ---------------------------------------------------------------------


def test_calls_in_progress_by_littles_law() -> None:
    result = calls_made()
    step, done = result.profile.steps()[2], result.steps[2]
    expected = expected_in_progress(step, done)
    assert expected is not None
    # 2/s x (22.5 ms less half a gap + 90 s + 4 ms)
    assert expected.mean == pytest.approx(2 * (0.02248 + 90.0 + 0.004), rel=1e-5)
    assert expected.tolerance == pytest.approx(0.01 * expected.mean)


def test_poisson_calls_may_lie_off_by_three_standard_errors() -> None:
    result = calls_made(PROFILE.replace("arrivals: constant", "arrivals: poisson").replace(
        "hold: {mean: 90s}", "hold: {mean: 90s}, calls_per_phone: 2"))  # fmt: skip
    expected = expected_in_progress(result.profile.steps()[2], result.steps[2])
    assert expected is not None
    h = 90.02648
    error = (2 * h * h / 200 * (1 - h / 600)) ** 0.5
    assert expected.tolerance == pytest.approx(3 * error, rel=1e-4)
    assert "3 standard errors" in expected.why


def test_poisson_calls_are_expected_as_often_as_they_became_due() -> None:
    result = calls_made(PROFILE.replace("arrivals: constant", "arrivals: poisson").replace(
        "hold: {mean: 90s}", "hold: {mean: 90s}, calls_per_phone: 2"))  # fmt: skip
    result.steps[2].health[0].called, result.steps[2].health[0].without_pair = 401, 2
    page = render(result)
    assert row(page, "Calls of “1,000 registered, calls, 2/s”")[1:] == [
        "403",
        "400",
        "differs by -3",
    ]
    health = section(page, "Generator health")
    health = health[health.index("Dropped") : health.index("Host CPU")]  # the second table
    assert row(health, "1,000 registered, calls, 2/s")[1] == "2"


def test_calls_that_are_not_answered_count_with_their_own_time() -> None:
    result = calls_made()
    kpis = StepKpis()
    for i in range(50):
        kpis.record_call(call(due_at=1000 + i))
        kpis.record_call(refused_call(486, cause="", due_at=1000 + i, after_s=10.0))
    kpis.sessions.in_progress = result.steps[2].kpis.sessions.in_progress
    result.steps[2].kpis = kpis
    expected = expected_in_progress(result.profile.steps()[2], result.steps[2])
    assert expected is not None
    assert expected.mean == pytest.approx(2 * (0.5 * 90.024 + 0.5 * 10.0))


def test_calls_in_progress_are_not_compared_before_the_load_stands() -> None:
    text = PROFILE.replace("duration: 200s", "duration: 200s, warm_up: 60s")
    page = section(render(calls_made(text)), "Expected against measured")
    assert page.count("not compared: the load did not stand when its evaluation began") == 2


def test_calls_in_progress_that_differ_are_told() -> None:
    result = calls_made()
    result.steps[2].kpis.sessions.in_progress.integral_s *= 0.98
    page = section(render(result), "Expected against measured")
    assert "differs: -3.6" in page


def embedded_run() -> RunResult:
    """Only clean steps, and simulators that counted what follows from them; with a warm-up outside."""
    result = calls_made(EMBEDDED)
    result.steps = result.steps[:3]
    outside = StepKpis()
    for i in range(436):
        outside.record_call(call(due_at=500 + i / 2))
    outside.record(success("reregistration"))
    result.workers[0].outside = outside
    result.core = CoreResult(counters={}, registered=1000)
    assert result.hss is not None
    calls = 400 + 436
    result.hss.commands = {
        "UAR": command(2000 * 2 + 1000 + 151, 0.0002), "MAR": command(2000, 0.0002),
        "SAR": command(3000, 0.0002), "LIR": command(calls, 0.0002),
    }  # fmt: skip
    result.pcrf = PcrfResult(
        commands={
            "AAR": command(2000 + 4 * calls, 0.001),
            "STR": command(1000 + 2 * calls, 0.001),
        },
        sessions=1000,
    )
    return result


def test_cx_and_rx_of_calls_add_up_with_those_outside_every_step() -> None:
    result = embedded_run()
    assert expected_cx(result) == {"UAR": 5151, "MAR": 2000, "SAR": 3000, "LIR": 836}
    assert expected_rx(result) == {"AAR": 2000 + 4 * 836, "STR": 1000 + 2 * 836}
    page = section(render(result), "Expected against measured")
    verdicts = [line for line in page.splitlines() if re.match(r"\| (Cx|Rx|AF|Registered)", line)]
    assert len(verdicts) == 9
    assert all("adds up" in line for line in verdicts)


def test_calls_that_end_otherwise_as_planned_ask_as_far_as_they_came() -> None:
    result = embedded_run()
    sessions = result.steps[2].kpis
    sessions.record_call(refused_call(486, cause=""))
    cancelled = refused_call(487, cause="", rings=True, progress=True)
    cancelled.answers = 2
    sessions.record_call(cancelled)
    held_and_resumed = call(due_at=1200.0)
    held_and_resumed.answers = 4
    sessions.record_call(held_and_resumed)
    assert expected_rx(result) == {"AAR": 2000 + 4 * 836 + 2 * 6, "STR": 1000 + 2 * 836 + 2 * 2}


def test_rx_is_not_compared_where_calls_failed_and_the_row_says_why() -> None:
    result = embedded_run()
    result.steps[2].kpis.record_call(refused_call(503))
    page = section(render(result), "Expected against measured")
    assert page.count("not compared: calls failed (1), and phones do not see how far") == 2
    assert "Cx LIR" in page


def test_rx_is_not_compared_where_answers_were_not_counted() -> None:
    result = embedded_run()
    told = result.steps[2].kpis.sessions.to_json()
    del told["sdp_answers"], told["negotiated"]
    result.steps[2].kpis.sessions = SessionKpis.from_json(told)
    assert expected_rx(result) == "not compared: this run did not count SDP answers"


def test_refreshed_subscriptions_ask_nothing_over_cx() -> None:
    result = embedded_run()
    before = expected_cx(result)
    result.steps[2].kpis.record(success("subscription_refresh"))
    assert expected_cx(result) == before
