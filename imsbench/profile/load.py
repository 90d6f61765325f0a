"""From a name or a file to a checked profile, or to all that is wrong with it at once."""

from __future__ import annotations

import difflib
import importlib.resources
import pathlib
from collections.abc import Callable, Iterator, Mapping
from importlib.resources.abc import Traversable
from typing import Any, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from imsbench.profile.agreement import disagreements
from imsbench.profile.expand import expand
from imsbench.profile.faults import misplaced
from imsbench.profile.model import Generator
from imsbench.profile.plan import Profile
from imsbench.profile.source import Problem, Source, spell_path

_LARGEST = 1_000_000
"""Bytes; a profile is a page."""


class ProfileError(Exception):
    """A profile that cannot be used; ``problems`` has all of them, the text one a line."""

    def __init__(self, origin: str, problems: list[Problem]) -> None:
        self.origin = origin
        """The file or name that was asked for."""
        self.problems = tuple(problems)
        """Everything that is wrong, by line."""
        super().__init__(origin, self.problems)

    def __str__(self) -> str:
        return "\n".join(f"{self.origin}: {problem}" for problem in self.problems)


ThresholdProblem = Callable[[str], str]
"""What is wrong with the text of a threshold; "" if nothing is."""


def _no_problem(_text: str) -> str:
    return ""


def load_profile(path_or_name: str, threshold_problem: ThresholdProblem = _no_problem) -> Profile:
    """The profile in a file, or the shipped one of that name. ProfileError carries all problems.

    What ends in .yaml or .yml or has a slash is a file; anything else is a name.
    """
    text = _read(path_or_name)
    return parse_profile(text, path_or_name, threshold_problem)


def parse_profile(
    text: str, origin: str = "profile", threshold_problem: ThresholdProblem = _no_problem
) -> Profile:
    """The profile of a YAML text; ProfileError carries all problems, ``origin`` names the text.

    ``threshold_problem`` says what is wrong with a threshold: profiles know no KPI.
    """
    source = Source(text)
    problems = [*source.problems, *_threshold_problems(source, threshold_problem)]
    if not isinstance(source.value, dict):
        if not problems:
            problems.append(Problem("", 1, "must be a mapping: name, subscribers, phases …"))
        raise ProfileError(origin, problems)
    try:
        profile = Profile.model_validate(source.value)
    except ValidationError as error:
        broken = {problem.path for problem in problems}
        problems += (p for p in _problems(error, source) if p.path not in broken)
        raise ProfileError(origin, sorted(problems, key=_order)) from None
    if problems:
        raise ProfileError(origin, sorted(problems, key=_order))
    return profile


def shipped_profiles() -> list[str]:
    """Names of the profiles that come with the program, sorted."""
    names = {entry.name for folder in _folders() for entry in folder.iterdir()}
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def _folders() -> list[Traversable]:
    """Where shipped profiles live: in the wheel, else in the repository."""
    package = importlib.resources.files("imsbench")
    repository = pathlib.Path(__file__).parents[2] / "profiles"
    return [folder for folder in (package / "profiles", repository) if folder.is_dir()]


def _read(path_or_name: str) -> str:
    entry: Traversable = pathlib.Path(path_or_name)
    if "/" not in path_or_name and not path_or_name.endswith((".yaml", ".yml")):
        entries = [folder / f"{path_or_name}.yaml" for folder in _folders()]
        found = [entry for entry in entries if entry.is_file()]
        if not found:
            raise ProfileError(path_or_name, [_unknown_name(path_or_name)])
        entry = found[0]
    try:
        with entry.open("rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise ProfileError(path_or_name, [Problem("", None, f"exceeds {_LARGEST:,} bytes")])
        return data.decode("utf-8-sig")
    except OSError as error:
        problem = Problem("", None, f"cannot be read: {error.strerror or error}")
    except (UnicodeDecodeError, ValueError) as error:  # ValueError: a NUL in the path
        problem = Problem("", None, f"cannot be read: {error}")
    raise ProfileError(path_or_name, [problem])


def _unknown_name(name: str) -> Problem:
    names = ", ".join(shipped_profiles()) or "none"
    return Problem(
        "", None, f"no shipped profile has this name; there are: {names}. A file ends in .yaml"
    )


def _threshold_problems(source: Source, problem_of: ThresholdProblem) -> Iterator[Problem]:
    thresholds = source.value.get("thresholds") if isinstance(source.value, dict) else None
    for index, text in enumerate(thresholds if isinstance(thresholds, list) else ()):
        path = f"thresholds[{index}]"
        if isinstance(text, str) and (what := problem_of(text)):
            yield Problem(path, source.line_of(path), what)


def _order(problem: Problem) -> tuple[int, str]:
    return problem.line or 0, problem.path


def _problems(error: ValidationError, source: Source) -> Iterator[Problem]:
    for details in error.errors(include_url=False):
        if details["loc"]:
            yield _problem(details, source)
    # pydantic leaves the checks across sections out once a section is broken; the user gets them too.
    assert isinstance(source.value, dict)
    sections = _sound_sections(source.value)
    found = disagreements(sections)
    for path, text in found or _misplaced(sections):
        yield Problem(path, source.line_of(path), text)


def _misplaced(sections: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Timed faults outside the load, where the load and they are sound."""
    faults, phases = sections.get("faults"), sections.get("phases")
    generator = sections.get("generator")
    if isinstance(faults, tuple) and isinstance(phases, tuple) and isinstance(generator, Generator):
        yield from misplaced(faults, expand(phases, generator.arrivals))


def _sound_sections(values: Mapping[str, object]) -> dict[str, object]:
    """The sections that are right by themselves, defaults in the place of absent ones."""
    sections: dict[str, object] = {}
    for name, field in Profile.model_fields.items():
        if name not in values:
            if not field.is_required():
                sections[name] = field.default
            continue
        adapter: TypeAdapter[Any] = TypeAdapter(field.rebuild_annotation())
        try:
            sections[name] = adapter.validate_python(values[name])
        except ValidationError:
            continue
    return sections


_WORDS = {
    "string_type": "must be a text (quote it)",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "model_type": "must be a mapping of keys to values",
    "missing": "is missing",
}
"""Error types of pydantic whose own words speak of Python."""


def _problem(details: ErrorDetails, source: Source) -> Problem:
    path = spell_path(details["loc"])
    kind, given = details["type"], details["input"]
    if kind == "extra_forbidden":
        return Problem(path, source.line_of(path), _unknown_key(details["loc"]))
    if kind == "literal_error":
        text = f"must be {details['ctx']['expected']}"
    else:
        text = _WORDS.get(kind) or details["msg"].removeprefix("Value error, ")
        text = text.replace("Input should", "must").replace("String should", "must")
    if isinstance(given, (str, int, float)) and kind != "missing":
        text += f", got {given!r}"
    return Problem(path, source.line_of(path), text)


def _unknown_key(loc: tuple[int | str, ...]) -> str:
    known = sorted(_keys_at(loc[:-1]))
    close = difflib.get_close_matches(str(loc[-1]), known, 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"unknown key{hint} Allowed: {', '.join(known)}"


def _keys_at(loc: tuple[int | str, ...]) -> set[str]:
    """The keys that the model at a location knows."""
    model: type[BaseModel] = Profile
    for part in loc:
        if isinstance(part, str):
            model = _model_in(model.model_fields[part].annotation) or model
    return set(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside Optional[X] or tuple[X, ...], if there is one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in get_args(annotation):
        if found := _model_in(part):
            return found
    return None
