"""Progress in words: registrations are not mixed with what follows them."""

from __future__ import annotations

from imsbench.run.events import Progress


def progress(**counts: int) -> str:
    zeros = dict.fromkeys(
        (
            "registrations", "registrations_succeeded", "refreshes", "refreshes_succeeded", "failed",
        ), 0,
    )  # fmt: skip
    return Progress("a step", 1.0, 2.0, 40, **zeros | counts).describe()


def test_registrations_and_refreshes_are_told_apart() -> None:
    assert progress(registrations=40, registrations_succeeded=40) == (
        "40 registered; registrations 40 of 40"
    )
    assert progress(refreshes=1200, refreshes_succeeded=1199, failed=2) == (
        "40 registered; refreshes 1,199 of 1,200; 2 failed, all procedures"
    )
    assert progress() == "40 registered"
