"""Results of earlier versions, read as those of this one.

Version 1 had no calls; version 2 had one limit of the generator (``generator.cpu_limit``).
"""

from __future__ import annotations

from typing import Any, Literal

from imsbench.kpi.sessions import SessionKpis

SCHEMA_VERSION: Literal[3] = 3
"""Raised when the form changes."""
READ = (1, 2, SCHEMA_VERSION)
"""Versions that can be read."""


def upgraded(data: dict[str, Any], version: int) -> dict[str, Any]:
    """A result of one of READ in this version's form; what is not of its form is left as it is."""
    if version < 2:
        data = _with_sessions(data)
    if version < 3:
        data = _with_limits(data)
    return data | {"schema_version": SCHEMA_VERSION}


def _with_sessions(data: dict[str, Any]) -> dict[str, Any]:
    """No calls, the rest as it was."""
    steps = data.get("steps")
    for step in steps if isinstance(steps, list) else []:
        for part in (step, step.get("repair")) if isinstance(step, dict) else ():
            if isinstance(part, dict) and isinstance(part.get("kpis"), dict):
                part["kpis"].setdefault("sessions", SessionKpis().to_json())
    return data


def _with_limits(data: dict[str, Any]) -> dict[str, Any]:
    """The limit of a worker's CPU among the others, which were what they are by default."""
    profile = data.get("profile")
    generator = profile.get("generator") if isinstance(profile, dict) else None
    if isinstance(generator, dict) and "cpu_limit" in generator:
        generator["limits"] = {"worker_cpu": generator.pop("cpu_limit")}
    return data
