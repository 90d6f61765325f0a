"""From a name or a file to a checked profile, or to all that is wrong with it at once."""

from __future__ import annotations

import difflib
import importlib.resources
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from importlib.resources.abc import Traversable
from typing import Any, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from imsbench.profile.agreement import disagreements, planned_steps
from imsbench.profile.curves import Text, read_curves
from imsbench.profile.plan import Profile
from imsbench.profile.source import Problem, Source, spell_path

_LARGEST = 1_000_000
"""Bytes; a profile is a page."""
_PERCENT = re.compile(r"\s*([0-9]{1,3}(?:\.[0-9]{1,9})?)\s*%\s*")
_SHOWN = 80
"""Characters of a wrong value that its error repeats."""


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


ThresholdProblem = Callable[[str, bool], str]
"""What is wrong with the text of a threshold, where there are calls or none; "" if nothing is."""


def _no_problem(_text: str, _calls: bool) -> str:
    return ""


def _no_file(_name: str) -> str:
    raise ValueError("cannot be read: this profile is no file, so nothing lies beside it")


def load_profile(path_or_name: str, threshold_problem: ThresholdProblem = _no_problem) -> Profile:
    """The profile in a file, or the shipped one of that name. ProfileError carries all problems.

    What ends in .yaml or .yml or has a slash is a file; anything else is a name.
    """
    entry = _entry(path_or_name)
    try:
        text = _text(entry)
    except ValueError as error:
        raise ProfileError(path_or_name, [Problem("", None, str(error))]) from None
    folder = _folder(path_or_name)
    return parse_profile(text, path_or_name, threshold_problem, lambda name: _text(folder / name))


def parse_profile(
    text: str,
    origin: str = "profile",
    threshold_problem: ThresholdProblem = _no_problem,
    text_of: Text = _no_file,
) -> Profile:
    """The profile of a YAML text; ProfileError carries all problems, ``origin`` names the text.

    ``threshold_problem`` says what is wrong with a threshold: profiles know no KPI. ``text_of`` reads
    the files that it names.
    """
    source = Source(text)
    problems = [*source.problems, *_threshold_problems(source, threshold_problem)]
    if not isinstance(source.value, dict):
        if not problems:
            problems.append(Problem("", 1, "must be a mapping: name, subscribers, phases …"))
        raise ProfileError(origin, problems)
    for path, said in read_curves(source.value, text_of):
        problems.append(Problem(path, source.line_of(path), said))
    broken = {problem.path for problem in problems}
    profile, found = _validated(source)
    sections = _sound_sections(source.value) if profile is None else dict(profile)
    found += _unmeasurable(sections, source, threshold_problem)
    problems += (problem for problem in found if problem.path not in broken)
    if profile is None or problems:
        raise ProfileError(origin, sorted(problems, key=_order))
    return profile


def _validated(source: Source) -> tuple[Profile | None, list[Problem]]:
    """The profile, or None and what its model says is wrong."""
    try:
        return Profile.model_validate(source.value), []
    except ValidationError as error:
        return None, [*_problems(error, source)]


def shipped_profiles() -> list[str]:
    """Names of the profiles that come with the program, sorted."""
    names = {entry.name for folder in _folders() for entry in folder.iterdir()}
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def _folders() -> list[Traversable]:
    """Where shipped profiles live: in the wheel, else in the repository."""
    package = importlib.resources.files("imsbench")
    repository = pathlib.Path(__file__).parents[2] / "profiles"
    return [folder for folder in (package / "profiles", repository) if folder.is_dir()]


def _folder(path_or_name: str) -> Traversable:
    """Where the profile of a path lies, or the shipped one of a name."""
    if _is_name(path_or_name):
        holding = [folder for folder in _folders() if (folder / f"{path_or_name}.yaml").is_file()]
        if not holding:
            raise ProfileError(path_or_name, [_unknown_name(path_or_name)])
        return holding[0]
    return pathlib.Path(path_or_name).parent


def _entry(path_or_name: str) -> Traversable:
    if _is_name(path_or_name):
        return _folder(path_or_name) / f"{path_or_name}.yaml"
    return pathlib.Path(path_or_name)


def _is_name(path_or_name: str) -> bool:
    return "/" not in path_or_name and not path_or_name.endswith((".yaml", ".yml"))


def _text(entry: Traversable) -> str:
    """A file's text; ValueError says why it cannot be had."""
    try:
        with entry.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a NUL in the path
        raise ValueError(f"cannot be read: {error}") from None
    if len(data) > _LARGEST:
        raise ValueError(f"exceeds {_LARGEST:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"cannot be read: {error}") from None


def _unknown_name(name: str) -> Problem:
    names = ", ".join(shipped_profiles()) or "none"
    return Problem(
        "", None, f"no shipped profile has this name; there are: {names}. A file ends in .yaml"
    )


def _threshold_problems(source: Source, problem_of: ThresholdProblem) -> Iterator[Problem]:
    thresholds = source.value.get("thresholds") if isinstance(source.value, dict) else None
    for index, one in enumerate(thresholds if isinstance(thresholds, list) else ()):
        path = f"thresholds[{index}]"
        text = one.get("that") if isinstance(one, dict) else one
        if isinstance(text, str) and (what := problem_of(text, True)):
            yield Problem(path, source.line_of(path), what)


def _unmeasurable(
    sections: Mapping[str, object], source: Source, problem_of: ThresholdProblem
) -> Iterator[Problem]:
    """Thresholds for steps in which nobody calls, on what only calls have, where both are sound."""
    thresholds, steps = sections.get("thresholds"), planned_steps(sections)
    for index, condition in enumerate(thresholds if isinstance(thresholds, tuple) else ()):
        scope = [step for step in steps if condition and condition.applies(step)]
        if not scope:  # which is told of it
            continue
        if what := problem_of(condition.that, any(step.calls is not None for step in scope)):
            path = f"thresholds[{index}]"
            yield Problem(path, source.line_of(path), what)


def _order(problem: Problem) -> tuple[int, str]:
    return problem.line or 0, problem.path


def _problems(error: ValidationError, source: Source) -> Iterator[Problem]:
    for details in error.errors(include_url=False):
        if details["loc"]:
            yield _problem(details, source)
    # pydantic leaves the checks across sections out once a section is broken; the user gets them too.
    assert isinstance(source.value, dict)
    for path, text in disagreements(_sound_sections(source.value)):
        yield Problem(path, source.line_of(path), text)


def _sound_sections(values: Mapping[str, object]) -> dict[str, object]:
    """The sections that are right by themselves, defaults in the place of absent ones.

    Of a list of faults or thresholds each entry stands for itself: None where it is not right.
    """
    sections: dict[str, object] = {}
    for name, field in Profile.model_fields.items():
        if name not in values:
            if not field.is_required():
                sections[name] = field.default
            continue
        value, kind = values[name], field.rebuild_annotation()
        if isinstance(value, list) and name in ("faults", "thresholds"):
            sections[name] = tuple(_sound(get_args(kind)[0], one) for one in value)
        elif (sound := _sound(kind, value)) is not None:
            sections[name] = sound
    return sections


def _sound(kind: Any, value: object) -> object | None:
    """A value as its type has it; None if it is not right by itself."""
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    try:
        sound: object = adapter.validate_python(value)
    except ValidationError:
        return None
    return sound


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
        text = (
            _share_of(kind, given)
            or _WORDS.get(kind)
            or details["msg"].removeprefix("Value error, ")
        )
        text = text.replace("Input should", "must").replace("String should", "must")
    if isinstance(given, (str, int, float)) and kind != "missing":
        shown = repr(given)
        text += f", got {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + ' …'}"
    return Problem(path, source.line_of(path), text)


def _share_of(kind: str, given: object) -> str:
    """What to write for a percentage where a number is wanted; empty: it is none."""
    percent = _PERCENT.fullmatch(given) if kind == "float_type" and isinstance(given, str) else None
    return f"must be a number: {float(percent[1]) / 100:.9g}" if percent else ""


def _unknown_key(loc: tuple[int | str, ...]) -> str:
    known = sorted(_keys_at(loc[:-1]))
    close = difflib.get_close_matches(str(loc[-1]), known, 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"unknown key{hint or '.'} Allowed: {', '.join(known)}"


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
