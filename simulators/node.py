"""A simulator as a Diameter node: procedures behind a Peer, faults injected, its own time measured.

What the HSS and the PCRF share. A subclass names its commands, adds the requests it sends of its own accord
(``_send``), serves control messages (``on_control``) and says what it holds (``state``).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakSet

from imsbench.distribution import Distribution
from imsbench.histogram import Histogram
from simulators.base import Application, DiameterMessage, experimental
from simulators.faults import Done, Lasting, SteadyFaults, Striking, TimedFaults, What
from simulators.peer import Connection, Peer, PeerError
from simulators.timers import Timers

_ALL: frozenset[What] = frozenset(("error", "silence", "delay"))


class Procedures(Protocol):
    """What a node answers: no I/O and no clock."""

    counters: Counter[str]
    """What happened beside the answers, by name."""

    def answer(self, request: DiameterMessage) -> DiameterMessage:
        """Serve a request; BadMessage refuses it."""


@dataclass(frozen=True, slots=True)
class Injection:
    """What an operator wants a simulator to do wrong."""

    latency: Distribution = field(default_factory=Distribution)
    """Added to each answer, after the work is done."""
    error_share: float = 0.0
    """Share of requests refused, 0..1; they change nothing."""
    error_result: int = 5012
    """Result-Code of those; an Experimental-Result-Code if it is one of the application's own."""
    silence_share: float = 0.0
    """Share of requests never answered, 0..1; they change nothing."""
    faults: Sequence[Mapping[str, Any]] = ()
    """What goes wrong with chosen commands (simulators.faults)."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Injection:
        """What a ``config`` message says; KeyError, TypeError or ValueError if it is not of its form."""
        return cls(
            latency=Distribution(**config["response_time"]),
            error_share=float(config["error_share"]),
            error_result=int(config["error_result"]),
            silence_share=float(config.get("silence_share", 0.0)),
            faults=list(config.get("faults", ())),
        )


@dataclass(slots=True)
class CommandStats:
    """What became of one command."""

    count: int = 0
    """Requests answered by the simulator itself (not those refused by the codec)."""
    results: Counter[str] = field(default_factory=Counter)
    """By outcome: "2001", "exp. 2002"."""
    response_time: Histogram = field(default_factory=Histogram)
    """Last byte read -> first byte written, waiting behind others and injected latency included."""

    delayed: Histogram = field(default_factory=Histogram)
    """The same of the answers that a fault delayed, which are not among the others."""

    def record(self, outcome: str, time_s: float, *, delayed: bool) -> None:
        """Count one answer; delayed: by a fault, so not the response time that is configured and judged."""
        self.count += 1
        self.results[outcome] += 1
        (self.delayed if delayed else self.response_time).record(time_s)

    def to_json(self) -> dict[str, Any]:
        """For the control channel."""
        return {
            "count": self.count,
            "results": dict(self.results),
            "response_time": self.response_time.to_json(),
            "delayed": self.delayed.to_json(),
        }


class Node:
    """Procedures behind a Peer."""

    name = "simulator"
    """For people: "HSS"."""
    command_names: Mapping[int, str] = {}
    """Command code -> what the field calls it: "UAR"."""
    experimental_results: frozenset[int] = frozenset()
    """Experimental results that cannot be mistaken for a Result-Code of RFC 6733."""

    def __init__(
        self,
        served: Procedures,
        application: Application,
        *,
        origin_host: str,
        origin_realm: str,
        injection: Injection | None = None,
        seed: int = 1,
    ) -> None:
        self.peer = Peer(
            origin_host=origin_host,
            origin_realm=origin_realm,
            applications=(application,),
            on_request=self._serve,
            on_answered=self._measure,
            product_name=f"imsbench {self.name}",
        )
        """How it is reached."""
        self.commands: dict[str, CommandStats] = {}
        """What was answered, by command."""
        self._since: dict[str, CommandStats] = {}
        self._served = served
        self._seed = seed
        self.inject(injection or Injection())
        self._random = random.Random(f"{self.name.lower()} injection {seed}")
        self._timers = Timers()
        self._delayed: WeakSet[DiameterMessage] = WeakSet()

    def inject(self, injection: Injection) -> None:
        """Do this wrong from now on."""
        self._latency = injection.latency
        self.faults = SteadyFaults(_faults_of(injection), f"{self.name.lower()} {self._seed}")
        """What goes wrong on purpose, and how often it did; the shares of all requests come last."""

    # --- for a subclass to say ------------------------------------------------------------------------

    def describe(self) -> str:
        """What it serves, for the log: "100 subscribers of ims…"."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """What it holds now, by name; numbers that a tick and the result carry."""
        raise NotImplementedError

    def on_control(self, message: Mapping[str, Any]) -> Awaitable[object] | None:
        """Serve a control message; what it sends is awaited by the caller.

        LookupError, TypeError or ValueError if the message is not understood.
        """
        raise NotImplementedError

    def strikes(self) -> Mapping[str, Striking]:
        """The timed faults that strike a number of what it holds, by name."""
        raise NotImplementedError

    def answered(self, request: DiameterMessage, answer: DiameterMessage) -> None:
        """An answer has just been written."""

    def timed_faults(self) -> TimedFaults:
        """What can be ordered of it at an instant."""
        lasting: dict[str, Lasting] = {f"{self.name.lower()}_restart": self.peer.restart}
        return TimedFaults(lasting, self.strikes())

    async def close(self) -> None:
        """Leave its peers, and answer nothing any more."""
        self._timers.close()
        await self.peer.close()

    async def each(self, name: str, work: Sequence[Awaitable[object]]) -> Done:
        """Send all at once; each failure is counted. How many were answered, how many failed."""
        failed = 0
        for result in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(result, (LookupError, PeerError)):
                self.peer.counters[f"{name}_failed"] += 1
                failed += 1
            elif isinstance(result, BaseException):
                raise result
        return len(work) - failed, failed

    # --- measured -------------------------------------------------------------------------------------

    def counts(self) -> dict[str, Any]:
        """How much of everything so far, for a tick."""
        return {name: stats.count for name, stats in self.commands.items()} | self.state()

    def take(self) -> dict[str, Any]:
        """What was answered since this was asked last, by command, for a ``measured`` message."""
        since, self._since = self._since, {}
        return {name: stats.to_json() for name, stats in since.items()}

    def counters(self) -> dict[str, int]:
        """Everything that happened, by name."""
        return dict(self.peer.counters + self._served.counters)

    def to_json(self) -> dict[str, Any]:
        """What it measured, for the ``result`` message."""
        commands = {name: stats.to_json() for name, stats in self.commands.items()}
        faults = {"steady_faults": self.faults.to_json()}
        return {"commands": commands, "counters": self.counters()} | faults | self.state()

    # --- private --------------------------------------------------------------------------------------

    async def _send(self, request: DiameterMessage, timeout_s: float) -> DiameterMessage:
        """Send a request of our own, counted with its outcome; PeerError as Peer.request."""
        name = self.command_names[request.code].lower()
        self.peer.counters[f"{name}_sent"] += 1
        answer = await self.peer.request(request, timeout_s)
        self.peer.counters[f"{name}_answered_{answer.outcome}"] += 1
        return answer

    def _serve(
        self, request: DiameterMessage, connection: Connection
    ) -> DiameterMessage | Awaitable[DiameterMessage] | None:
        fault = self.faults.strike(_ALL, self.command_names[request.code])
        delay_s = self._latency.draw(self._random) if self._latency.mean_s else 0.0
        if fault is None:
            answer = self._served.answer(request)
        elif fault.what == "silence":
            self.peer.counters["silences_injected"] += 1
            return None
        elif fault.what == "error":
            self.peer.counters["errors_injected"] += 1
            answer = self._error(request, fault.code)
        else:
            self.peer.counters["delays_injected"] += 1
            answer = self._served.answer(request)
            self._delayed.add(request)
            delay_s += fault.draw(self._random)
        return self._later(answer, delay_s) if delay_s else answer

    async def _later(self, answer: DiameterMessage, delay_s: float) -> DiameterMessage:
        await self._timers.sleep(delay_s)
        return answer

    def _error(self, request: DiameterMessage, result: int) -> DiameterMessage:
        if result in self.experimental_results:
            return request.answer(experimental_result=experimental(result))
        answer = request.answer(result_code=result)
        # RFC 6733 §7.1.3: 3xxx answers carry the E bit
        answer.header.is_error = 3000 <= result < 4000
        return answer

    def _measure(self, request: DiameterMessage, answer: DiameterMessage, time_s: float) -> None:
        name = self.command_names[request.code]
        delayed = request in self._delayed
        for commands in (self.commands, self._since):
            stats = commands.get(name)
            if stats is None:
                stats = commands[name] = CommandStats()
            stats.record(answer.outcome, time_s, delayed=delayed)
        self.answered(request, answer)


def _faults_of(injection: Injection) -> list[Mapping[str, Any]]:
    """All steady faults: those of chosen commands, then those of all."""
    shares: tuple[tuple[What, float], ...] = (
        ("silence", injection.silence_share),
        ("error", injection.error_share),
    )
    of_all: list[Mapping[str, Any]] = [
        {"what": what, "names": (), "share": share, "code": injection.error_result, "delay": {}}
        for what, share in shares
        if share
    ]
    return [*injection.faults, *of_all]
