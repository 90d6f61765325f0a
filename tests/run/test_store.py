"""A result is written whole, or not at all; and a report that cannot be made costs nothing."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from imsbench.report import markdown, read_result
from imsbench.report.result import RunResult
from imsbench.run.exits import DEFECT, HOST_LACKS, KEPT
from imsbench.run.store import store
from tests.report.results import hand_made


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Every write beyond fails after a part, as on a disk that is full (here: EFBIG)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_numbers_and_report_are_written(tmp_path: Path) -> None:
    result = hand_made()
    stored = store(result, tmp_path / "run")
    assert (stored.problems, stored.exit_code) == ([], KEPT)
    assert [path.name for path in stored.files] == ["result.json", "report.md"]
    assert sorted(tmp_path.glob("run/*")) == sorted(stored.files)
    assert (tmp_path / "run" / "report.md").read_text() == stored.report
    assert read_result(tmp_path / "run").to_json() == result.to_json()


def test_a_full_disk_leaves_no_part_and_the_report_in_hand(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("old")
    with files_of_at_most(1000):
        stored = store(hand_made(), tmp_path)
    assert (tmp_path / "result.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    assert stored.exit_code == HOST_LACKS
    assert stored.files == []
    assert stored.problems == [
        f"{tmp_path}/result.json could not be written: File too large",
        f"{tmp_path}/report.md could not be written: File too large",
    ]
    assert stored.report.startswith("# Self-test")


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    stored = store(hand_made(), tmp_path / "file" / "run")
    assert stored.exit_code == HOST_LACKS
    assert "Not a directory" in stored.problems[0]


def test_a_report_that_cannot_be_made_does_not_cost_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_result: RunResult) -> str:
        raise ZeroDivisionError("in a table")

    monkeypatch.setattr(markdown, "render", fail)
    stored = store(hand_made(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    assert (stored.exit_code, stored.report) == (DEFECT, "")
    assert "a defect of imsbench; result.json is whole" in stored.problems[0]
    assert "ZeroDivisionError: in a table" in stored.problems[0]
