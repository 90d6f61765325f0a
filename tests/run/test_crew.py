"""Children as real processes: started, heard, lost by name, ended without a trace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from imsbench.run import crew as crew_module
from imsbench.run.crew import ChildLost, Crew, Interrupted
from imsbench.run.exits import DEFECT, UNVOUCHED

FAKE = "tests.run.fake_child"


@pytest.fixture
def crew() -> Iterator[Crew]:
    crew = Crew()
    yield crew
    crew.end()


def start(crew: Crew, behaviour: str, name: str = "worker-0") -> int:
    crew.start(name, FAKE)
    crew.wait([name], "namespace", 20.0)
    crew.send(name, "config", behaviour=behaviour)
    return crew.pid(name)


def receive_long(crew: Crew) -> None:
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline:
        crew.receive(0.1)


def is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_a_child_is_told_apart_by_its_environment(crew: Crew) -> None:
    crew.start("hss", FAKE, own_namespace=False)
    crew.start("core", FAKE, own_namespace=True)
    told = crew.wait(["hss", "core"], "namespace", 20.0)
    assert told["hss"]["own"] == ""
    assert told["core"]["own"] == "new"
    assert told["core"]["pid"] == crew.pid("core")
    environment = Path(f"/proc/{crew.pid('core')}/environ").read_bytes().split(b"\0")
    assert b"IMSBENCH_NAME=core" in environment


def test_a_child_lives_from_ready_to_result(crew: Crew) -> None:
    pid = start(crew, "serve")
    crew.wait(["worker-0"], "ready", 20.0)
    assert ("worker-0", "tick") in [(name, m["type"]) for name, m in crew.receive(5.0)]
    messages = crew.stop(["worker-0"], 10.0)
    assert [m for _, m in messages if m["type"] == "result"] == [
        {"type": "result", "counters": {"stopped": 1}}
    ]
    assert not is_running(pid)


def test_a_child_that_dies_before_ready_is_named_with_its_last_words(crew: Crew) -> None:
    start(crew, "crash")
    with pytest.raises(ChildLost, match="worker-0 ended with exit status 7") as lost:
        crew.wait(["worker-0"], "ready", 20.0)
    assert lost.value.exit_code == DEFECT
    assert "the last words of a crash" in lost.value.output


def test_a_childs_own_account_of_its_death_is_believed(crew: Crew) -> None:
    start(crew, "error", name="core")
    with pytest.raises(ChildLost, match="core gave up: there is no /dev/net/tun") as lost:
        crew.wait(["core"], "ready", 20.0)
    assert lost.value.exit_code == 5


def test_a_child_that_is_never_ready_is_named(crew: Crew) -> None:
    start(crew, "never ready")
    with pytest.raises(ChildLost, match="worker-0 did not say 'ready' within 1 s") as lost:
        crew.wait(["worker-0"], "ready", 1.0)
    assert lost.value.exit_code == UNVOUCHED


def test_a_killed_child_is_named_with_its_signal(crew: Crew) -> None:
    pid = start(crew, "serve", name="core")
    crew.wait(["core"], "ready", 20.0)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ChildLost, match="core was ended by SIGKILL"):
        receive_long(crew)


def test_a_silent_child_is_lost(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "SILENCE_S", 0.5)
    start(crew, "silent")
    crew.wait(["worker-0"], "ready", 20.0)
    with pytest.raises(ChildLost, match=r"worker-0 has said nothing for 0\.5 s"):
        crew.receive(20.0)


def test_a_stopped_child_does_not_hold_up_the_end(crew: Crew) -> None:
    pid = start(crew, "serve")
    crew.wait(["worker-0"], "ready", 20.0)
    os.kill(pid, signal.SIGSTOP)
    crew.drop("worker-0")
    assert crew.stop(["worker-0"], 5.0) is not None
    crew.end()
    assert not is_running(pid)


def test_waiting_can_be_interrupted() -> None:
    def check() -> None:
        raise Interrupted

    with pytest.raises(Interrupted):
        Crew(check).receive(60.0)


def test_children_die_with_a_killed_coordinator() -> None:
    """SIGKILL of the coordinator: no orderly end, and still nobody is left."""
    program = (
        "import sys, time\n"
        "from imsbench.run.crew import Crew\n"
        "crew = Crew()\n"
        f"crew.start('worker-0', {FAKE!r})\n"
        "crew.wait(['worker-0'], 'namespace', 20.0)\n"
        "print(crew.pid('worker-0'), flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.kill()
    deadline = time.monotonic() + 5.0
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_running(pid)


def test_every_message_is_heard_whoever_waits_for_it() -> None:
    heard: list[tuple[str, object]] = []
    crew = Crew(hear=lambda name, message: heard.append((name, message["type"])))
    try:
        start(crew, "serve")
        crew.wait(["worker-0"], "ready", 20.0)
    finally:
        crew.end()
    assert [kind for _, kind in heard][:2] == ["namespace", "ready"]
