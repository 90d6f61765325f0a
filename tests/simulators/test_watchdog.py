"""The watchdog on a clock of the test's own."""

from __future__ import annotations

import random

from simulators.watchdog import Verdict, Watchdog


def test_silence_asks_then_suspects_then_ends() -> None:
    watchdog = Watchdog(30.0, random.Random(1), now=100.0)
    verdicts = []
    now = 130.0
    for _ in range(3):
        verdict, again_s = watchdog.expired(now)
        verdicts.append((verdict, watchdog.suspect))
        assert 28.0 <= again_s <= 32.0  # RFC 3539 §3.4.1: Tw and a jitter of 2 s
        now += again_s
    assert verdicts == [(Verdict.SEND_DWR, False), (Verdict.SUSPECT, True), (Verdict.DEAD, True)]


def test_an_octet_puts_everything_off() -> None:
    watchdog = Watchdog(30.0, random.Random(1), now=0.0)
    watchdog.heard(20.0)
    verdict, again_s = watchdog.expired(30.0)
    assert verdict is Verdict.ALIVE
    assert 18.0 <= again_s <= 22.0
    assert watchdog.expired(30.0 + again_s)[0] is Verdict.SEND_DWR
    suspect = [watchdog.expired(80.0)[0] is Verdict.SUSPECT, watchdog.suspect]
    watchdog.heard(81.0)
    assert [*suspect, watchdog.suspect] == [True, True, False]
    assert watchdog.expired(82.0)[0] is Verdict.ALIVE
