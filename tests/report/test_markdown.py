"""The report: a golden page, and what must be true of every page."""

from __future__ import annotations

import io
import math
import pathlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.markdown import Markdown

from imsbench.kpi.kpis import StepKpis
from imsbench.kpi.statistics import Ratio
from imsbench.report import RunResult, render
from imsbench.report.expected import expected_cx
from imsbench.report.form import (
    cell,
    spell_bytes,
    spell_quantile,
    spell_rate,
    spell_ratio,
    spell_share,
    spell_time,
    table,
)
from tests.kpi.outcomes import success
from tests.report.results import PROFILE, hand_made

GOLDEN = pathlib.Path(__file__).parent / "golden.md"


def test_the_golden_page() -> None:
    assert render(hand_made()) == GOLDEN.read_text(encoding="utf-8")


def test_the_page_comes_from_the_json_alone() -> None:
    text = hand_made().to_json()
    assert render(RunResult.from_json(text)) == render(RunResult.from_json(text.encode()))
    assert render(RunResult.from_json(text)) == GOLDEN.read_text(encoding="utf-8")


def test_tables_line_up_in_a_terminal() -> None:
    lengths: set[int] = set()
    for line in [*render(hand_made()).splitlines(), ""]:
        if line.startswith("|"):
            lengths.add(len(line))
        else:
            assert len(lengths) <= 1
            lengths.clear()


def test_an_embedded_target_is_titled_a_self_test() -> None:
    page = render(hand_made())
    assert page.startswith("# Self-test: reference core, not a product; shares this machine\n")
    assert "no capacity of anything" in page


@pytest.mark.parametrize(
    ("target", "title"),
    [
        ("{kind: 'null'}", "# Generator floor: null target, no core\n"),
        ("{kind: external, pcscf: '192.0.2.1:5060', name: Core*, version: '3'}",
         "# Measured capacity of Core\\* 3\n"),
    ],
)  # fmt: skip
def test_titles_of_other_targets(target: str, title: str) -> None:
    text = re.sub(r"target: .*", f"target: {target}", PROFILE)
    text = re.sub(r"simulators: .*\n", "", text)
    result = hand_made(text)
    result.hss = result.core = None
    page = render(result)
    assert page.startswith(title)
    assert "no capacity of anything" not in page
    assert "Cx UAR" not in page


def test_an_invalid_step_is_struck_through_with_its_reason_wherever_it_shows() -> None:
    page = render(hand_made())
    struck = [line for line in page.splitlines() if line.startswith("| ~~")]
    # registrations, de-registrations, subscriptions, generator health three times
    assert len(struck) == 6
    assert page.count("Struck through: the generator cannot vouch for it; “Generator health”") == 3
    assert page.count("~~200 registered, 40/s~~: The mean of registrations is") == 1
    assert all("~~" not in line for line in page.splitlines() if "held 13 s" in line)


def test_what_a_target_says_cannot_break_the_page() -> None:
    page = render(hand_made())
    assert "403 No \\| such \\<b>user\\<" in page
    fences = [line for line in page.splitlines() if line.startswith("```")]
    assert fences == ["```text", "```"]


def test_an_empty_interrupted_run_still_renders() -> None:
    result = hand_made()
    result.steps, result.workers, result.thresholds, result.hosts = [], [], [], []
    result.hss = result.core = None
    result.status, result.reason, result.exit_code = "interrupted", "interrupted by a signal", 130
    page = render(result)
    assert "- The run was interrupted: interrupted by a signal.\n" in page
    assert "0 of 0 succeeded" in page
    assert "nan" not in page.lower()


def test_cx_transactions_follow_from_the_phones_counts() -> None:
    result = hand_made()
    # 2 UAR, 1 MAR, 1 SAR a registration; 1 UAR a refresh; 1 UAR, 1 SAR a de-registration;
    # three failures: a REGISTER (no challenge counted by these outcomes) each.
    assert expected_cx(result) == {
        "UAR": 2 * 597 + 3 + 200 + 400, "MAR": 597, "SAR": 597 + 400,
    }  # fmt: skip
    repaired = StepKpis()
    repaired.record(success())
    assert result.steps[3].repair is not None
    result.steps[3].repair.kpis = repaired
    assert expected_cx(result)["UAR"] == 2 * 598 + 3 + 200 + 400
    page = render(result)
    assert re.search(r"Cx SAR +\| +998 \| +997 \| differs by -1 ", page)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "—"), (math.nan, "—"), (0.0, "0.00 ms"), (0.00042, "0.42 ms"), (0.00996, "10 ms"),
        (0.0087, "8.7 ms"), (0.000996, "1.0 ms"), (0.029, "29 ms"), (0.307, "307 ms"),
        (0.9994, "999 ms"), (0.9996, "1.00 s"), (1.04, "1.04 s"), (5.1, "5.10 s"),
        (9.996, "10.0 s"), (23.6, "23.6 s"), (99.96, "100 s"), (1234.0, "1,234 s"),
    ],
)  # fmt: skip
def test_times(seconds: float | None, text: str) -> None:
    assert spell_time(seconds) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(None, "—"), (0.0, "0%"), (1.0, "100%"), (0.1, "10%"), (0.99999, "99.99%"),
     (0.000001, "0.01%"), (0.999, "99.9%"), (0.505, "50.5%"), (0.9612, "96.1%")],
)  # fmt: skip
def test_shares_are_never_rounded_to_certainty(share: float | None, text: str) -> None:
    assert spell_share(share) == text


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_only_all_reads_100_percent(whole: int, part: int) -> None:
    part = min(part, whole)
    assert (spell_share(part / whole) == "100%") == (part == whole)
    assert (spell_share(part / whole) == "0%") == (part == 0)


def test_rates_and_their_intervals() -> None:
    assert spell_ratio(Ratio(0, 0)) == "—"
    assert spell_ratio(Ratio(200, 200)) == "100% (98.1 to 100%)"
    assert [spell_rate(r) for r in (None, 0.333, 16.66, 100.0, 1234.5)] == [
        "—", "0.333", "16.7", "100", "1,234",
    ]  # fmt: skip


def test_quantiles_and_their_intervals() -> None:
    kpis = StepKpis()
    for i in range(99):
        kpis.record(success(time_s=0.010 + i / 1e5))
    assert spell_quantile(kpis, "registration_time", 0.99) == "—"
    kpis.record(success(time_s=0.020))
    assert spell_quantile(kpis, "registration_time", 0.99) == "11 ms (11 ms to …)"
    for i in range(900):
        kpis.record(success(time_s=0.010 + i / 1e5))
    assert spell_quantile(kpis, "registration_time", 0.99) == "19 ms (19 to 19 ms)"


def test_bytes() -> None:
    assert [spell_bytes(n) for n in (1023, 2048, 3 << 20, 24 << 30)] == [
        "1,023 bytes", "2 KiB", "3 MiB", "24.0 GiB",
    ]  # fmt: skip


@given(st.lists(st.text(max_size=12), min_size=1, max_size=5))
def test_any_text_fits_a_cell(texts: list[str]) -> None:
    lines = table(["What"], [[cell(text)] for text in texts])
    assert len(lines) == len(texts) + 2
    for line in lines:
        assert "\n" not in line
        assert len(re.findall(r"(?<!\\)\|", line.replace("\\\\", ""))) == 2


def test_the_generators_tables_fit_a_terminal_of_100_columns() -> None:
    page = render(hand_made())
    health = page[page.index("## Generator health") : page.index("## HSS simulator")]
    shown = io.StringIO()
    Console(width=100, file=shown, color_system=None).print(Markdown(health))
    assert "…" not in shown.getvalue()
    for heading in ("Made (/s)  Late p50", "Phone time", "ESP packets  ESP drops  Stall"):
        assert heading in shown.getvalue()  # not broken over lines
    for column in ("Made", "CPU", "Dropped", "Phone time", "ESP packets", "ESP drops", "Stall"):
        assert f"\n- **{column}**" in health
