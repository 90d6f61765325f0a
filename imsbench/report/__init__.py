"""From a run's result to what people read; nothing here knows how a run is made."""

from imsbench.report.markdown import render
from imsbench.report.result import ResultError, RunResult, read_result

__all__ = ["ResultError", "RunResult", "read_result", "render"]
