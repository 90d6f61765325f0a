"""YAML text to plain values that remember their lines; what YAML would let pass is refused.

Refused: a key given twice (YAML keeps the last in silence), anchors and aliases (a profile says
what it means where it means it, and an alias bomb stays small), tags, several documents.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import yaml

# What PyYAML raises for scalars that look like a number or a date, and are none.
_UNREADABLE = (yaml.YAMLError, ValueError, ArithmeticError, LookupError, AttributeError)
_DEEPEST = 32
"""Lists and mappings in one another; profiles need five."""

_BOOLEAN = "tag:yaml.org,2002:bool"
_INTEGER = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"


class _Loader(yaml.SafeLoader):
    """YAML 1.2's booleans and numbers, of those the decimal ones.

    YAML 1.1 takes ``off`` for false, 0100 for 64 and 1:40 for 100; here they are a word, 100 and a word.
    What has more digits than any number here is a text: a key of hexadecimal digits.
    """


_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in resolvers if tag not in (_BOOLEAN, _INTEGER, _FLOAT)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    _BOOLEAN, re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_implicit_resolver(_INTEGER, re.compile("^[-+]?[0-9]{1,20}$"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    _FLOAT,
    re.compile(
        r"^(?:[-+]?(?:\.[0-9]{1,20}|[0-9]{1,20}(?:\.[0-9]{0,20})?)(?:[eE][-+]?[0-9]{1,3})?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
    list("-+.0123456789"),
)
_Loader.add_constructor(_INTEGER, lambda _loader, node: int(node.value))

Path = tuple[str | int, ...]
"""Way to a value: keys and list positions."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a profile."""

    path: str
    """Where: "phases[2].cycle.rate"; empty: the file itself."""
    line: int | None
    """Line in the file, from 1; None if it has none."""
    text: str
    """What is wrong and what is allowed."""

    def __str__(self) -> str:
        line = f"line {self.line}: " if self.line is not None else ""
        path = f"{self.path}: " if self.path else ""
        return f"{line}{path}{self.text}"


def spell_path(path: Path) -> str:
    """("phases", 2, "cycle") as "phases[2].cycle"."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


class Source:
    """The values of one YAML text, the line of each, and what was wrong with the text."""

    def __init__(self, text: str) -> None:
        self.lines: dict[str, int] = {}
        """Line of each value by its path, from 1."""
        self.problems: list[Problem] = []
        """What is wrong with the text itself."""
        self.value: object = None
        """The values; None if the text is no YAML."""
        try:
            self._read(text)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            what = " ".join(filter(None, (error.context, error.problem)))
            self._problem((), mark.line + 1 if mark else None, f"is not valid YAML: {what}")
        except yaml.YAMLError as error:
            self._problem((), None, f"is not valid YAML: {error}")
        except RecursionError:
            self._problem((), None, "is nested too deeply")

    def line_of(self, path: str) -> int | None:
        """The line of a path, or of the nearest path above it."""
        while path and path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.lines.get(path)

    def _read(self, text: str) -> None:
        if not self._is_plain(text):
            return
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                self._problem((), None, "is empty")
                return
            self.value = self._build(loader, node, ())
        finally:
            loader.dispose()

    def _is_plain(self, text: str) -> bool:
        """Whether the text is values and nothing else; what is not is noted."""
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            line = event.start_mark.line + 1 if event.start_mark else None
            if isinstance(event, yaml.AliasEvent):
                self._problem((), line, f"alias *{event.anchor}: write the value out")
                return False
            tag = getattr(event, "tag", None)
            if tag is not None:  # written out: what YAML finds by itself is not there yet
                self._problem((), line, f"tag {tag} is not used in profiles")
                return False
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > _DEEPEST:  # further down the scanner's time grows with the square
                    self._problem((), line, "is nested too deeply")
                    return False
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
        return True

    def _build(self, loader: yaml.SafeLoader, node: yaml.Node, path: Path) -> object:
        self.lines[spell_path(path)] = node.start_mark.line + 1
        if isinstance(node, yaml.SequenceNode):
            return [self._build(loader, item, (*path, i)) for i, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(loader, node, path)
        return self._scalar(loader, node, path)

    def _mapping(
        self, loader: yaml.SafeLoader, node: yaml.MappingNode, path: Path
    ) -> dict[str, object]:
        values: dict[str, object] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self._problem(path, line, "a key must be a plain word")
                continue
            key = key_node.value
            if key in values:
                first = self.lines[spell_path((*path, key))]
                self._problem((*path, key), line, f"given twice, first in line {first}")
                continue
            values[key] = self._build(loader, value_node, (*path, key))
            self.lines[spell_path((*path, key))] = line
        return values

    def _scalar(self, loader: yaml.SafeLoader, node: yaml.Node, path: Path) -> object:
        line = node.start_mark.line + 1
        try:
            value: object = loader.construct_object(node)
        except _UNREADABLE as error:
            what = error.problem if isinstance(error, yaml.MarkedYAMLError) else error
            self._problem(path, line, f"cannot be read: {what}")
            return None
        if isinstance(value, int) and value.bit_length() > 64:
            self._problem(path, line, "is too large a number")
            return None
        return value

    def _problem(self, path: Path, line: int | None, text: str) -> None:
        self.problems.append(Problem(spell_path(path), line, text))
