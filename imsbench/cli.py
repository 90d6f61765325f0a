"""The command line: arguments, progress, exit codes. The only module that prints.

Results go to standard output, progress to standard error. Exit codes are in ``run/exits``.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown

import imsbench
from imsbench.profile import Profile, ProfileError, load_profile, shipped_profiles
from imsbench.run import (
    derive,
    execute,
    exits,
    find,
    network,
    observe,
    preflight,
    process,
    provision,
    sidebyside,
    single,
)
from imsbench.run.capture import DEFAULT_PHONES, CaptureOrder
from imsbench.run.display import Display
from imsbench.run.exits import RunRefused

_SIMULATORS = {
    "hss": "simulators.hss",
    "pcrf": "simulators.pcrf",
    "core": "simulators.core",
}
_DEMO = "quickstart"
_PLAIN_WIDTH = 140
"""Columns of ladders that go to a file or a pipe."""

_EPILOG = """\
exit codes: 0 every threshold kept; 1 a threshold broken, or the target never there; 2 usage or
profile error; 3 the generator was not able to vouch for the run; 4 the target died; 5 the host lacks
something; 70 a defect of imsbench; 130 interrupted. The gravest wins (70, 130, 5, 4, 3, 1).
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and arguments[0] in _SIMULATORS:
        return _simulator(arguments[0], arguments[1:])
    chosen = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = chosen.command
    try:
        return command(chosen)
    except ProfileError as error:
        _complain(str(error))
        return exits.USAGE
    except RunRefused as refusal:
        _complain(str(refusal))
        return refusal.exit_code
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone: nobody is left to tell
        _drop_output()
        return exits.KEPT
    except Exception:
        traceback.print_exc()
        _complain("this is a defect of imsbench: please report it with the lines above")
        return exits.DEFECT


# -- arguments ---------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="imsbench",
        description="Capacity benchmark for IMS cores: plays the phones, and the HSS behind the core.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"imsbench {imsbench.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_load_commands(commands)
    _add_other_commands(commands)
    return parser


def _add_load_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demo = commands.add_parser(
        "demo",
        help="embedded core, HSS and PCRF, 200 phones, calls, the tables: about a minute",
        description="Run the quickstart profile against the embedded reference core.",
    )
    demo.set_defaults(command=_demo)
    run = commands.add_parser(
        "run",
        help="run a profile and write its result",
        description="Run the whole load of a profile; result.json and report.md are written.",
        epilog=f"profiles that come with imsbench: {', '.join(shipped_profiles())}",
    )
    check = commands.add_parser(
        "check",
        help="the profile, this host, then one phone (and a call) against the target",
        description="Find out, before the load, what would fail: profile, host, target.",
    )
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
    for command, function in ((run, _run), (check, _check)):
        _add_profile(command, function, required=True)
    for command, function in ((register, _register), (call, _call)):
        _add_profile(command, function, required=False)
    for command in (demo, run):
        command.add_argument(
            "--out", metavar="DIR", type=Path, default=Path("results"), help="default: results/"
        )
    for command in (run, register, call):
        command.add_argument(
            "--pcap",
            metavar="FILE",
            type=Path,
            help="capture phones' packets on the outer link, pcapng; their ESP keys in FILE.esp_sa",
        )
    _add_pcap_phones(run)


def _add_profile(
    command: argparse.ArgumentParser,
    function: Callable[[argparse.Namespace], int],
    *,
    required: bool,
) -> None:
    """The profile of a command, and the target that may stand for its own."""
    text = "a YAML file, or the name of a shipped one"
    if required:
        command.add_argument("profile", metavar="PROFILE", help=text)
    else:
        command.add_argument("profile", metavar="PROFILE", help=text, nargs="?", default=_DEMO)
    command.add_argument(
        "--target",
        metavar="T",
        help="instead of the profile's target: embedded, null, or ADDRESS:PORT of a P-CSCF",
    )
    command.set_defaults(command=function)


def _add_pcap_phones(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "--pcap-phones",
        metavar="N",
        type=_positive,
        help=f"how many phones, the first ones (default: {DEFAULT_PHONES})",
    )


def _add_other_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    report = commands.add_parser(
        "report",
        help="the Markdown report of results, rendered again",
        description="Render the report of each result.json (or its folder) to standard output.",
    )
    report.add_argument("results", metavar="RESULT", type=Path, nargs="+")
    report.set_defaults(command=_report)
    subscribers = commands.add_parser(
        "subscribers",
        help="a profile's subscribers as CSV, to provision a core's own HSS",
        description="Print number, IMPI, IMPUs, MSISDN, K, and OPc or OP, a line each: keys in clear.",
    )
    subscribers.add_argument(
        "profile", metavar="PROFILE", help="a YAML file, or the name of a shipped one"
    )
    subscribers.set_defaults(command=_subscribers)
    enter = commands.add_parser(
        "enter",
        help="a shell in the network namespace of a running worker, core or hss",
        description="Open a shell (or run a command) in the namespace of a run in progress.",
        epilog="example: imsbench enter worker-0 tcpdump -ni ims0",
    )
    enter.add_argument(
        "worker",
        metavar="WORKER",
        help="worker-0 (or 0), core, hss, pcrf; a process id of one, or of a run (its worker-0)",
    )
    enter.add_argument("argv", metavar="COMMAND", nargs=argparse.REMAINDER, help="default: $SHELL")
    enter.set_defaults(command=_enter)
    simulators = {
        "hss": "the HSS simulator",
        "pcrf": "the PCRF simulator",
        "core": "the reference core",
    }
    for name, text in simulators.items():
        commands.add_parser(name, help=f"{text} alone; imsbench {name} --help tells its options")


# -- commands ----------------------------------------------------------------------------------


def _demo(arguments: argparse.Namespace) -> int:
    return _execute(load_profile(_DEMO), arguments.out, unvouched=exits.KEPT)


def _run(arguments: argparse.Namespace) -> int:
    return _execute(_load(arguments), arguments.out, pcap=_capture(arguments))


def _execute(
    profile: Profile,
    out: Path,
    *,
    pcap: CaptureOrder | None = None,
    unvouched: int = exits.UNVOUCHED,
) -> int:
    network.become_capable(profile)
    preflight.refuse_if_lacking(profile)
    _say(profile.describe())
    with Display(_say) as watch:
        finished = execute.execute(profile, watch, out, pcap=pcap, unvouched=unvouched)
    stored = finished.stored
    for problem in stored.problems:
        _complain(problem)
    lines = [*finished.verdict, *finished.captures]
    if stored.files:
        lines.append(f"Result: {', '.join(map(str, stored.files))}")
    try:
        if stored.report:
            _print_markdown(stored.report)
        print("\n".join(lines), flush=True)
    except BrokenPipeError:  # the reader has seen enough; the run's own exit code stands
        _drop_output()
    except OSError as error:
        return exits.gravest((finished.exit_code, _output_lost(error)))
    return finished.exit_code


def _check(arguments: argparse.Namespace) -> int:
    profile = _load(arguments)
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
    with Display(_say) as watch:
        outcome = single.try_one_phone(profile, watch)
    if not outcome.failures:
        print(f"target   {profile.target.title}: one phone registered. {outcome.farewell()}")
        return exits.KEPT
    _print_failures(outcome.failures)
    return exits.BROKEN


def _check_call(profile: Profile) -> int:
    """The target's part of a check where the load has calls: two phones, one call, what it did."""
    with Display(_say) as watch:
        outcome = observe.call(profile, watch)
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
    profile = _load(arguments)
    network.become_capable(profile)
    preflight.refuse_if_lacking(derive.one_phone(profile))
    with Display(_say) as watch:
        pcap = CaptureOrder(arguments.pcap, 1) if arguments.pcap else None
        outcome = single.try_one_phone(profile, watch, pcap)
    for ladder in outcome.ladders:
        print("\n".join(single.ladder_lines(ladder)), end="\n\n")
    for line in outcome.captures:
        print(line)
    if not outcome.failures:
        print(f"The phone registered. {outcome.farewell()}")
        return exits.KEPT
    _print_failures(outcome.failures)
    return exits.BROKEN


def _call(arguments: argparse.Namespace) -> int:
    profile = _load(arguments)
    network.become_capable(profile)
    preflight.refuse_if_lacking(derive.one_call(profile))
    with Display(_say) as watch:
        pcap = CaptureOrder(arguments.pcap, 2) if arguments.pcap else None
        outcome = observe.call(profile, watch, pcap)
    if outcome.failures and not outcome.calls:
        for ladder in outcome.registrations:
            print("\n".join(single.ladder_lines(ladder)), end="\n\n")
    width = Console().width if sys.stdout.isatty() else _PLAIN_WIDTH
    for one in outcome.calls:
        ladders = one["ladder"], one["callee_ladder"]
        print("\n".join(sidebyside.side_by_side(*ladders, width)))
        print("* travelled inside a security association", end="\n\n")
    for line in outcome.captures:
        print(line)
    if not outcome.failures:
        print(f"The phones called each other. {outcome.farewell()}")
        return exits.KEPT
    _print_failures(outcome.failures)
    return exits.BROKEN


def _print_failures(failures: Sequence[single.Failure]) -> None:
    for failure in failures:
        print(f"target   {failure.describe()}")
        print(f"         {failure.advice}")


def _report(arguments: argparse.Namespace) -> int:
    reports = [execute.render(path) for path in arguments.results]
    try:
        print("".join(reports), end="", flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        return _output_lost(error)
    return exits.KEPT


def _subscribers(arguments: argparse.Namespace) -> int:
    profile = load_profile(arguments.profile)
    try:
        sys.stdout.writelines(provision.subscriber_lines(profile))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        return _output_lost(error)
    return exits.KEPT


def _enter(arguments: argparse.Namespace) -> int:
    children = find.running()
    found = find.matching(children, arguments.worker)
    if len(found) == 1:
        shell = arguments.argv or [os.environ.get("SHELL", "/bin/sh")]
        command = find.enter_command(found[0], shell)
        sys.stdout.flush()
        try:
            os.execvp(command[0], command)
        except OSError as error:
            _complain(f"{command[0]}: {error.strerror}; it is in the package util-linux")
            return exits.HOST_LACKS
    if not children:
        _complain("no run is in progress (or none that this user may look at)")
        return exits.USAGE
    what = "several runs have" if found else "no run in progress has"
    _complain(f"{what} a child {arguments.worker!r}; name one, or give its process id:")
    for child in found or children:
        _say(f"  {child.name:<12} pid {child.pid}, of the run with pid {child.coordinator}")
    return exits.USAGE


def _simulator(name: str, arguments: list[str]) -> int:
    """Become the simulator: the same module that a run starts, without a coordinator."""
    sys.stdout.flush()
    command = [sys.executable, "-P", "-m", _SIMULATORS[name], *arguments]
    os.execve(sys.executable, command, process.own_environment())


def _capture(arguments: argparse.Namespace) -> CaptureOrder | None:
    if arguments.pcap is None:
        if arguments.pcap_phones is not None:
            raise RunRefused("--pcap-phones goes with --pcap FILE", exits.USAGE)
        return None
    phones = DEFAULT_PHONES if arguments.pcap_phones is None else arguments.pcap_phones
    return CaptureOrder(arguments.pcap, phones)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _load(arguments: argparse.Namespace) -> Profile:
    profile = load_profile(arguments.profile, execute.threshold_problem)
    return derive.with_target(profile, arguments.target) if arguments.target else profile


# -- output ------------------------------------------------------------------------------------


def _print_markdown(text: str) -> None:
    console = Console()
    if console.is_terminal:
        console.print(Markdown(text))
    else:
        print(text)


def _drop_output() -> None:
    """Let the interpreter's last flush of standard output go nowhere instead of failing."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _output_lost(error: OSError) -> int:
    """Say that standard output took no more (a full disk behind it); the exit code for it."""
    _drop_output()
    _complain(f"standard output could not be written: {error.strerror}")
    return exits.HOST_LACKS


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _complain(text: str) -> None:
    _say(f"imsbench: {text}")
