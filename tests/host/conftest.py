"""Tests of the host need a kernel's leave: each marker is skipped with the reason that it gives."""

from __future__ import annotations

import functools

import pytest

from imsbench.host import namespace


@functools.cache
def refused() -> list[str]:
    return namespace.refused_privileges()


def pytest_runtest_setup(item: pytest.Item) -> None:
    marked = [name for name in ("net", "tun") if item.get_closest_marker(name)]
    if not marked:
        return
    hindrances = [text.strip() for text in refused() if "tun" in marked or "TUN" not in text]
    if hindrances:
        pytest.skip("; ".join(hindrances))
