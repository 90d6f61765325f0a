"""A worker: one process, one network namespace, one slice of the phones (``python -m imsbench.run.worker``).

It is told everything over the control channel (host/control.py) and prints nothing. Its loop also
reads that channel; EOF ends it.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections import Counter
from math import nan
from typing import Any

from imsbench.engine.driver import Driver
from imsbench.engine.health import Health, resident_bytes
from imsbench.engine.loop import Loop, clock
from imsbench.host import garbage, links
from imsbench.host.backend import BackendError, SaBackend
from imsbench.host.child import prepare_namespace
from imsbench.host.choose import choose_backend
from imsbench.host.control import ControlChannel, Message, child_channel, die_with_parent
from imsbench.host.counters import network_counters
from imsbench.host.limits import raise_open_files
from imsbench.host.namespace import HostError, enter_new_network_namespace
from imsbench.kpi.adequacy import is_adequate
from imsbench.kpi.halves import Halves
from imsbench.kpi.kpis import StepKpis
from imsbench.kpi.timeline import Timeline
from imsbench.outcome import CallOutcome, Outcome
from imsbench.phone.phone import Network, Phone
from imsbench.phone.requests import answer_request
from imsbench.profile import Profile
from imsbench.run.abort import watched
from imsbench.run.advice import UNREACHED_CAUSES
from imsbench.run.calls import Calls
from imsbench.run.capture import Tap
from imsbench.run.configs import drain_s, population, repair_rate
from imsbench.run.exits import HOST_LACKS, RunRefused
from imsbench.run.orders import step_of
from imsbench.run.phones import Phones
from imsbench.run.samples import Samples
from imsbench.run.settings import engine_settings, phone_addresses, phone_settings, second_address
from imsbench.run.steps import StepRun

OUTER_DEVICE = "ims0"
DEREGISTER_S = 4.0
"""How long phones may take to de-register at the end of a run that wants it."""
_TICK_S = 1.0


class Worker:
    """The phones of one share, their engine, and what they measure."""

    def __init__(self, channel: ControlChannel, config: Message) -> None:
        self._channel = channel
        self._config = config
        self._profile = Profile.model_validate(config["profile"])
        self._worker, self._workers = int(config["worker"]), int(config["workers"])
        self._loop = Loop()
        own_addresses = phone_addresses(self._profile, self._worker, self._workers)
        self._tap = self._make_tap(list(own_addresses.values()))
        self._backend = self._make_backend()
        self._network = self._make_network()
        engine = engine_settings(self._profile, OUTER_DEVICE)
        self._driver = Driver(self._loop, engine, self._backend, self._find_phone, answer_request)
        self._phones = self._make_phones(own_addresses)
        self._calls = Calls(
            self._driver,
            self._network,
            self._phones,
            random.Random(f"{self._profile.seed}/{self._worker}/calls"),
            self._record_call,
        )
        self._health = Health(self._loop)
        self._health_of_calls: Message | None = None
        self._run: StepRun | None = None
        self._repair = False
        self._repair_rate = repair_rate(self._profile)
        self._kpis = StepKpis()
        self._timeline = Timeline()
        self._halves = Halves()
        self._outside = StepKpis()
        self._samples = Samples(bool(config.get("keep_ladders")))
        self._before: Counter[str] = Counter()
        self._messages_before: Counter[str] = Counter()
        self._ending = 0
        self._left = 0

    def serve(self) -> None:
        """Open everything, say "ready", and run until the coordinator says "stop" or is gone."""
        self._driver.open()
        if self._tap is not None:
            self._tap.attach(self._loop.add_reader)
        self._channel.setblocking(False)
        self._loop.add_reader(self._channel.fileno(), self._on_control)
        garbage.settle()  # the population stands
        garbage.keep_young(self._loop.call_later)
        self._channel.send("ready", phones=len(self._phones.all))
        self._loop.call_at(clock() + _TICK_S, self._tick, None)
        self._loop.run()
        if self._run is not None:  # the run ends within a step: what it has so far
            self._step_done()
        self._send_result()
        # The backend is left to the namespace, which ends with this process: without its guards, what
        # the kernel still has to send for the connections (a FIN, once more) would leave in clear.
        self._driver.close()

    # private: building

    def _make_backend(self) -> SaBackend | None:
        phones = self._profile.phones
        if phones.ipsec == "off":
            return None
        ring = (phones.port_uc_first, phones.port_uc_first + phones.port_uc_count - 1)
        ports = [ring, (phones.port_us, phones.port_us)]
        backend = choose_backend(phones.ipsec, "phone", phones.ip_version, ports)
        return self._tap.wrap(backend) if self._tap is not None else backend

    def _make_tap(self, phone_addresses: list[str]) -> Tap | None:
        pcap = self._config.get("pcap")
        return Tap(pcap, phone_addresses, OUTER_DEVICE) if pcap else None

    def _make_network(self) -> Network:
        host, port = self._config["pcscf"]
        source = random.Random(f"{self._profile.seed}/{self._worker}")
        start = int.from_bytes(os.urandom(8))
        settings = phone_settings(self._profile, (host, port))
        return Network(settings, population(self._profile), source, start)

    def _make_phones(self, own_addresses: dict[int, str]) -> Phones:
        return Phones(
            self._loop,
            self._driver,
            self._network,
            own_addresses,
            subscribe=self._profile.phones.subscribe_reg_event,
            on_outcome=self._record,
            spread=self._spread(),
            second_address=second_address(self._profile, self._worker, self._workers),
        )

    def _spread(self) -> str:
        uniform = self._profile.phones.refresh_phase == "uniform"
        return f"{self._profile.seed}/refreshes" if uniform else ""

    def _find_phone(self, address: str) -> Any:
        return self._phones.by_address.get(address)

    # private: the control channel

    def _on_control(self) -> None:
        for message in self._channel.receive():
            if message["type"] == "start_at":
                self._start_step(message)
            elif message["type"] == "stop":
                self._end()
        if self._channel.closed:
            self._loop.stop()

    def _end(self) -> None:
        """End the loop; where it is wanted, once the phones have de-registered or had time for it."""
        registered = [phone for phone in self._phones.all if phone.registration is not None]
        if not registered or not self._config.get("deregister"):
            self._loop.stop()
            return
        self._ending = self._left = len(registered)
        self._loop.call_at(clock() + DEREGISTER_S, lambda _none: self._loop.stop(), None)
        for phone in registered:
            self._phones.deregister(phone, clock(), self._deregistered)

    def _deregistered(self, _phone: Phone, outcome: Outcome) -> None:
        self._ending -= 1
        self._left -= outcome.succeeded
        if not self._ending:
            self._loop.stop()

    def _start_step(self, message: Message) -> None:
        step = step_of(message["step"])
        self._repair = bool(message.get("repair"))
        self._kpis = StepKpis()
        self._timeline = Timeline()
        middle = message["at"] + (step.warm_up_s + step.duration_s) / 2
        self._halves = Halves(middle if step.uniform and not self._repair else nan)
        self._samples.begin()
        self._phones.step = step.index
        self._calls.spans.clear()
        self._health_of_calls = None
        self._health.begin()
        self._run = StepRun(
            self._loop,
            self._phones,
            self._calls,
            step,
            seed=self._profile.seed,
            worker=self._worker,
            workers=self._workers,
            drain_s=drain_s(self._profile, step),
            t1_s=self._profile.phones.timer_values[0],
            transaction_timeout_s=self._profile.phones.transaction_timeout,
            on_done=self._step_done,
            on_evaluated=self._health.begin,
            on_drain=self._on_drain,
        )
        self._run.begin(message["at"], repair=self._repair, repair_rate=self._repair_rate)

    def _on_drain(self) -> None:
        """The drain of calls is long and quiet: it would water down the worker's share of a core."""
        assert self._run is not None
        self._health_of_calls = self._health.end() if self._run.step.calls else None

    def _step_done(self) -> None:
        run = self._run
        assert run is not None
        self._run = None
        health = self._health_of_calls or self._health.end()
        step = run.step
        if step.calls and not self._repair:
            begin = run.first_due_at + step.warm_up_s
            end = min(clock(), run.first_due_at + step.duration_s)
            self._kpis.sessions.observe(self._calls.spans, begin, end)
            self._halves.observe(self._calls.spans, begin, end)
        garbage.settle()  # between steps, so that it is not within them
        # Since the last step's end, so that what happens between two steps is not lost.
        counters = self._counters()
        news, self._before = counters - self._before, counters
        sent_and_read = Counter(self._driver.messages)
        messages, self._messages_before = sent_and_read - self._messages_before, sent_and_read
        self._channel.send(
            "step_done",
            step=run.step.index,
            repair=self._repair,
            registered=self._phones.registered,
            kpis=self._kpis.to_json(),
            timeline=self._timeline.to_json(),
            halves=self._halves.to_json(),
            health=health
            | {
                "dropped": run.dropped,
                "without_pair": run.without_pair,
                "started": run.started,
                "called": run.called,
                "unfinished": run.unfinished,
                "first_due_at": run.first_due_at,
            },
            offered=dict(run.offered),
            recovery=run.storm.recovery.to_json() if run.storm is not None else None,
            failures=self._samples.failures,
            counters=dict(news),
            messages=dict(messages),
        )
        self._phones.step = -1

    def _tick(self, _argument: object) -> None:
        self._health.look()
        counts: Message = {**self._kpis.totals()}
        if self._run is not None and not self._repair and watched(self._profile, self._run.step):
            counts |= {"kpis": self._kpis.to_json(), "kpis_of": self._run.step.index}
        self._channel.send(
            "tick",
            step=self._phones.step,
            registered=self._phones.registered,
            in_progress=self._calls.outstanding,
            **unreached(self._kpis),
            **counts,
        )
        self._loop.call_at(clock() + _TICK_S, self._tick, None)

    def _send_result(self) -> None:
        pcap = self._tap.close() if self._tap is not None else None
        self._channel.send(
            "result",
            registered=self._phones.registered,
            left_registered=self._left,
            connections=self._driver.connections.count,
            counters=dict(self._counters()),
            backend=self._backend.name if self._backend is not None else "off",
            backend_counters=self._backend.counters() if self._backend is not None else {},
            messages=dict(self._driver.messages),
            ladders=self._samples.ladders,
            call_ladders=self._samples.call_ladders,
            memory_rss=resident_bytes(),
            outside=self._outside.to_json(),
            pcap=pcap,
        )

    # private: measuring

    def _record(self, outcome: Outcome) -> None:
        self._samples.keep(outcome)
        if self._run is None or outcome.step != self._run.step.index:
            self._network.events["outside_any_step"] += 1
            self._outside.record(outcome)
            return
        self._kpis.record(outcome)
        if outcome.succeeded:
            self._halves.add(outcome.procedure, outcome.due_at, outcome.time_s)
        self._by_second(self._run, outcome)
        self._samples.failure(outcome)

    def _record_call(self, outcome: CallOutcome) -> None:
        self._samples.keep_call(outcome)
        if self._run is None or outcome.step != self._run.step.index:
            self._network.events["outside_any_step"] += 1
            self._outside.record_call(outcome)
            return
        self._kpis.record_call(outcome)
        self._halves.add("call", outcome.due_at, outcome.setup_at - outcome.sent_at)
        self._by_second(self._run, outcome)
        self._samples.call_failure(outcome)

    def _by_second(self, run: StepRun, outcome: Outcome | CallOutcome) -> None:
        """Keep when an attempt of a search's trial was due, where the trial wants it."""
        trial = run.step.trial
        adequate = is_adequate(outcome, trial.limits) if trial is not None else None
        if adequate is not None:
            self._timeline.add(outcome.due_at - run.first_due_at, adequate)

    def _counters(self) -> Counter[str]:
        counters = self._driver.events + self._network.events
        counters.update({f"net {k}": v for k, v in network_counters().items()})
        if self._backend is not None:
            counters.update({f"esp {k}": v for k, v in self._backend.counters().items()})
        if self._tap is not None:
            counters.update({f"pcap {k}": v for k, v in self._tap.counters().items()})
        return counters


def unreached(kpis: StepKpis) -> Message:
    """How many registrations failed because nobody was there to connect to; why most of them did."""
    causes = {
        cause: count
        for (stage, cause), count in kpis.procedures["registration"].failures.items()
        if stage == "connect" and cause in UNREACHED_CAUSES
    }
    most = max(causes, key=lambda cause: causes[cause], default="")
    return {"unreached": sum(causes.values()), "cause": most}


def prepare_for_phones(config: Message) -> None:
    """Links, routes and the phones' addresses (AnyIP) of this worker's own namespace."""
    prepare_namespace(config)
    links.add_local_prefix(config["phone_prefix"])
    links.tune_for_phones()


def main() -> int:
    """Serve one coordinator; the exit code is 0, or the run's reason to fail."""
    channel = child_channel()
    if channel is None:
        sys.stderr.write("imsbench.run.worker is started by a run, not by hand\n")
        return 2
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator decides when a run ends
    try:
        enter_new_network_namespace()
        channel.send("namespace", pid=os.getpid())
        config = channel.wait("config")
        raise_open_files()
        prepare_for_phones(config)
        worker = Worker(channel, config)
    except (HostError, BackendError, links.LinkError, RunRefused, OSError) as error:
        channel.send("error", text=str(error), exit=HOST_LACKS)
        return HOST_LACKS
    except EOFError:
        return 0
    worker.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
