"""What needs ESP in the kernel runs inside user-mode Linux, and only there."""

from __future__ import annotations

import os

import pytest

from tests.lab import uml


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("kernel_esp") and os.environ.get(uml.INSIDE) != "1":
        pytest.skip("runs inside user-mode Linux: test_kernel_esp.py, or make test-kernel")
