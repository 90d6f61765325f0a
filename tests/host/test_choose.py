"""The choice of a backend, and what it says where there is none."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from imsbench.host import links
from imsbench.host.backend import BackendError
from imsbench.host.choose import choose_backend
from tests.host import hosts


def test_kernel_is_refused_by_name() -> None:
    with pytest.raises(BackendError, match="kernel is not built"):
        choose_backend("kernel", "phone", 4)


@pytest.mark.parametrize("mode", ["off", "strongswan"])
def test_other_words_are_no_backend(mode: str) -> None:
    with pytest.raises(BackendError, match="is no backend"):
        choose_backend(mode, "phone", 4)


@pytest.mark.parametrize("mode", ["auto", "userspace"])
@pytest.mark.parametrize(
    ("number", "advice"), [(errno.ENOENT, "modprobe tun"), (errno.EACCES, "not readable")]
)
def test_without_tun_the_text_says_what_to_do(
    mode: str, number: int, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(BackendError, match=advice):
        choose_backend(mode, "phone", 4)


def make(mode: str, ip_version: int) -> dict[str, Any]:
    backend = choose_backend(mode, "phone", ip_version, ((20000, 20063),))
    made = {"name": backend.name, "device": backend.device, "counters": backend.counters()}
    backend.close()
    try:
        links.set_up(backend.device)
    except links.LinkError as error:
        made["after"] = str(error)
    return made


@pytest.mark.net
@pytest.mark.tun
@pytest.mark.parametrize("mode", ["auto", "userspace"])
@pytest.mark.parametrize("ip_version", [4, 6])
def test_a_backend_is_made_and_given_back(mode: str, ip_version: int) -> None:
    for (host,) in hosts.hosts(count=1):
        made = host.do(make, mode, ip_version)
        assert made["name"] == "userspace"
        assert made["device"] == "esp0"
        assert made["counters"].pop("raw_buffer") > 0
        assert set(made["counters"].values()) == {0}
        assert made["after"] == "no link esp0 in this network namespace"
