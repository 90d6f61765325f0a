"""A whole small run inside this machine, watched from the wire between the phones and the core.

The run is the coordinator's own, in a child process: it leaves this process's network namespace, and
its children die with it. Before the first step a packet socket is opened in the core's namespace, on
the link to the worker; so nothing that the phones or the core send is missed.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import socket
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from imsbench.host import namespace
from imsbench.kpi.kpis import StepKpis
from imsbench.profile import parse_profile
from imsbench.run import network
from imsbench.run.coordinator import Coordinator
from imsbench.run.events import Event, StepStarted
from imsbench.run.find import running
from imsbench.run.record import RunRecord
from imsbench.run.topology import CORE
from tests.host.hosts import ETH_P_ALL
from tests.lab import wire

_FORK = multiprocessing.get_context("fork")
"""The run's process starts with everything imported: it is slow inside user-mode Linux."""
_LINK = "w0"
_BUFFER_BYTES = 32 << 20
_RUN_S = 120.0
_SO_RCVBUFFORCE = 33


@dataclass(slots=True)
class Observed:
    """What a run said and what was seen of it."""

    status: str
    """As the run's record has it."""
    reason: str
    """Why it is not complete."""
    steps: list[dict[str, tuple[int, int]]]
    """Of each step, by procedure: attempted and succeeded; those never attempted left out."""
    failures: list[dict[str, Any]]
    """The first of each kind, with their ladders."""
    counters: dict[str, int]
    """The worker's."""
    core: dict[str, Any]
    """The core's result."""
    backend: str
    """What carried the phones' ESP."""
    backend_counters: dict[str, int]
    """Its counters."""
    packets: list[wire.Packet] = field(default_factory=list)
    """Everything between the phones and the core, in order."""

    def total(self, procedure: str) -> int:
        """How often a procedure succeeded in all steps."""
        return sum(step[procedure][1] for step in self.steps if procedure in step)


def observe(profile: str) -> Observed:
    """Run a profile (YAML, one worker, embedded target); AssertionError if it cannot be run."""
    ours, theirs = _FORK.Pipe()
    process = _FORK.Process(target=_serve, args=(theirs, profile))
    process.start()
    theirs.close()
    try:
        if not ours.poll(_RUN_S):
            raise AssertionError(f"the run does not end within {_RUN_S:g} s")
        answer = ours.recv()
    finally:
        ours.close()
        process.join(1)
        process.kill()
        process.join()
    assert isinstance(answer, Observed), answer
    return answer


def _serve(pipe: Connection, text: str) -> None:
    try:
        pipe.send(_run(text))
    except BaseException:
        pipe.send(traceback.format_exc())


def _run(text: str) -> Observed:
    profile = parse_profile(text)
    network.enter(profile)
    sniffers: list[socket.socket] = []

    def watch(event: Event) -> None:
        if isinstance(event, StepStarted) and not sniffers:
            (core,) = (c for c in running() if (c.coordinator, c.name) == (os.getpid(), CORE))
            sniffers.append(in_namespace_of(core.pid, open_sniffer))

    record = Coordinator(profile, watch, keep_ladders=True).run()
    observed = _observed(record)
    for sniffer in sniffers:
        observed.packets += wire.parse_all(drain(sniffer))
    return observed


def _observed(record: RunRecord) -> Observed:
    worker = record.workers.get("worker-0", {})
    return Observed(
        status=record.status,
        reason=f"{record.reason} {record.output}".strip(),
        steps=[_counts(step.kpis) for step in record.steps],
        failures=[failure for step in record.steps for failure in step.failures],
        counters=worker.get("counters", {}),
        core=record.simulators.get(CORE, {}),
        backend=worker.get("backend", ""),
        backend_counters=worker.get("backend_counters", {}),
    )


def _counts(kpis: StepKpis) -> dict[str, tuple[int, int]]:
    counts = {name: (p.attempted, p.succeeded) for name, p in kpis.procedures.items()}
    return {str(name): count for name, count in counts.items() if count[0]}


def in_namespace_of(pid: int, make: Callable[[], socket.socket]) -> socket.socket:
    """What ``make`` makes in the network namespace of a process; a thread goes there for it."""
    made: list[socket.socket] = []

    def go() -> None:
        namespace.enter_network_namespace_of(pid)
        made.append(make())

    thread = threading.Thread(target=go)
    thread.start()
    thread.join()
    (sock,) = made
    return sock


def open_sniffer() -> socket.socket:
    """Every frame of the core's link to the worker, without its link header."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    sock.bind((_LINK, ETH_P_ALL))
    sock.setblocking(False)
    return sock


def drain(sniffer: socket.socket) -> list[bytes]:
    """What it has seen; its link may be gone by now."""
    frames = []
    with sniffer:
        while True:
            try:
                frames.append(sniffer.recv(65535))
            except BlockingIOError:
                return frames
            except OSError as error:
                if error.errno != errno.ENETDOWN:  # told once, before what came until then
                    raise
