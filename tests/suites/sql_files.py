"""Files of Spark's SQL tests: their tables as streams, their views as views, and each query compared with what Spark gives for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import sqlglot
from tests.sql.evaluate import run
from tests.suites.cores import without_order

from clash.errors import ClashError
from clash.model.stream import Stream
from clash.sql import check_view, parse_query, with_views

FILES = ("inner-join", "natural-join", "using-join", "cte", "cte-nested", "cross-join")


@dataclass(frozen=True)
class Outcome:
    query: str
    verdict: str
    """`equal`, `refused by both`, `refused`, `accepted by us alone`, `not computed here` or `different`."""
    reason: str = ""


def compare_file(session: Any, text: str) -> list[Outcome]:
    """Runs the statements of a file one after the other."""
    outcomes: list[Outcome] = []
    streams: dict[str, Stream] = {}
    tables: dict[str, list[dict[str, Any]]] = {}
    views: dict[str, str] = {}
    for statement in _statements(text):
        words = statement.upper().split()
        if words[0] in ("SELECT", "WITH", "("):
            outcomes.append(_compare(session, statement, streams, tables, views))
            continue
        _executed(session, statement)
        if words[0] != "CREATE" or "VIEW" not in words[:5]:
            continue
        tree = sqlglot.parse_one(statement, dialect="spark")
        name, query = tree.this.name.lower(), statement[tree_start(statement) :]
        if "VALUES" in words:
            frame = session.table(name)
            streams[name] = Stream.of(name, {field.name: field.dataType.simpleString() for field in frame.schema.fields})
            tables[name] = [row.asDict() for row in frame.collect()]
        else:
            check_view(name, query)
            views[name] = query
    return outcomes


def tree_start(statement: str) -> int:
    """Where the SELECT of CREATE VIEW … AS SELECT begins."""
    tokens = sqlglot.tokenize(statement, dialect="spark")
    return next(after.start for token, after in pairwise(tokens) if token.text.upper() == "AS")


def _statements(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    return [part.strip() for part in "\n".join(lines).split(";") if part.strip()]


def _executed(session: Any, statement: str) -> list[Any] | None:
    """The rows; None if Spark refuses it."""
    try:
        return list(session.sql(statement).collect())
    except Exception:
        return None


def _compare(session: Any, text: str, streams: dict[str, Stream], tables: dict[str, Any], views: dict[str, str]) -> Outcome:
    theirs = _executed(session, text)
    shown = " ".join(text.split())
    try:
        query = parse_query("q", with_views("q", without_order(text), views), streams)
    except ClashError as error:
        return Outcome(shown, "refused by both" if theirs is None else "refused", f"{error.what}")
    if query.outer is not None:
        return Outcome(shown, "not computed here", "it has aggregates")
    if theirs is None:
        return Outcome(shown, "accepted by us alone")
    try:
        ours = run(query, tables)
    except (AttributeError, NotImplementedError, KeyError):
        return Outcome(shown, "not computed here", "an expression that the evaluator of these tests does not know")
    is_equal = ours == Counter(tuple(row) for row in theirs)
    return Outcome(shown, "equal" if is_equal else "different", "" if is_equal else f"{dict(ours)} {theirs}")
