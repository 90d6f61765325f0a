"""The readers of untrusted bytes, one target each; a new protocol adds its module and its line here."""

from __future__ import annotations

from tests.fuzz.harness import Target
from tests.fuzz.targets import (
    calls,
    core,
    diameter,
    documents,
    esp,
    files,
    phones,
    rx,
    sdp,
    sip,
    values,
)

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (sip, sdp, values, esp, documents, diameter, rx, phones, calls, core, files)
    for target in module.TARGETS
}
"""By name."""
