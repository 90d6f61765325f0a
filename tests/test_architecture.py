"""House rules a machine can check: what a room may know, how long a thing may be, what cites what."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "imsbench").rglob("*.py")) + sorted((ROOT / "simulators").rglob("*.py"))
MOST_LINES_OF_A_FUNCTION = 50
MOST_LINES_OF_A_MODULE = 450

CITATION = re.compile(r"\b(TS \d|RFC \d|IR\.\d)")
CITING = [path for path in SOURCES if path.parent == ROOT / "imsbench/protocol"] + [
    path for path in SOURCES if path == ROOT / "imsbench/phone/registration.py"
]
DOCUMENTED_FIELDS = [
    ROOT / "imsbench/outcome.py",
    ROOT / "imsbench/phone/actions.py",
    *sorted((ROOT / "imsbench/profile").glob("*.py")),
    ROOT / "imsbench/report/result.py",
    *sorted((ROOT / "imsbench/run").glob("*.py")),
]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), name_of(path))


def functions(tree: ast.AST) -> Iterator[Function]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_layer_contracts_hold() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_modules_and_functions_stay_short(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= MOST_LINES_OF_A_MODULE
    long = [
        f"{function.name}: {length} lines"
        for function in functions(ast.parse(text))
        if (length := (function.end_lineno or 0) - function.lineno + 1) > MOST_LINES_OF_A_FUNCTION
    ]
    assert not long


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_modules_and_public_things_have_docstrings(path: Path) -> None:
    tree = tree_of(path)
    if tree.body:
        assert ast.get_docstring(tree), "the module says nothing about itself"
    silent = [
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef | Function)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert not silent


@pytest.mark.parametrize("path", CITING, ids=name_of)
def test_public_functions_of_the_protocol_cite_their_clause(path: Path) -> None:
    uncited = [
        node.name
        for node in tree_of(path).body
        if isinstance(node, Function)
        and not node.name.startswith("_")
        and not CITATION.search(ast.get_docstring(node) or "")
    ]
    assert not uncited


@pytest.mark.parametrize("path", DOCUMENTED_FIELDS, ids=name_of)
def test_every_public_field_is_documented_where_it_stands(path: Path) -> None:
    undocumented = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            undocumented += [f"{node.name}.{field}" for field in undocumented_fields(node)]
    assert not undocumented


def undocumented_fields(node: ast.ClassDef) -> Iterator[str]:
    for statement, following in zip(node.body, [*node.body[1:], None], strict=True):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        if statement.target.id.startswith("_"):
            continue
        documented = (
            isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
        )
        if not documented:
            yield statement.target.id


@pytest.mark.parametrize("room", ["phone", "protocol"])
def test_phones_and_protocol_are_tested_without_a_network(room: str) -> None:
    forbidden = {"socket", "asyncio"}
    for path in sorted((ROOT / "tests" / room).rglob("*.py")):
        for node in ast.walk(tree_of(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            assert not forbidden.intersection(name.partition(".")[0] for name in names), path


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_only_the_command_line_prints(path: Path) -> None:
    if path.parent == ROOT / "imsbench/cli":
        return
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "print", f"line {node.lineno}"


def test_every_parser_of_the_protocol_has_its_writer() -> None:
    """Codecs come in pairs; what only the other side ever writes, or reads, is named here."""
    one_way = {"parse_name_addr", "parse_name_addrs", "parse_parameters", "parse_uri"}
    for path in CITING:
        names = {function.name for function in functions(tree_of(path))}
        parsers = {name for name in names if name.startswith("parse_")} - one_way
        lacking = {name for name in parsers if name.replace("parse_", "serialize_") not in names}
        if path.name == "digest.py":  # its writer is authorization(), which makes a whole header
            lacking -= {"parse_digest", "parse_challenge"}
        assert not lacking, path


def test_the_changelog_opens_with_what_is_unreleased() -> None:
    sections = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections
    assert sections[0] == "[Unreleased]"


def test_the_readme_gives_the_commands_that_work() -> None:
    readme = (ROOT / "README.md").read_text()
    for command in ("make demo", "make test"):
        assert re.search(rf"^{command}$", readme, re.MULTILINE)
