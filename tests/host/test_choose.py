"""The choice of a backend, and what it says where there is none."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from imsbench.host import choose, links
from imsbench.host.backend import BackendError
from imsbench.host.choose import choose_backend, needs_tun
from imsbench.host.xfrm import kernel_has_esp
from tests.host import hosts

NO_ESP = "the kernel has no ESP for IPv4: load it (modprobe esp4), or use ipsec: userspace"


@pytest.fixture
def no_kernel_esp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "esp_refusal", lambda ip_version: NO_ESP)


@pytest.fixture
def kernel_esp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "esp_refusal", lambda ip_version: "")
    monkeypatch.setattr(choose, "KernelEsp", lambda *args, **kwargs: ("KernelEsp", args, kwargs))


@pytest.mark.usefixtures("no_kernel_esp")
def test_kernel_without_esp_says_what_to_load() -> None:
    with pytest.raises(BackendError, match="modprobe esp4"):
        choose_backend("kernel", "phone", 4)


@pytest.mark.usefixtures("kernel_esp")
@pytest.mark.parametrize("mode", ["auto", "kernel"])
def test_a_kernel_with_esp_carries_it(mode: str) -> None:
    made: Any = choose_backend(mode, "pcscf", 6, ((5063, 5063),))
    assert made == ("KernelEsp", ("pcscf", 6), {"protected_ports": ((5063, 5063),)})


@pytest.mark.parametrize(
    ("mode", "refusal", "expected"),
    [
        ("auto", NO_ESP, True),
        ("auto", "", False),
        ("userspace", "", True),
        ("kernel", NO_ESP, False),
        ("off", NO_ESP, False),
    ],
)
def test_who_needs_a_tun_device(
    mode: str, refusal: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose, "esp_refusal", lambda ip_version: refusal)
    assert needs_tun(mode, 4) is expected


@pytest.mark.parametrize("mode", ["off", "strongswan"])
def test_other_words_are_no_backend(mode: str) -> None:
    with pytest.raises(BackendError, match="is no backend"):
        choose_backend(mode, "phone", 4)


@pytest.mark.usefixtures("no_kernel_esp")
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
    with pytest.raises(BackendError, match=advice) as raised:
        choose_backend(mode, "phone", 4)
    assert ("modprobe esp4" in str(raised.value)) == (mode == "auto")


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
@pytest.mark.parametrize("ip_version", [4, 6])
def test_user_space_is_made_and_given_back(ip_version: int) -> None:
    for (host,) in hosts.hosts(count=1):
        made = host.do(make, "userspace", ip_version)
        assert made["name"] == "userspace"
        assert made["device"] == "esp0"
        assert made["counters"].pop("raw_buffer") > 0
        assert set(made["counters"].values()) == {0}
        assert made["after"] == "no link esp0 in this network namespace"


@pytest.mark.net
@pytest.mark.tun
@pytest.mark.parametrize("ip_version", [4, 6])
def test_auto_is_what_the_kernel_can_do(ip_version: int) -> None:
    for (host,) in hosts.hosts(count=1):
        has_esp = host.do(kernel_has_esp, ip_version)
        made = host.do(make, "auto", ip_version)
        assert made["name"] == ("kernel" if has_esp else "userspace")
