"""A simulator started by hand: its options, its words on standard error, its end."""

from __future__ import annotations

import ipaddress
import logging
import signal
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping

from imsbench.protocol.address import host_port, split_host_port

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What ends a simulator in order."""


def endpoint(default_port: int) -> Callable[[str], tuple[str, int]]:
    """A type of argparse: ADDRESS or ADDRESS:PORT; an IPv6 address needs brackets only with a port."""

    def parse(text: str) -> tuple[str, int]:
        try:
            if text.count(":") > 1 and not text.startswith("["):
                host, port = text, 0
            else:
                host, port = split_host_port(text)
            ipaddress.ip_address(host)
        except ValueError as error:
            address = host_port("2001:db8::1", default_port)
            raise ArgumentTypeError(
                f"{text!r} is no IP address with or without a port, as 192.0.2.1, "
                f"192.0.2.1:{default_port} or {address}"
            ) from error
        return host, port or default_port

    return parse


def log_to_stderr(name: str) -> None:
    """Have what is logged written to standard error, introduced by the name of the simulator."""
    logging.basicConfig(level=logging.INFO, format=f"{name}: %(message)s")


def end_in_order() -> None:
    """From now on every stop signal is a KeyboardInterrupt, until a loop takes them over."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.default_int_handler)


def end_undisturbed() -> None:
    """The end is under way and short: a further stop signal does not cut it."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def error_in_words(error: Exception) -> str:
    """What an error says, without the number that OSError puts before it."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def counts_in_words(counts: Mapping[str, int]) -> str:
    """What is not zero, by name: "REGISTER 401: 12, REGISTER 200: 12"."""
    return ", ".join(f"{name}: {count:,}" for name, count in sorted(counts.items()) if count)
