"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes is this machine's business, and no assertion.
settings.register_profile("imsbench", deadline=None)
settings.load_profile("imsbench")
