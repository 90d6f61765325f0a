"""What needs ESP in the kernel, run inside user-mode Linux: two guests at a time, booted once each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from imsbench.lab.uml import missing
from tests.lab import uml

pytestmark = pytest.mark.slow

_HERE = Path(__file__).parent.relative_to(uml.ROOT)
_PROCEDURES = str(_HERE / "test_procedures.py")
_GUESTS = {
    "hosts": [str(_HERE), f"--ignore={_PROCEDURES}"],
    "procedures": [_PROCEDURES],
}
"""Arguments of each guest's pytest: halves of about the same length, as a guest has one CPU."""
_PYTEST = [
    "python",
    "-m",
    "pytest",
    "-m",
    "kernel_esp",
    "-p",
    "no:cacheprovider",
    "-q",
    "--tb=short",
]

Guests = dict[str, Future[uml.Ended]]


@pytest.fixture(scope="module")
def guests() -> Iterator[Guests]:
    lacking = missing()
    if lacking:
        pytest.skip(f"no user-mode Linux: {lacking}")
    with ThreadPoolExecutor() as pool:
        yield {name: pool.submit(uml.run, [*_PYTEST, *args]) for name, args in _GUESTS.items()}


@pytest.mark.parametrize("guest", _GUESTS)
def test_in_a_kernel_with_esp(
    guests: Guests, guest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = guests[guest].result()
    *_, summary = ended.output.strip().splitlines() or ["nothing was written"]
    with capsys.disabled():
        sys.stdout.write(f"\nkernel ESP, {guest}: {summary} ({ended.wall_s:.0f} s in all)\n")
    assert ended.returncode == 0, ended.output
    assert "skipped" not in summary, ended.output
