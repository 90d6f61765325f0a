"""A lab that stands by itself: a daemon that starts HSS, PCRF and core, joins them with the host, waits.

``start`` brings it up from a command, ``find`` finds it, ``end`` takes it down. The daemon is
``python -m imsbench.lab.keeper NAME`` with a profile on its standard input; it tells its way up on its
standard output, a JSON object a line: ``stage`` (text), then ``ready``, or ``refused`` (text, exit).
What ends it later it tells syslog. With it go its children, their namespaces, and the link to the host.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import syslog
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from imsbench.host import links
from imsbench.host.namespace import refused_privileges
from imsbench.lab.logs import SUFFIX
from imsbench.lab.settings import FOLDER
from imsbench.profile import Profile, parse_profile
from imsbench.run import configs, exits, network, topology
from imsbench.run.crew import ChildLost, Crew, Interrupted
from imsbench.run.events import Event, Stage
from imsbench.run.exits import RunRefused
from imsbench.run.launch import Launch
from imsbench.run.process import own_environment

MODULE = "imsbench.lab.keeper"
_STOP_S = 10.0


def start(profile: Profile, watch: Callable[[Event], None]) -> None:
    """Bring a lab up and leave it; RunRefused if there is one, or it does not come up."""
    if found := find():
        raise RunRefused(
            f"a lab is up (process {found[0]}); take it down with: imsbench lab down", exits.USAGE
        )
    if refused := refused_privileges(with_tun=configs.needs_tun(profile)):
        raise RunRefused(
            "a lab that stands by itself is joined with this host's own network, which needs root or "
            "these privileges:\n" + "\n".join(refused),
            exits.HOST_LACKS,
        )
    daemon = subprocess.Popen(
        [sys.executable, "-P", "-m", MODULE, profile.name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=own_environment(),
        start_new_session=True,
        text=True,
    )
    assert daemon.stdin is not None
    assert daemon.stdout is not None
    with daemon.stdin, daemon.stdout:
        daemon.stdin.write(profile.model_dump_json())
        daemon.stdin.close()
        for line in daemon.stdout:
            if _is_up(json.loads(line), watch):
                return
    raise RunRefused(f"the lab ended with status {daemon.wait()} before it was up", exits.DEFECT)


def find(proc: Path = Path("/proc")) -> list[int]:
    """Process ids of labs that stand, the oldest first."""
    found = []
    for entry in proc.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if b"-m" in words[:-1] and words[words.index(b"-m") + 1] == MODULE.encode():
                    found.append(int(entry.name))
    return sorted(found)


def end(pid: int) -> None:
    """Take a lab down, and wait until it is; at once if it does not end in order.

    RunRefused if this user may not.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + 3 * _STOP_S
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        except PermissionError:
            raise RunRefused(
                f"the lab (process {pid}) is another user's: only that user and root may end it",
                exits.HOST_LACKS,
            ) from None
        while time.monotonic() < deadline:
            if pid not in find():
                return
            time.sleep(0.05)


def log_files(core_pid: int) -> list[Path]:
    """The logs of a core's servers, in the file system that only its processes see."""
    return sorted(Path(f"/proc/{core_pid}/root{FOLDER}").glob(f"*{SUFFIX}"))


def main() -> int:
    """Be the daemon; the exit code."""
    profile = parse_profile(sys.stdin.read())
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: signals.append(number))

    def check() -> None:
        if signals:
            raise Interrupted

    crew = Crew(check)
    plan = topology.standing(
        profile.phones.ip_version,
        hss=configs.needs_hss(profile),
        pcrf=configs.needs_pcrf(profile),
        core=configs.lab_addresses(profile),
    )
    simulators = configs.simulators_of(profile)
    launch = Launch(profile, _tell_stage, crew, plan, simulators=simulators, workers=[])
    try:
        launch.run()
        _tell("ready")
        _leave_the_terminal()
        while True:
            crew.receive(1.0)
    except Interrupted:
        for names in ([topology.CORE], simulators):
            crew.stop(names, _STOP_S)
        return exits.KEPT
    except ChildLost as lost:
        return _refuse(str(lost), lost.exit_code)
    except (RunRefused, links.LinkError) as refusal:
        return _refuse(str(refusal), getattr(refusal, "exit_code", exits.HOST_LACKS))
    finally:
        crew.end()
        network.clear(plan)


def _is_up(message: dict[str, Any], watch: Callable[[Event], None]) -> bool:
    match message:
        case {"type": "stage", "text": text}:
            watch(Stage(text))
        case {"type": "refused", "text": text, "exit": code}:
            raise RunRefused(text, code)
    return message.get("type") == "ready"


def _tell(kind: str, **values: Any) -> None:
    sys.stdout.write(json.dumps({"type": kind} | values) + "\n")
    sys.stdout.flush()


def _tell_stage(event: Event) -> None:
    if isinstance(event, Stage):
        _tell("stage", text=event.text)


def _refuse(text: str, code: int) -> int:
    """Tell whoever waits; nobody may."""
    syslog.syslog(syslog.LOG_ERR, f"imsbench lab: {text}")
    with contextlib.suppress(OSError):
        _tell("refused", text=text, exit=code)
    return code


def _leave_the_terminal() -> None:
    """Whoever started us need not wait for our end to see that of our output."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


if __name__ == "__main__":
    sys.exit(main())
