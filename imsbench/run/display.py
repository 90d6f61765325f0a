"""Progress on standard error while a run goes: what its watcher is told, for a person."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from imsbench.run import events


class Display:
    """Progress on standard error: a live bar in a terminal, else plain lines, one a second."""

    def __init__(self, say: Callable[[str], None]) -> None:
        """say: prints a line."""
        self._say = say
        console = Console(stderr=True)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        if console.is_terminal:
            columns = (
                SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=12),
                TimeElapsedColumn(), TextColumn("{task.fields[counts]}"),
            )  # fmt: skip
            self._bar = Progress(*columns, console=console)
        self._in_stage = False

    def __enter__(self) -> events.Watcher:
        if self._bar is not None:
            self._bar.start()
            return self._on_bar
        return self._on_lines

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _on_bar(self, event: events.Event) -> None:
        assert self._bar is not None
        stage, self._in_stage = self._in_stage, isinstance(event, events.Stage)
        match event:
            case events.Stage(text=text):
                if stage and self._task is not None:
                    self._bar.update(self._task, description=text)
                else:
                    self._task = self._bar.add_task(text, total=None, counts="")
            case events.StepStarted():
                self._finish_task("")
                self._task = self._bar.add_task(
                    event.heading, total=event.expected_s or None, counts=""
                )
            case events.Progress() if self._task is not None:
                self._bar.update(
                    self._task,
                    completed=min(event.elapsed_s, event.expected_s),
                    counts=event.describe(),
                )
            case events.StepEnded():
                self._finish_task(event.text)
            case _:
                pass

    def _finish_task(self, counts: str) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, total=1, completed=1, counts=counts)
            self._task = None

    def _on_lines(self, event: events.Event) -> None:
        match event:
            case events.Stage(text=text):
                line = text
            case events.StepStarted():
                line = event.heading
            case events.Progress():
                line = (
                    f"     {event.elapsed_s:4.0f} of {event.expected_s:.0f} s: {event.describe()}"
                )
            case events.StepEnded():
                line = f"     done in {event.elapsed_s:.1f} s: {event.text}"
        self._say(f"{time.strftime('%H:%M:%S')}  {line}")
