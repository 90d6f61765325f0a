"""The kernel's memory per subscriber: of a target whose own kernel was read, else a dash and why."""

from __future__ import annotations

from imsbench.report import system
from imsbench.report.parts import TargetUsage
from imsbench.report.result import RunResult
from tests.report.results import hand_made

ROW = "Kernel memory per registered subscriber"


def row_of(result: RunResult) -> str:
    (row,) = [line for line in system.memory(result) if ROW in line]
    return row


def test_it_is_the_growth_over_idle_of_the_step_with_most_phones() -> None:
    result = hand_made().model_copy(
        update={"self_test": False, "idle": TargetUsage(kernel_memory_bytes=10 << 20)}
    )
    result.steps[0].sut = TargetUsage(kernel_memory_bytes=(10 << 20) + 200 * 8192)
    assert "8 KiB" in row_of(result)
    assert "of Slab, Percpu, PageTables, KernelStack and pages of sockets" in row_of(result)


def test_a_target_that_shares_a_kernel_has_none_to_show() -> None:
    result = hand_made().model_copy(update={"self_test": False, "idle": TargetUsage()})
    assert "only of a target with a kernel of its own" in row_of(result)
