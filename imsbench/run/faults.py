"""The timed faults of a profile: ordered ahead of their instants, and what became of them.

Whoever does it is told the instant itself, on the monotonic clock that all processes share, as soon as
the step, or the load, has one; so no fault is late because the coordinator is.
"""

from __future__ import annotations

from imsbench.profile import Profile, Step, faults_of_step
from imsbench.run.crew import Crew
from imsbench.run.record import RunRecord


class FaultOrders:
    """Orders each timed fault once its instant is known."""

    def __init__(self, profile: Profile, crew: Crew, record: RunRecord) -> None:
        self._faults = profile.faults
        self._crew = crew
        self._record = record
        self._begun = False

    def begin(self, step: Step, at: float) -> None:
        """A step, and with the first one the load, begins at this instant, monotonic seconds."""
        if not self._faults:
            return
        if not self._begun:
            self._begun = True
            self._record.load_at = at
            self._order(None, at)
        self._order(step, at)

    def _order(self, step: Step | None, at: float) -> None:
        index = None if step is None else step.index
        for number, fault in faults_of_step(self._faults, step):
            self._record.ordered.append((number, index, at + fault.at))
            self._crew.send(
                fault.played_by,
                "fault",
                fault=number,
                step=index,
                what=fault.what,
                at=at + fault.at,
                duration_s=fault.duration,
                rate=fault.rate,
                count=fault.count,
                share=fault.share,
            )
