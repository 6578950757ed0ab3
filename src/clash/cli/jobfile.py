"""A job as a file of SQL: one query per `-- name:` section, and where its statistics are.

-- statistics: shop.json
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

_KEY = re.compile(r"\s*--\s*(name|statistics)\s*:\s*(.*?)\s*", re.IGNORECASE)
_PLACE = re.compile(r"query (\w+), line (\d+)(?=, column \d+)")
_ASSIGNMENT = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=(.*)", re.DOTALL | re.ASCII)


@dataclass(frozen=True, slots=True)
class Job:
    """Queries by name, in the order they were written; the file of statistics if one is named; where each query's text begins."""

    queries: dict[str, str]
    statistics: Path | None = None
    source: str = field(default="", compare=False)
    lines: dict[str, int] = field(default_factory=dict, compare=False)

    def locate(self, error: QueryError) -> QueryError:
        """The same mistake, its line counted in the job file and not in the query."""

        def place(found: re.Match[str]) -> str:
            first = self.lines.get(found[1])
            return found[0] if first is None else f"{self.source}, query {found[1]}, line {first + int(found[2]) - 1}"

        return QueryError(error.what, _PLACE.sub(place, error.detail), error.hint)


def read_job(path: Path) -> Job:
    """The job in a file; the statistics' path counts from the file's own folder."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else "it is not text in UTF-8"
        raise OptionError("the job file cannot be read", f"{path}: {reason}", "give a file of SQL") from None
    job = parse_job(text, str(path))
    return replace(job, statistics=None if job.statistics is None else path.parent / job.statistics)


def parse_job(text: str, source: str) -> Job:
    """The sections of `text`; `source` names it in messages."""
    sections: dict[str, tuple[int, list[str]]] = {}
    body: list[str] | None = None
    statistics: Path | None = None
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        place = f"{source}, line {number}"
        key = _KEY.fullmatch(line)
        if key is None:
            if body is not None:
                body.append(line)
            elif line.strip() and not line.lstrip().startswith("--"):
                raise OptionError("a query without a name", f"{place}: {line.strip()}", "write a line `-- name: q1` before each query")
        elif not key[2]:
            raise OptionError(f"nothing after `{key[1]}:`", place, f"write `-- {key[1].lower()}: …`")
        elif key[1].lower() == "statistics":
            if statistics is not None:
                raise OptionError("two files of statistics", f"{place}: {key[2]}", "keep one of the lines `-- statistics: …`")
            statistics = Path(key[2])
        elif key[2] in sections:
            raise _same_name(key[2], f"{place}; the first is in line {sections[key[2]][0]}")
        else:
            body = []
            sections[key[2]] = (number, body)
    if not sections:
        raise OptionError("no query in the job file", source, "write a line `-- name: q1`, and the query below it")
    queries = {name: "\n".join(lines).strip().removesuffix(";").rstrip() for name, (_, lines) in sections.items()}
    for name, query in queries.items():
        if not any(line.strip() and not line.lstrip().startswith("--") for line in query.splitlines()):
            raise OptionError("an empty query", f"{name}, {source}, line {sections[name][0]}", "write its SQL below its name, or remove it")
    lines = {name: first + 1 + _blank(body) for name, (first, body) in sections.items()}
    return Job(queries, statistics, source, lines)


def _blank(body: list[str]) -> int:
    """How many lines the query's text lost at its beginning."""
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
    """All queries of a job, wherever they come from."""
    queries: dict[str, str] = {}
    for part in parts:
        for name, query in part.items():
            if name in queries:
                raise _same_name(name, "in the job file and as --query")
            queries[name] = query
    return queries


def _same_name(name: str, place: str) -> ClashError:
    return OptionError("two queries of one name", f"{name}, {place}", "give each query a name of its own")
