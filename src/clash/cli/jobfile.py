"""A job as a file of SQL: one query per `-- name:` section, views that they use, and optionally the file of its statistics.

-- statistics: shop.json
CREATE VIEW recent AS SELECT order_id, total FROM orders WHERE total > 100;
-- name: paid
SELECT * FROM orders JOIN payments USING (order_id);
-- name: sent
SELECT * FROM orders JOIN shipments USING (order_id);
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from clash.errors import ClashError, OptionError, QueryError
from clash.sql import check_view, with_views

_KEY = re.compile(r"\s*--\s*(name|statistics)\s*:\s*(.*?)\s*", re.IGNORECASE)
_LOCATION = re.compile(r"query (\w+), line (\d+)(?=, column \d+)")
_VIEW = re.compile(
    r"^[ \t]*CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMP(?:ORARY)?\s+)?VIEW\s+`?(\w+)`?\s+AS\b(.*?);[ \t]*$",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
_ASSIGNMENT = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=(.*)", re.DOTALL | re.ASCII)


@dataclass(frozen=True, slots=True)
class Job:
    """The content of a job file."""

    queries: dict[str, str]
    """By name, in the order of the file."""
    statistics: Path | None = None
    source: str = field(default="", compare=False)
    """The name of the file, for messages."""
    lines: dict[str, int] = field(default_factory=dict, compare=False)
    """By query: the line of the file in which its text begins."""

    def locate(self, error: ClashError) -> ClashError:
        """The same error, with its line counted from the beginning of the job file instead of the query."""

        def in_file(location: re.Match[str]) -> str:
            name, line = location[1], int(location[2])
            first = self.lines.get(name)
            return location[0] if first is None else f"{self.source}, query {name}, line {first + line - 1}"

        if not isinstance(error, QueryError):
            return error
        return QueryError(error.what, _LOCATION.sub(in_file, error.detail), error.hint)


def read_job(path: Path) -> Job:
    """Reads a job file; the path of the statistics is relative to the folder of the file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else "it is not text in UTF-8"
        raise OptionError("the job file cannot be read", f"{path}: {reason}", "give a file of SQL") from None
    job = parse_job(text, str(path))
    return replace(job, statistics=None if job.statistics is None else path.parent / job.statistics)


def parse_job(text: str, source: str) -> Job:
    """Parses the content of a job file; `source` names the file in messages."""
    views: dict[str, str] = {}
    for view in _VIEW.finditer(text):
        if view[1].lower() in {name.lower() for name in views}:
            raise OptionError("two views have one name", f"{view[1]}, {source}", "rename one of them")
        check_view(view[1], view[2].strip())
        views[view[1]] = view[2].strip()
    text = _VIEW.sub(lambda view: "\n" * view[0].count("\n"), text)  # the lines of queries keep their numbers
    sections: dict[str, tuple[int, list[str]]] = {}
    body: list[str] | None = None
    statistics: Path | None = None
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        location = f"{source}, line {number}"
        key = _KEY.fullmatch(line)
        if key is None:
            if body is not None:
                body.append(line)
            elif line.strip() and not line.lstrip().startswith("--"):
                raise OptionError("a query without a name", f"{location}: {line.strip()}", "write a line `-- name: q1` before each query")
        elif not key[2]:
            raise OptionError(f"nothing after `{key[1]}:`", location, f"write `-- {key[1].lower()}: …`")
        elif key[1].lower() == "statistics":
            if statistics is not None:
                raise OptionError("two files of statistics", f"{location}: {key[2]}", "keep one of the lines `-- statistics: …`")
            statistics = Path(key[2])
        elif key[2] in sections:
            raise _same_name(key[2], f"{location}; the first is in line {sections[key[2]][0]}")
        else:
            body = []
            sections[key[2]] = (number, body)
    if not sections:
        raise OptionError("no query in the job file", source, "write a line `-- name: q1`, and the query below it")
    queries = {name: "\n".join(lines).strip().removesuffix(";").rstrip() for name, (_, lines) in sections.items()}
    for name, query in queries.items():
        if not any(line.strip() and not line.lstrip().startswith("--") for line in query.splitlines()):
            raise OptionError("an empty query", f"{name}, {source}, line {sections[name][0]}", "write its SQL below its name, or remove it")
    queries = {name: with_views(name, query, views) for name, query in queries.items()}
    lines = {name: first + 1 + _leading_blank_lines(body) for name, (first, body) in sections.items()}
    return Job(queries, statistics, source, lines)


def _leading_blank_lines(body: list[str]) -> int:
    """The lines that stripping removes from the beginning of a query's text."""
    text = "\n".join(body)
    return text[: len(text) - len(text.lstrip())].count("\n")


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """Queries from the command line, each as `q1=SELECT …`."""
    queries: dict[str, str] = {}
    for text in assignments:
        match = _ASSIGNMENT.fullmatch(text)
        if match is None:
            raise OptionError("a query without a name", text.strip() or "(nothing)", 'write --query "q1=SELECT …"')
        if match[1] in queries:
            raise _same_name(match[1], "twice as --query")
        queries[match[1]] = match[2].strip()
    return queries


def merge(*parts: dict[str, str]) -> dict[str, str]:
    """The queries of several sources as one job; two of the same name are refused."""
    queries: dict[str, str] = {}
    for part in parts:
        for name, query in part.items():
            if name in queries:
                raise _same_name(name, "in the job file and as --query")
            queries[name] = query
    return queries


def _same_name(name: str, location: str) -> ClashError:
    return OptionError("two queries of one name", f"{name}, {location}", "give each query a name of its own")
