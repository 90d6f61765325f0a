"""The children of a run: started, listened to, and ended together.

A child that dies, or that says nothing for ``SILENCE_S`` once it is ready, ends the run by name:
every wait in here raises ChildLost for it. A message of type "error" is the child's own account of
its death and is believed before its exit status.
"""

from __future__ import annotations

import select
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from imsbench.host.control import Message
from imsbench.run.exits import DEFECT, UNVOUCHED
from imsbench.run.process import Child, describe_end

SILENCE_S = 5.0
"""A ready child ticks once a second; this long without a word and it hangs or starves."""
START_S = 60.0
"""How long a child may take from its start to "ready": a worker builds its phones in it."""
_POLL_MS = 200
_END_S = 3.0


class ChildLost(Exception):
    """A child process died or fell silent; the run cannot go on."""

    def __init__(self, name: str, reason: str, exit_code: int, output: str = "") -> None:
        super().__init__(f"{name} {reason}")
        self.name = name
        """Which one: "core", "hss", "worker-0"."""
        self.reason = reason
        """What happened, as a predicate: "was ended by SIGKILL"."""
        self.exit_code = exit_code
        """The exit code of the run that this asks for."""
        self.output = output
        """The end of what the child wrote."""


class Interrupted(Exception):
    """SIGINT or SIGTERM: the run ends with what it has."""


class Crew:
    """All children of one run."""

    def __init__(
        self,
        check: Callable[[], None] = lambda: None,
        hear: Callable[[str, Message], None] = lambda _name, _message: None,
    ) -> None:
        """check: called several times a second while waiting; may raise, e.g. Interrupted.
        hear: called with every message as it comes, whoever waits for it.
        """
        self._children: dict[str, Child] = {}
        self._ready: set[str] = set()
        self._check = check
        self._hear = hear
        self._poll = select.poll()
        self._inbox: deque[tuple[str, Message]] = deque()

    def start(self, name: str, module: str, *, own_namespace: bool = True) -> Child:
        """Start a child; OSError if that is not possible."""
        child = Child(name, module, own_namespace=own_namespace)
        self._children[name] = child
        self._poll.register(child.channel.fileno(), select.POLLIN)
        return child

    def pid(self, name: str) -> int:
        """Process id of a child."""
        return self._children[name].pid

    def send(self, name: str, kind: str, **values: Any) -> None:
        """Send one message to a child; a dead child is noticed at the next wait."""
        self._children[name].channel.send(kind, **values)

    def receive(self, timeout_s: float) -> list[tuple[str, Message]]:
        """Messages that have come, waiting up to ``timeout_s`` for the first; ChildLost."""
        deadline = time.monotonic() + timeout_s
        while True:
            self._check()
            left_ms = max(0.0, deadline - time.monotonic()) * 1e3
            self._read(min(_POLL_MS, left_ms))
            if self._inbox or time.monotonic() >= deadline:
                messages = list(self._inbox)
                self._inbox.clear()
                return messages

    def wait(self, names: Iterable[str], kind: str, timeout_s: float) -> dict[str, Message]:
        """One message of this type from each; ChildLost, also when time runs out.

        Messages of other types are dropped, so this is for the start only.
        """
        missing = set(names)
        found: dict[str, Message] = {}
        deadline = time.monotonic() + timeout_s
        while missing:
            for name, message in self.receive(0.2):
                if message["type"] == kind and name in missing:
                    found[name] = message
                    missing.discard(name)
                    if kind == "ready":
                        self._ready.add(name)
            if missing and time.monotonic() > deadline:
                name = min(missing)
                text = f"did not say {kind!r} within {timeout_s:g} s"
                raise self._lost(self._children[name], text, UNVOUCHED)
        return found

    def stop(self, names: Iterable[str], timeout_s: float) -> list[tuple[str, Message]]:
        """Ask children to end, and gather what they still say; never raises for a dead one."""
        asked = [self._children[name] for name in names if name in self._children]
        for child in asked:
            child.channel.send("stop")
        messages: list[tuple[str, Message]] = list(self._inbox)
        self._inbox.clear()
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and not all(child.channel.closed for child in asked):
            for child in asked:
                for message in child.channel.receive():
                    self._hear(child.name, message)
                    messages.append((child.name, message))
            time.sleep(0.01)
        for child in asked:
            child.wait(max(0.0, deadline - time.monotonic()) + 0.5)
        return messages

    def end(self) -> None:
        """End every child: orderly by the end of its channel, at once after three seconds."""
        for child in self._children.values():
            child.close()
        deadline = time.monotonic() + _END_S
        for child in self._children.values():
            if child.wait(max(0.0, deadline - time.monotonic())) is None:
                child.kill()
        self._children.clear()

    def drop(self, name: str) -> None:
        """Have one child die at once: it was given up."""
        if name in self._children:
            self._children[name].kill()

    def kill(self) -> None:
        """Have every child die at once; fit for a signal handler, as nothing is waited for."""
        for child in self._children.values():
            child.signal(signal.SIGKILL)

    def _read(self, timeout_ms: float) -> None:
        self._poll.poll(timeout_ms)
        now = time.monotonic()
        lost: list[Child] = []
        for child in self._children.values():
            for message in child.channel.receive():
                child.heard_at = now
                if message["type"] == "error":
                    raise self._told(child, message)
                self._hear(child.name, message)
                self._inbox.append((child.name, message))
            if child.channel.closed or child.poll() is not None:
                lost.append(child)
        for child in lost:
            raise self._died(child)
        for name in self._ready:
            child = self._children[name]
            if now - child.heard_at > SILENCE_S:
                text = f"has said nothing for {SILENCE_S:g} s (hung, or starved of CPU)"
                raise self._lost(child, text, UNVOUCHED)

    def _told(self, child: Child, message: Message) -> ChildLost:
        text = f"gave up: {message.get('text', 'no reason given')}"
        return self._lost(child, text, int(message.get("exit", DEFECT)))

    def _died(self, child: Child) -> ChildLost:
        returncode = child.wait(1.0)
        killed = returncode is not None and returncode < 0
        return self._lost(child, describe_end(returncode), UNVOUCHED if killed else DEFECT)

    def _lost(self, child: Child, reason: str, exit_code: int) -> ChildLost:
        return ChildLost(child.name, reason, exit_code, child.output())
