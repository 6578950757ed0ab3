"""YAML as plain data, with the line of every key and value. Only plain data: no tags, no objects.

Scalars are those of YAML 1.2: `on` and `no` are texts, and so are dates. Keys are texts. A key that is given twice is an error, and so is
text that grows without bounds through aliases.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from clash.errors import OptionError

Path = tuple[str | int, ...]
_MAX_NODES = 100_000
_MAX_DEPTH = 50
_MERGE = "tag:yaml.org,2002:merge"
_SCALARS: tuple[tuple[str, str, Callable[[str], Any]], ...] = (
    (r"null|Null|NULL|~|", "null", lambda _: None),
    (r"true|True|TRUE", "bool", lambda _: True),
    (r"false|False|FALSE", "bool", lambda _: False),
    (r"[-+]?[0-9]+", "int", int),
    (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "float", float),
)


@dataclass
class Document:
    """What a file says, and where."""

    data: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    """By path of a value, the line of its key, or of the value where it has none; counted from 1."""
    starts: dict[Path, tuple[int, int, bool]] = field(default_factory=dict)
    """By path of a text, the line and column of its first character, and whether all its lines begin there; only of texts whose lines are
    lines of the file."""
    references: set[Path] = field(default_factory=set)
    """The paths of texts with references to variables."""

    def line(self, path: Path) -> int:
        """Of the value, or of the nearest one around it that is there."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def parse_yaml(text: str, source: str, replace: Callable[[str], str] = str) -> Document:
    """`source` names the file in errors; `replace` is applied to texts, and what it raises as ValueError is shown with its place."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = source if mark is None else f"{source}, line {mark.line + 1}, column {mark.column + 1}"
        problem = (error.problem or error.context or "").strip()
        raise OptionError("the file is not YAML", f"{where}: {problem}", "check the indentation, colons and brackets there") from None
    except yaml.YAMLError as error:
        raise OptionError("the file is not YAML", f"{source}: {str(error).splitlines()[0]}", "save it as text in UTF-8") from None
    if node is None:
        raise OptionError("the file is empty", source, "`clash init DIR` writes one to begin with")
    reader = _Reader(source, replace, text.splitlines())
    reader.document.data = reader.value(node, ())
    return reader.document


class _Reader:
    def __init__(self, source: str, replace: Callable[[str], str], lines: list[str]) -> None:
        self.document, self._lines = Document(), lines
        self._source, self._replace, self._left = source, replace, _MAX_NODES

    def value(self, node: Node, path: Path) -> Any:
        self._left -= 1
        if self._left < 0 or len(path) > _MAX_DEPTH:
            raise self._error(
                "the file is too large or nested too deep", node, path, "write a job of at most 100,000 values, without cycles"
            )
        self.document.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.value(item, (*path, at)) for at, item in enumerate(node.value)]
        assert isinstance(node, ScalarNode)
        return self._scalar(node, path)

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        seen: dict[str, int] = {}
        for key, value in node.value:
            if key.tag == _MERGE:
                for part in value.value if isinstance(value, SequenceNode) else [value]:
                    if not isinstance(part, MappingNode):
                        raise self._error("only mappings can be merged", part, path, "write <<: *name, of an anchor on a mapping")
                    merged = {**self.value(part, path), **merged}
                continue
            if not isinstance(key, ScalarNode):
                raise self._error("a key is not a text", key, path, "write one word, or a text in quotes")
            name = key.value
            line = key.start_mark.line + 1
            if name in seen:
                detail = f"{self._source}, line {line}: {_shown((*path, name))}; the first is in line {seen[name]}"
                raise OptionError("a key is given twice", detail, "keep one of them")
            seen[name] = line
            self.document.lines[*path, name] = line
            found[name] = self.value(value, (*path, name))
        return {**merged, **found}

    def _scalar(self, node: ScalarNode, path: Path) -> Any:
        text = node.value
        self._note_start(node, path)
        try:
            replaced = self._replace(text)
        except ValueError as error:
            hint = "set the variable, write ${NAME:-text} with a text for when it is not set, or $${ for the characters themselves"
            raise self._error("a variable is not set", node, path, hint, str(error)) from None
        if "${" in text:
            self.document.references.add(path)
            return replaced  # a text, whatever the variable has: a password of digits is no number
        if node.style is not None:  # quoted, or a block
            return replaced
        for pattern, _, convert in _SCALARS:
            if re.fullmatch(pattern, replaced):
                return convert(replaced)
        return replaced

    def _note_start(self, node: ScalarNode, path: Path) -> None:
        start, end = node.start_mark, node.end_mark
        if node.style == "|":
            lines = self._lines[start.line + 1 : end.line + 1]
            at, first = next(((at, line) for at, line in enumerate(lines) if line.strip()), (0, ""))
            self.document.starts[path] = (start.line + 2 + at, len(first) - len(first.lstrip()) + 1, True)
        elif start.line == end.line:
            self.document.starts[path] = (start.line + 1, start.column + (2 if node.style else 1), False)

    def _error(self, what: str, node: Node, path: Path, hint: str, problem: str = "") -> OptionError:
        where = f"{self._source}, line {node.start_mark.line + 1}"
        detail = ": ".join(part for part in (f"{where}, {_shown(path)}" if path else where, problem) if part)
        return OptionError(what, detail, hint)


def _shown(path: Path) -> str:
    return ".".join(map(str, path))
