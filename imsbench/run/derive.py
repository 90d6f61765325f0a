"""Profiles made from profiles: another target, or a single phone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from imsbench.profile import PLAYED_BY, Problem, Profile, ProfileError
from imsbench.profile.model import OF_OURS

_TARGET_KINDS = ("embedded", "null", "lab")
_SHARED = ("name", "version")
_OF_OURS = (*OF_OURS, "expires", "min_expires")


def with_target(profile: Profile, target: str) -> Profile:
    """The same load against another target: "embedded", "null", "lab" or "ADDRESS:PORT".

    What ours are told of themselves stays between them; name and version, where the kind is the same.
    What was declared of the profile's own target, or read of its processes, is not said of another.
    """
    return _validated(_retargeted(profile, target), f"--target {target}")


def _retargeted(profile: Profile, target: str) -> dict[str, Any]:
    """The values of a profile against another target, not yet checked."""
    kind = target if target in _TARGET_KINDS else "external"
    values: dict[str, Any] = profile.model_dump(mode="json")
    old = values["target"]
    keep: tuple[str, ...] = _OF_OURS if kind != "external" else ()
    if old["kind"] == kind:
        keep += _SHARED
    if old["kind"] == "external" and kind != "external":
        keep = ()
    values["target"] = {"kind": kind} | {name: old[name] for name in keep}
    if kind == "null":
        values["target"].pop("limiter", None)  # it knows nobody, and limits nothing
    if kind == "external":
        values["target"]["pcscf"] = target
    if kind == "lab":
        values["target"] = {"kind": kind, "lab": old["lab"]} | {
            name: old[name] for name in (*_SHARED, "expires", "min_expires") if name in keep
        }
    for name, simulator in values["simulators"].items():
        if simulator is None:
            continue
        if kind == "null" or (kind == "external" and simulator["listen"] is None):
            values["simulators"][name] = None
        elif kind != "external":
            simulator["listen"] = None
    _drop_faults(values, kind)
    return values


def _drop_faults(values: dict[str, Any], kind: str) -> None:
    """Faults of what a run against this kind of target has not."""
    if kind == "embedded":
        return
    values["target"].pop("faults", None)
    simulators = values["simulators"].items()
    played = [name for name, simulator in simulators if simulator is not None or kind == "lab"]
    values["faults"] = [one for one in values["faults"] if PLAYED_BY[one["what"]] in played]


def with_lab(
    profile: Profile, core: str, variant: str = "", provoke: Sequence[str] = ()
) -> Profile:
    """The same load against this core of a lab; variant: where it runs, "" as the profile says;
    provoke: defects of it that the profile does not name.

    ProfileError where they do not go together.
    """
    values = _retargeted(profile, "lab")
    lab = values["target"]["lab"]
    lab |= {"core": core} | ({"variant": variant} if variant else {})
    lab["provoke"] = [*lab["provoke"], *provoke]
    return _validated(values, f"lab {core}")


def with_version(profile: Profile, version: str) -> Profile:
    """The same, its target known by this version for reports, unless the profile gives one."""
    target = profile.target
    update = {"version": target.version or version}
    return profile.model_copy(update={"target": target.model_copy(update=update)})


def one_phone(profile: Profile) -> Profile:
    """The same phones and target, but one phone that registers once; no timed faults, no thresholds."""
    values = profile.model_dump(mode="json")
    values["subscribers"]["count"] = 1
    values["generator"]["workers"] = 1
    values["phases"] = [{"fill": {"rate": 1, "to": 1}}]
    values["faults"] = []
    values["thresholds"] = []
    return _validated(values, "one phone")


def one_call(profile: Profile) -> Profile:
    """The same phones and target, but two phones that register, one call, each refresh, and both once again.

    The call is the profile's first kind of calls, answered, as short as may be; without faults, and
    without thresholds.
    """
    values = profile.model_dump(mode="json")
    values["subscribers"]["count"] = 2
    values["generator"] |= {"workers": 1, "arrivals": "constant"}
    values["phones"]["refresh_phase"] = "natural"
    values["target"] |= {"call_faults": {}, "faults": []}
    values["faults"] = []
    for simulator in values["simulators"].values():
        if simulator is not None:
            simulator["faults"] = []
    call = _first_calls(profile) | {
        "rate": 1,
        "duration": "1s",
        "warm_up": "0s",
        "registered": None,
        "hold": {"mean": "500ms"},
        "ring": {},
        "watch_release": "0s",
        "calls_per_phone": 1,
    }
    for share in ("busy", "rejected", "cancelled", "unregistered", "bye_by_callee"):
        call[share] = 0.0
    refreshed = ["registration"] + ["subscription"] * profile.phones.subscribe_reg_event
    values["phases"] = [
        {"fill": {"rate": 10, "to": 2}},
        {"calls": call},
        *({"hold": {"duration": "200ms", "refresh": what}} for what in refreshed),
        {"cycle": {"rate": 10}},
    ]
    values["thresholds"] = []
    return _validated(values, "one call")


def _first_calls(profile: Profile) -> dict[str, Any]:
    for step in profile.steps():
        if step.calls is not None:
            return step.calls.model_dump(mode="json")
    return {}


def _validated(values: dict[str, Any], origin: str) -> Profile:
    try:
        return Profile.model_validate(values)
    except ValidationError as error:
        problems = [
            Problem(
                ".".join(map(str, details["loc"])),
                None,
                details["msg"].removeprefix("Value error, "),
            )
            for details in error.errors(include_url=False)
        ]
        raise ProfileError(origin, problems) from None
