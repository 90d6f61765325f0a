"""Results as files: they come back as they went, and what is none is refused in words."""

from __future__ import annotations

import ast
import inspect
import json
import pathlib
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imsbench.report import ResultError, RunResult, parts, read_result, render
from imsbench.report import result as result_module
from imsbench.report.versions import SCHEMA_VERSION
from tests.report.results import hand_made


@pytest.fixture(scope="module")
def result() -> RunResult:
    return hand_made()


def test_a_result_comes_back_byte_for_byte(result: RunResult, tmp_path: pathlib.Path) -> None:
    text = result.to_json()
    folder = tmp_path / result.id
    folder.mkdir()
    (folder / "result.json").write_text(text, encoding="utf-8")
    for path in (folder, folder / "result.json"):
        again = read_result(path)
        assert again.to_json() == text
        assert render(again) == render(result)


def test_the_file_holds_json_without_nan(result: RunResult) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    data = json.loads(result.to_json(), parse_constant=refuse)
    assert data["schema_version"] == SCHEMA_VERSION
    assert data["profile"]["phones"]["expires"] == "600000s"
    assert data["steps"][1]["kpis"]["procedures"]["deregistration"]["first_started_at"] is None


def test_nan_is_refused_before_it_enters(result: RunResult) -> None:
    with pytest.raises(ValueError, match="finite"):
        type(result.steps[0]).model_validate(dict(result.steps[0]) | {"elapsed_s": float("nan")})


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda d: d.pop("schema_version"), "it has no schema_version"),
        (lambda d: d.update(schema_version=4), "has schema version 4; this imsbench reads 1 to 3"),
        (lambda d: d["steps"][0]["kpis"].pop("sessions"), "not the KPIs of a step"),
        (lambda d: d["steps"][0].update(sut={"cpu_cores": -1}), "steps.0.sut.cpu_cores"),
        (lambda d: d.update(status="fine"), "is damaged: status"),
        (lambda d: d.pop("steps"), "steps: Field required"),
        (lambda d: d.update(surprise=1), "surprise"),
        (lambda d: d["profile"].update(seed="x"), "profile.seed"),
        (lambda d: d["steps"][0].update(kpis=3), "steps.0.kpis: Value error, must be the KPIs"),
        (lambda d: d["steps"][0]["kpis"].pop("lateness"), "not the KPIs of a step"),
        (lambda d: d["steps"][0]["health"][0].update(loop_lag={}), "not a histogram"),
        (lambda d: d["steps"][0]["health"][0].update(loop_lag=1), "must be a histogram"),
        (lambda d: d["steps"][0].update(index=4), "step 4 is none of the 4 that were asked for"),
        (lambda d: d["steps"].append(d["steps"][3]), "its steps are [0, 1, 2, 3, 3]"),
        (lambda d: d["steps"].reverse(), "its steps are [3, 2, 1, 0]"),
        (lambda d: d.update(ended="2026-01-02T03:04:04Z"), "it ended before it started"),
        (lambda d: d.update(hosts=[]), "it has no host"),
        (
            lambda d: d.update(self_test=False),
            "its target is the embedded one, but self_test is false",
        ),
        (lambda d: d["steps"][1].update(health=[]), "no worker told of its health in step 1"),
        (lambda d: (d.update(workers=[]), d["steps"].pop()), "but has no worker"),
        (
            lambda d: d["steps"][0]["health"][0]["loop_lag"].update(sum_s="inf"),
            "a sum is no number",
        ),
        (lambda d: d["thresholds"][0].update(text="x | y"), "is not a threshold"),
        (lambda d: d["hosts"][0].update(memory_bytes=10**400), "more than 64 bits"),
        (lambda d: d["profile"].update(seed=-(2**63) - 1), "more than 64 bits"),
        (lambda d: d["hosts"][0].update(memory_bytes=1e300), "more than 64 bits"),
        (lambda d: d["hosts"][0].update(memory_bytes="9" * 400), "more than 64 bits"),
        (lambda d: d.update(started="2026-01-02T03:04:05"), "started"),
        (lambda d: [s.clear() for s in d["steps"]], "and 23 more"),
    ],
)
def test_damage_is_named(result: RunResult, spoil: object, what: str) -> None:
    data = json.loads(result.to_json())
    assert callable(spoil)
    spoil(data)
    with pytest.raises(ResultError) as caught:
        RunResult.from_json(json.dumps(data))
    assert what in str(caught.value)


def as_version_1(result: RunResult) -> dict[str, Any]:
    """The file that the version before would have written."""
    data: dict[str, Any] = json.loads(result.to_json()) | {"schema_version": 1}
    for name in ("pcrf", "idle", "ended_calls", "signature"):
        del data[name]
    for step in data["steps"]:
        del step["sut"], step["kpis"]["sessions"], step["pcrf_stall_s"], step["simulated"]
        if step["repair"]:
            del step["repair"]["kpis"]["sessions"]
    for worker in data["workers"]:
        del worker["outside"], worker["messages"]
    for phase in data["profile"]["phases"]:
        del phase["calls"], phase["together"]
    del data["profile"]["simulators"]["pcrf"], data["profile"]["generator"]["limits"]
    data["profile"]["generator"]["cpu_limit"] = 0.85
    return data


def test_a_result_of_version_2_keeps_its_one_limit(result: RunResult) -> None:
    data = json.loads(result.to_json()) | {"schema_version": 2}
    data["profile"]["generator"]["limits"] = {"worker_cpu": 0.7}
    wanted = RunResult.from_json(json.dumps(data | {"schema_version": SCHEMA_VERSION}))
    del data["profile"]["generator"]["limits"]
    data["profile"]["generator"]["cpu_limit"] = 0.7
    assert RunResult.from_json(json.dumps(data)).to_json() == wanted.to_json()


def test_a_result_of_version_1_is_a_run_without_calls(result: RunResult) -> None:
    read = RunResult.from_json(json.dumps(as_version_1(result)))
    assert read.schema_version == SCHEMA_VERSION
    assert all(step.kpis.sessions.attempted == 0 for step in read.steps)
    assert render(read) == render(result)


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda d: d.update(steps=3), "is damaged: steps"),
        (lambda d: d.update(steps=[3]), "is damaged: steps.0"),
        (lambda d: d["steps"][0].update(kpis=[]), "must be the KPIs"),
        (lambda d: d["steps"][0].update(repair=7), "steps.0.repair"),
        (lambda d: d["steps"][0]["kpis"].pop("lateness"), "not the KPIs of a step"),
    ],
)
def test_damage_to_a_result_of_version_1_is_named(
    result: RunResult, spoil: object, what: str
) -> None:
    data = as_version_1(result)
    assert callable(spoil)
    spoil(data)
    with pytest.raises(ResultError) as caught:
        RunResult.from_json(json.dumps(data))
    assert what in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "3", "null", "[" * 100_000, b"\xff\xfe\x00", "{}", '{"a": NaN}'],
)
def test_what_is_no_result(text: str | bytes) -> None:
    with pytest.raises(ResultError):
        RunResult.from_json(text)


@given(st.binary(max_size=40))
def test_no_bytes_cause_a_traceback(data: bytes) -> None:
    with pytest.raises(ResultError):
        RunResult.from_json(data)


def test_half_a_surrogate_pair_is_no_text(result: RunResult) -> None:
    text = result.to_json().replace('"version": "1.2.3"', '"version": "\\ud800"')
    with pytest.raises(ResultError, match="is not JSON"):  # it could not be written again
        RunResult.from_json(text)


def test_a_run_that_was_cut_short_may_lack_its_workers(result: RunResult) -> None:
    data = json.loads(result.to_json())
    data.update(status="generator_failed", workers=[])
    data["steps"][3].update(complete=False, health=[])
    assert RunResult.from_json(json.dumps(data)).workers == []


def test_unreadable_files_are_named(tmp_path: pathlib.Path) -> None:
    for path in (tmp_path / "none", tmp_path, pathlib.Path("a\0b")):
        with pytest.raises(ResultError, match=r"cannot be read|null"):
            read_result(path)
    path = tmp_path / "result.json"
    path.write_text("{}")
    with pytest.raises(ResultError, match=r"result\.json: is not a result of imsbench"):
        read_result(tmp_path)


def test_a_childs_message_may_say_more(result: RunResult) -> None:
    worker = result.workers[0].model_dump() | {"type": "result", "ladders": [[]]}
    assert type(result.workers[0]).model_validate(worker) == result.workers[0]


@pytest.mark.parametrize("module", [result_module, parts])
def test_every_field_says_what_it_is(module: ModuleType) -> None:
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if not isinstance(node, ast.ClassDef):
            continue
        for field, after in zip(node.body, [*node.body[1:], None], strict=True):
            if isinstance(field, ast.AnnAssign):
                documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                assert documented, f"{node.name}: {ast.unparse(field)}"
