"""``python -m simulators.core`` under a control channel, and what it makes of a profile."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from imsbench.host.control import CONTROL_FD, ControlChannel
from imsbench.profile import shipped_profiles
from simulators.byhand import endpoint
from simulators.core.__main__ import _config_of
from simulators.core.nullphone import NullSettings
from simulators.core.settings import CoreSettings

CONFIG: dict[str, Any] = {
    "links": [],
    "addresses": [],
    "routes": [],
    "listen": ["127.0.0.1", 0],
    "domain": "ims.test",
    "hss": ["127.0.0.1", 1],
    "ipsec": "off",
    "population": {"count": 3, "domain": "ims.test", "k": None, "op": None, "opc": "00" * 16},
}


@pytest.fixture
def child() -> Iterator[tuple[subprocess.Popen[bytes], ControlChannel]]:
    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    number = theirs.fileno()
    process = subprocess.Popen(
        [sys.executable, "-m", "simulators.core"],
        env=os.environ | {"IMSBENCH_CONTROL": str(CONTROL_FD)},
        pass_fds=(CONTROL_FD,),
        preexec_fn=lambda: os.dup2(number, CONTROL_FD, inheritable=True),
        stderr=subprocess.DEVNULL,
    )
    theirs.close()
    channel = ControlChannel(ours)
    yield process, channel
    process.kill()
    process.wait()
    channel.close()


def test_the_null_target_reports_and_stops(
    child: tuple[subprocess.Popen[bytes], ControlChannel],
) -> None:
    process, channel = child
    channel.send("config", **CONFIG, null=True)
    assert channel.wait("tick")["counts"] == {"registered": 0}
    channel.send("stop")
    result = channel.wait("result")
    assert (result["backend"], result["registered"], result["sas"]) == ("off", 0, 0)
    assert process.wait(10) == 0


def test_the_end_of_the_channel_is_the_end_of_the_process(
    child: tuple[subprocess.Popen[bytes], ControlChannel],
) -> None:
    process, channel = child
    channel.send("config", **CONFIG, null=True)
    channel.wait("ready")
    channel.close()
    assert process.wait(10) == 0


def test_what_cannot_be_configured_is_told(
    child: tuple[subprocess.Popen[bytes], ControlChannel],
) -> None:
    process, channel = child
    channel.send("config", **CONFIG | {"listen": ["192.0.2.1", 5060]}, null=True)
    error = channel.wait("error")
    assert error["exit"] == 5
    assert "192.0.2.1" in error["text"]
    assert process.wait(10) == 5


def test_a_shipped_profile_configures_core_and_null_target() -> None:
    assert shipped_profiles()
    for name in shipped_profiles():
        config = _config_of(name) | {"listen": ["127.0.0.1", 5060]}
        settings = CoreSettings.from_config(config)
        null = NullSettings.from_config(config)
        assert null.population.home_domain == settings.domain


def test_a_profile_that_is_none_is_a_usage_error() -> None:
    command = [sys.executable, "-m", "simulators.core", "no-such-profile", "--listen", "127.0.0.1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert "no-such-profile" in done.stderr


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("192.0.2.1", ("192.0.2.1", 5060)),
        ("192.0.2.1:5070", ("192.0.2.1", 5070)),
        ("2001:db8::1", ("2001:db8::1", 5060)),
        ("[2001:db8::1]:5070", ("2001:db8::1", 5070)),
    ],
)
def test_addresses_of_both_families(text: str, address: tuple[str, int]) -> None:
    assert endpoint(5060)(text) == address


@pytest.mark.parametrize(
    "change",
    [
        {"port_pc_count": 63},
        {"min_expires_s": 7200},
        {"loss_share": 1.5},
        {"port_ps": 5060},
        {"port_ps": 40_001},
    ],
)
def test_settings_that_make_no_sense_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        CoreSettings.from_config(CONFIG | change)
