"""A backend in a network namespace that outlives its process: what it changes there is given back.

The namespaces of a run end with their processes and take everything along. A core that is started by
hand stands in a namespace of somebody's, often the host's own. Of what a backend changes there, the
TUN device ends with the process, with its routes, also after SIGKILL. What does not:

    rules of protected ports            deleted at the end; after SIGKILL by the next ``UserspaceEsp``
    XFRM states and policies            deleted at the end; after SIGKILL by the next ``KernelEsp``
    ports added to the reserved ones    released at the end; after SIGKILL by the next ``given_back``,
                                        from a record that is written before they are reserved

Nothing else of the namespace is written, and ports that were reserved before stay so.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from imsbench.host import links, tun
from imsbench.host.backend import SaBackend
from imsbench.host.links import Range
from imsbench.host.process import describe_process, is_running

RECORDS = Path("/run/imsbench")
"""Where records are; gone after a reboot, as the reservations are."""


@contextmanager
def given_back(
    make: Callable[[], SaBackend], ports: Sequence[Range], tell: Callable[[str], object]
) -> Iterator[SaBackend]:
    """Make a backend; in the end, whatever happens, the namespace is as it was before.

    ports: its protected ones. tell: is given, in words, what is changed. The sockets that the backend
    serves must be closed when the block ends. Raises what ``make`` does; LinkError.
    """
    _sweep()
    added = links.not_reserved(ports)
    record = _write_record(added, tell) if added else None
    backend: SaBackend | None = None
    try:
        backend = make()
        tell(
            "this network namespace is changed until the end: "
            + "; ".join(_changes(backend, ports))
        )
        if added:
            text = links.spell_ranges(added)
            tell(f"net.ipv4.ip_local_reserved_ports: {text} added until the end")
        yield backend
    finally:
        if backend is not None:
            backend.close()
            if backend.name == "userspace":
                tun.forget_rules()
        links.release_ports(added)
        if record is not None:
            record.unlink(missing_ok=True)


def _changes(backend: SaBackend, ports: Sequence[Range]) -> list[str]:
    text = links.spell_ranges(ports)
    if backend.name == "userspace":
        return [
            f"device {backend.device}, with a default route of metric {tun.ROUTE_METRIC}",
            f"rules of priority {tun.ROUTE_TABLE} that lead what leaves from ports {text} to it",
        ]
    return [f"IPsec policies that let ports {text} talk inside security associations only"]


def _write_record(added: Sequence[Range], tell: Callable[[str], object]) -> Path | None:
    record = RECORDS / f"ports-{_namespace()}-{os.getpid()}.json"
    try:
        RECORDS.mkdir(exist_ok=True)
        record.write_text(json.dumps({"process": describe_process(os.getpid()), "ports": added}))
    except OSError as error:
        tell(f"{record}: {error.strerror}: a SIGKILL would leave ports {added} reserved")
        return None
    return record


def _sweep() -> None:
    """Release what a killed process had reserved in this namespace."""
    for record in RECORDS.glob(f"ports-{_namespace()}-*.json"):
        try:
            told = json.loads(record.read_text())
            if not is_running(told["process"]):
                links.release_ports([(int(first), int(last)) for first, last in told["ports"]])
                record.unlink(missing_ok=True)
        except (OSError, ValueError, KeyError, TypeError):
            record.unlink(missing_ok=True)  # cut off as it was written: nothing was reserved yet


def _namespace() -> int:
    return os.stat("/proc/thread-self/ns/net").st_ino
