"""What ``--pcap`` asks of each worker, and what is told of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from imsbench.profile import Profile, parse_profile
from imsbench.run.capture import CaptureOrder, describe
from imsbench.run.exits import RunRefused

TOLD = {
    "file": "/tmp/a b.pcapng",
    "keys": "/tmp/a b.pcapng.esp_sa",
    "phones": 3,
    "problem": "",
    "packets": 1234,
    "kernel_dropped": 0,
    "not_written": 0,
}


def profile(phones: int, workers: int) -> Profile:
    return parse_profile(
        f"name: small\nsubscribers: {{count: {phones}}}\ngenerator: {{workers: {workers}}}\n"
        f"phases:\n  - fill: {{rate: 1, to: {phones}}}\n"
    )


def test_one_worker_writes_the_file_itself() -> None:
    order = CaptureOrder(Path("/tmp/a.pcapng"), 3)
    assert order.config(profile(10, 1), 0) == {"file": "/tmp/a.pcapng", "phones": 3}
    assert order.config(profile(2, 1), 0) == {"file": "/tmp/a.pcapng", "phones": 2}


def test_the_first_phones_are_shared_out_as_all_phones_are() -> None:
    """Worker k has every workers-th phone: of 0, 1, 2 the first of two workers has 0 and 2."""
    order = CaptureOrder(Path("/tmp/a.b.pcapng"), 3)
    assert [order.config(profile(10, 2), worker) for worker in (0, 1)] == [
        {"file": "/tmp/a.b-worker-0.pcapng", "phones": 2},
        {"file": "/tmp/a.b-worker-1.pcapng", "phones": 1},
    ]
    assert order.config(profile(10, 4), 3) is None


def test_a_path_is_made_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Workers may have another folder."""
    monkeypatch.chdir(tmp_path)
    config = CaptureOrder(Path("a.pcapng")).config(profile(10, 1), 0)
    assert config is not None
    assert config["file"] == str(tmp_path / "a.pcapng")


def test_files_of_an_earlier_run_do_not_stay(tmp_path: Path) -> None:
    for name in ("a-worker-0.pcapng", "a-worker-0.pcapng.esp_sa"):
        (tmp_path / name).write_text("old")
    CaptureOrder(tmp_path / "a.pcapng", 1).check(profile(10, 2))
    assert [path.name for path in tmp_path.iterdir()] == ["a-worker-0.pcapng"]
    assert (tmp_path / "a-worker-0.pcapng").read_bytes() == b""


def test_a_file_that_cannot_be_written_is_refused_before_the_load(tmp_path: Path) -> None:
    with pytest.raises(RunRefused, match="cannot be written there: No such file") as caught:
        CaptureOrder(tmp_path / "missing" / "a.pcapng").check(profile(10, 1))
    assert caught.value.exit_code == 5


def test_words_for_a_whole_capture() -> None:
    first, second, third = describe(TOLD)
    assert first == "Capture: /tmp/a b.pcapng, 1,234 packets of 3 phones; none is missing"
    assert "/tmp/a b.pcapng.esp_sa" in second
    assert "cp '/tmp/a b.pcapng.esp_sa' '/tmp/a b.pcapng.wireshark'/esp_sa" in third


def test_words_for_what_is_missing() -> None:
    told = TOLD | {"keys": "", "phones": 1, "problem": "No space left on device"}
    lines = describe(told | {"kernel_dropped": 7, "not_written": 1000})
    assert lines == [
        "Capture: /tmp/a b.pcapng, 1,234 packets of 1 phone; 1,007 more are missing "
        "(No space left on device)"
    ]
