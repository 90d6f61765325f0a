"""Commands with one phone, or two and a call, before any load: check, register, call."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console

from imsbench.cli.arguments import Commands, add_pcap, add_profile, load
from imsbench.cli.output import say
from imsbench.profile import Profile
from imsbench.report import ladder
from imsbench.run import derive, exits, network, observe, preflight, single
from imsbench.run.capture import CaptureOrder
from imsbench.run.display import Display
from imsbench.run.record import Json

_PLAIN_WIDTH = 140
"""Columns of ladders that go to a file or a pipe."""


def add(commands: Commands) -> None:
    """Add them to the command line."""
    check = commands.add_parser(
        "check",
        help="the profile, this host, then one phone (and a call) against the target",
        description="Find out, before the load, what would fail: profile, host, target.",
    )
    add_profile(check, _check, required=True)
    register = commands.add_parser(
        "register",
        help="one phone registers; every message with its time",
        description="Why does it not register? One phone, its ladder, and what to look at.",
    )
    call = commands.add_parser(
        "call",
        help="two phones register, one calls the other; both ladders side by side",
        description="Why does the call fail? Two phones, one call, every message on one clock.",
    )
    for command, function in ((register, _register), (call, _call)):
        add_profile(command, function, required=False)
        add_pcap(command)


def _check(arguments: argparse.Namespace) -> int:
    profile = load(arguments)
    network.become_capable(profile)
    print(f"profile  {profile.describe()}")
    if profile.target.kind == "external":
        way = network.route_advice(profile)
        print(f"route    the core must have a way back to the phones, such as: {way}")
    findings = preflight.findings(profile)
    for finding in findings:
        print(f"host     {'ok   ' if finding.ok else 'lacks'}  {finding}")
    if not all(finding.ok for finding in findings):
        print("The host lacks something; nothing was sent to the target.")
        return exits.HOST_LACKS
    if any(step.calls for step in profile.steps()):
        return _check_call(profile)
    with Display(say) as watch:
        outcome = single.try_one_phone(profile, watch)
    _print_conduct(outcome.conduct)
    if not outcome.failures:
        print(f"target   {profile.target.title}: one phone registered. {outcome.farewell()}")
        return exits.KEPT
    _print_failures(outcome.failures)
    return exits.BROKEN


def _check_call(profile: Profile) -> int:
    """The target's part of a check where the load has calls: two phones, one call, what it did."""
    with Display(say) as watch:
        outcome = observe.call(profile, watch)
    _print_conduct(outcome.conduct)
    if outcome.signature is None:
        _print_failures(outcome.failures)
        return exits.BROKEN
    called = "two phones registered, and one called the other"
    print(f"target   {profile.target.title}: {called}. {outcome.farewell()}")
    for procedure, seen in outcome.signature:
        for what, counts in (("messages", seen.messages), ("Diameter", seen.commands)):
            if counts:
                listed = ", ".join(f"{name}: {n:g}" for name, n in counts.items())
                print(f"         {procedure}, {what}: {listed}")
    return exits.KEPT


def _register(arguments: argparse.Namespace) -> int:
    profile = load(arguments)
    network.become_capable(profile)
    preflight.refuse_if_lacking(derive.one_phone(profile))
    with Display(say) as watch:
        pcap = CaptureOrder(arguments.pcap, 1) if arguments.pcap else None
        outcome = single.try_one_phone(profile, watch, pcap)
    _print_ladders(outcome.ladders)
    for line in outcome.captures:
        print(line)
    _print_conduct(outcome.conduct)
    if not outcome.failures:
        print(f"The phone registered. {outcome.farewell()}")
        return exits.KEPT
    _print_failures(outcome.failures)
    return exits.BROKEN


def _call(arguments: argparse.Namespace) -> int:
    profile = load(arguments)
    network.become_capable(profile)
    preflight.refuse_if_lacking(derive.one_call(profile))
    with Display(say) as watch:
        pcap = CaptureOrder(arguments.pcap, 2) if arguments.pcap else None
        outcome = observe.call(profile, watch, pcap)
    if outcome.failures and not outcome.calls:
        _print_ladders(outcome.registrations)
    width = Console().width if sys.stdout.isatty() else _PLAIN_WIDTH
    for one in outcome.calls:
        caller, callee = ladder.since_first(one["ladder"], one["callee_ladder"])
        print("\n".join(ladder.side_by_side(caller, callee, width)))
        print(ladder.legend(caller, callee))
    for line in outcome.captures:
        print(line)
    _print_conduct(outcome.conduct)
    if not outcome.failures:
        print(f"The phones called each other. {outcome.farewell()}")
        return exits.KEPT
    _print_failures(outcome.failures)
    return exits.BROKEN


def _print_ladders(told: Sequence[Sequence[Json]]) -> None:
    """Each by itself, from its own first line on."""
    for lines in told:
        (one,) = ladder.since_first(lines)
        print("\n".join(ladder.one_phone(one)))
        print(ladder.legend(one))


def _print_failures(failures: Sequence[single.Failure]) -> None:
    for failure in failures:
        print(f"target   {failure.describe()}")
        print(f"         {failure.advice}")


def _print_conduct(lines: Sequence[str]) -> None:
    for line in lines:
        print(f"noticed  {line}")
