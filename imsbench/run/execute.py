"""A whole run: from a profile to a result on disk and an exit code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from imsbench.kpi.thresholds import parse_thresholds
from imsbench.profile import Profile
from imsbench.report import markdown
from imsbench.report.objections import objections
from imsbench.report.parts import Signature
from imsbench.report.publish import publish
from imsbench.report.result import ResultError, RunResult, read_result
from imsbench.report.tables import name_of, pairs
from imsbench.run import capture, network, observe
from imsbench.run.assemble import assemble
from imsbench.run.capture import CaptureOrder
from imsbench.run.coordinator import Coordinator
from imsbench.run.events import Stage, Watcher
from imsbench.run.exits import HOST_LACKS, UNVOUCHED, USAGE, RunRefused, gravest
from imsbench.run.launch import DEFAULT_MODULES, Modules
from imsbench.run.record import RunRecord
from imsbench.run.store import Stored, store


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that is over, written to disk as far as the disk took it."""

    result: RunResult
    """Everything measured."""
    stored: Stored
    """The report, and what was written where."""
    verdict: list[str]
    """How it ended, line by line."""
    captures: list[str]
    """The captures in words, if any were wanted."""

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        return gravest((self.result.exit_code, self.stored.exit_code))


def threshold_problem(text: str, calls: bool) -> str:
    """What is wrong with a threshold of a profile, for steps with calls or without; "" if nothing is."""
    found, errors = parse_thresholds([text])
    if errors:
        return errors[0][1]
    if not calls and found[0].of_calls:
        return f"{text!r}: {found[0].key} is of calls, and no step that it is for makes any"
    return ""


def execute(
    profile: Profile,
    watch: Watcher,
    out: Path,
    *,
    pcap: CaptureOrder | None = None,
    unvouched: int = UNVOUCHED,
    modules: Modules = DEFAULT_MODULES,
) -> Finished:
    """Run a profile and write ``out/<start>_<profile>_<target>/{result.json,report.md}``.

    pcap: what is captured; unvouched: the exit code where the generator cannot vouch; modules: what
    the children run.
    RunRefused if no load could be started; what could not be written is in ``stored``.
    """
    make_folder(out)  # before the load, not after it
    if pcap is not None:
        pcap.check(profile)
    network.enter(profile)
    signature = _observe(profile, watch)
    record = Coordinator(profile, watch, pcap=pcap, modules=modules).run()
    record.signature = signature
    watch(Stage("writing the result"))
    folder = folder_for(profile, record, out)
    result = assemble(profile, record, folder.name, unvouched=unvouched)
    stored = store(result, folder)
    captures = [line for told in record.captures for line in capture.describe(told)]
    return Finished(result, stored, _verdict(result, record), captures)


def _observe(profile: Profile, watch: Watcher) -> Signature | None:
    """What the target does for one phone and one call, before a load that has calls."""
    if not any(step.calls for step in profile.steps()):
        return None
    watch(Stage("observing one phone and one call first"))
    outcome = observe.try_one_call(profile, lambda _event: None)
    for failure in outcome.failures:
        watch(Stage(f"the first call: {failure.describe()}"))
    return outcome.signature


def render(path: Path) -> str:
    """The Markdown report of a result on disk; RunRefused if it is none."""
    return markdown.render(stored_result(path))


def published(path: Path) -> str:
    """A result on disk in the form of a publication; RunRefused if it is none or may not be published.

    What the file says of itself (``publishable``) is not believed: the result is looked at anew.
    """
    result = stored_result(path)
    if against := objections(result):
        why = "\n".join(f"  - {reason}" for reason in against)
        raise RunRefused(f"{path}: may not be published:\n{why}", UNVOUCHED)
    return publish(result)


def stored_result(path: Path) -> RunResult:
    """The result on disk; RunRefused if it is none."""
    try:
        return read_result(path)
    except ResultError as error:
        raise RunRefused(str(error), USAGE) from error


def folder_for(profile: Profile, record: RunRecord, out: Path) -> Path:
    """A new folder: ``2025-01-31T12-00-00Z_quickstart_embedded``; never an old one again.

    It may not be there, if the disk has no room for it: writing into it will tell.
    """
    name = f"{record.started:%Y-%m-%dT%H-%M-%SZ}_{profile.name}_{profile.target.kind}"
    number = 1
    while True:
        folder = out / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        except OSError:
            return folder
        else:
            return folder


def make_folder(out: Path) -> None:
    """The folder of all results; RunRefused if nothing can be written there."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".imsbench"
        probe.touch()
        probe.unlink()
    except OSError as error:
        why = "it is no directory" if isinstance(error, FileExistsError) else error.strerror
        text = (
            f"this host does not let results be written to {out}: {why} ({error.filename}); choose "
            "another directory with --out DIR"
        )
        raise RunRefused(text, HOST_LACKS) from error


def _verdict(result: RunResult, record: RunRecord) -> list[str]:
    lines = []
    if result.reason:
        lines.append(f"Not complete: {result.reason}.")
    if record.output:
        lines += ["Its last words:", *(f"    {line}" for line in record.output.splitlines())]
    lines += [f"Threshold {t.state}: {t.title}" for t in result.thresholds]
    if result.valid:
        lines.append("The generator vouches for every row.")
    elif (
        result.status != "complete"
        and not result.reasons
        and all(done.valid or not done.complete for done in result.steps)
    ):
        lines.append(
            "The last step is not whole, so it is struck; the generator vouches for the others."
        )
    else:
        lines.append("The generator does not vouch for this run; “Generator health” says why.")
    found = [f"{name_of(step)}: {text}" for step, done in pairs(result) for text in done.findings]
    if found := [*found, *result.findings]:
        lines += [
            "The target did not keep up with the profile:",
            *(f"    {text}" for text in found),
        ]
    return lines
