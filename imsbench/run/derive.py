"""Profiles made from profiles: another target, or a single phone."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from imsbench.profile import Problem, Profile, ProfileError

_TARGET_KINDS = ("embedded", "null")
_SHARED = ("name", "version")
_EMBEDDED_ONLY = ("ipsec", "expires", "min_expires", "reauthenticate", "delay", "loss_share")


def with_target(profile: Profile, target: str) -> Profile:
    """The same load against another target: "embedded", "null" or "ADDRESS:PORT"; ProfileError.

    What the profile says of its own target stays where the new one is of the same kind.
    """
    kind = target if target in _TARGET_KINDS else "external"
    values: dict[str, Any] = profile.model_dump(mode="json")
    old = values["target"]
    keep: tuple[str, ...] = _EMBEDDED_ONLY if kind != "external" else ()
    if old["kind"] == kind:
        keep += _SHARED
    if old["kind"] == "external" and kind != "external":
        keep = ()
    values["target"] = {"kind": kind} | {name: old[name] for name in keep}
    if kind == "external":
        values["target"]["pcscf"] = target
    hss = values["simulators"]["hss"]
    if hss is not None and (kind == "null" or (kind == "external" and hss["listen"] is None)):
        values["simulators"]["hss"] = None
    elif hss is not None and kind == "embedded":
        hss["listen"] = None
    return _validated(values, f"--target {target}")


def one_phone(profile: Profile) -> Profile:
    """The same phones and target, but one phone that registers once, and no thresholds."""
    values = profile.model_dump(mode="json")
    values["subscribers"]["count"] = 1
    values["generator"]["workers"] = 1
    values["phases"] = [{"fill": {"rate": 1, "to": 1}}]
    values["thresholds"] = []
    return _validated(values, "one phone")


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
