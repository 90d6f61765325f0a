"""What limited a target, from the loads that were tried."""

from __future__ import annotations

from imsbench.kpi.plateau import LoadPoint, limit_of, sudden

LOW = {"cpu_cores": 0.15, "busiest_cores": 0.15, "host_cpu_cores": 0.5}


def points(*pairs: tuple[float, float], **cpu: float) -> list[LoadPoint]:
    """(offered, succeeded) per second."""
    return [LoadPoint(o, s, 1 - s / o, **(LOW | cpu)) for o, s in pairs]


LIMITED = ((30.0, 30.0), (35.0, 35.0), (40.0, 37.1), (55.0, 36.9))


def test_a_plateau_without_cpu_is_a_suspected_limiter() -> None:
    found = limit_of(points(*LIMITED), 0.001, 2)
    assert found.resource == "limiter suspected"
    assert found.evidence == (
        "Successes stay at 37/s where 40 and 55 attempts/s are offered, with 0.15 of 2 cores used by "
        "the target."
    )
    assert sudden(points(*LIMITED), 0.001, 2) == found.evidence


def test_busy_processors_are_the_limit() -> None:
    found = limit_of(points(*LIMITED, host_cpu_cores=1.9, cpu_cores=1.4), 0.001, 2)
    assert found.resource == "processors"
    assert "1.90 of 2 cores of its machine were busy" in found.evidence
    assert not sudden(points(*LIMITED, host_cpu_cores=1.9, cpu_cores=1.4), 0.001, 2)


def test_a_machine_that_others_keep_busy_tells_nothing() -> None:
    found = limit_of(points(*LIMITED, host_cpu_cores=1.9, cpu_cores=0.1), 0.001, 2)
    assert found.resource == "not found"
    assert "but only 0.10 of 2 cores used by the target: something else" in found.evidence
    assert "Successes stay at 37/s" in found.evidence


def test_a_process_that_has_its_core_is_the_limit() -> None:
    found = limit_of(points(*LIMITED, cpu_cores=1.3, busiest_cores=0.97), 0.001, 16)
    assert found.resource == "one process"
    assert "0.97 of one core" in found.evidence


def test_a_collapse_is_no_plateau() -> None:
    collapse = ((30.0, 30.0), (35.0, 35.0), (40.0, 20.0), (55.0, 19.0))
    assert limit_of(points(*collapse), 0.001, 2).resource == "not found"
    falling = ((30.0, 30.0), (40.0, 37.0), (55.0, 28.0))
    assert limit_of(points(*falling), 0.001, 2).resource == "not found"


def test_failures_at_every_load_are_no_plateau() -> None:
    assert limit_of(points((30.0, 20.0), (40.0, 20.0)), 0.001, 2).resource == "not found"


def test_a_share_of_failures_whatever_the_load_is_no_plateau() -> None:
    # 2 % fail beyond 30/s: successes grow with what is offered.
    share = ((20.0, 20.0), (30.0, 30.0), (40.0, 39.2), (60.0, 58.8))
    assert limit_of(points(*share), 0.001, 2).resource == "not found"


def test_processors_that_are_neither_low_nor_at_their_limit_leave_it_open() -> None:
    found = limit_of(points(*LIMITED, cpu_cores=0.85, busiest_cores=0.85), 0.001, 2)
    assert found.resource == "not found"


def test_what_was_not_measured_or_not_missed_is_said() -> None:
    unmeasured = [LoadPoint(o, s, 1 - s / o) for o, s in LIMITED]
    assert limit_of(unmeasured, 0.001, 2).resource == "not measured"
    assert limit_of(points((10.0, 10.0)), 0.001, 2).resource == "not found"


def test_a_plateau_at_a_busy_machine_is_told_and_not_suspected() -> None:
    for busy in ({"busiest_cores": 0.85}, {"host_cpu_cores": 1.7}):
        found = limit_of(points(*LIMITED, **busy), 0.001, 2)
        assert found.resource == "not found"
        assert found.evidence.startswith(
            "Successes stay at 37/s where 40 and 55 attempts/s are offered. "
        )
        assert "a limiter is suspected of a plateau where both are below 80%" in found.evidence


def test_of_steps_at_one_load_the_one_at_the_idlest_machine_tells() -> None:
    busy = points(*LIMITED[:3], host_cpu_cores=1.9)
    found = limit_of([*busy, *points(*LIMITED[2:])], 0.001, 2)
    assert found.resource == "limiter suspected"
    assert limit_of([*busy, *points(LIMITED[3])], 0.001, 2).resource == "not found"


def test_a_step_that_was_not_measured_hides_none_that_was() -> None:
    busy = points(*LIMITED, host_cpu_cores=1.95, cpu_cores=1.9)
    unknown = LoadPoint(40.0, 37.0, 0.075)
    assert limit_of([unknown, *busy], 0.001, 2).resource == "processors"
    assert limit_of([unknown], 0.001, 2).resource == "not measured"
