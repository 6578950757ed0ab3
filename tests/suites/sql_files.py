"""Files of Spark's SQL tests: their tables as streams, their views as views, and each query that is accepted compared with what Spark gives
for it: the engine's results at the end of the streams, and the names of the columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import sqlglot
from sqlglot import exp
from tests.suites.cores import without_order

import clash
from clash.errors import ClashError

FILES = ("inner-join", "natural-join", "using-join", "cte", "cte-nested", "cross-join")


@dataclass(frozen=True)
class Outcome:
    query: str
    verdict: str
    """`equal`, `equal but for names`, `refused by both`, `refused`, `accepted by us alone` or `different`."""
    reason: str = ""


@dataclass
class _Declared:
    """The tables and views at one point of a file: each statement that declares one makes another of these."""

    folder: Path
    tables: dict[str, str] = field(default_factory=dict)
    """By name, the columns; the rows are files in `folder`."""
    views: dict[str, str] = field(default_factory=dict)
    accepted: dict[str, tuple[str, Any]] = field(default_factory=dict)
    """By a name of ours, the queries that are accepted, with the rows and names of columns that Spark gives."""


def compare_file(session: Any, text: str, folder: Path) -> list[Outcome]:
    """Runs the statements of a file one after the other; what is accepted of it runs as streams, together."""
    outcomes: list[Outcome] = []
    stages = [_Declared(folder / "0")]
    names = (f"q{number}" for number in count())
    for statement in _statements(text):
        words = statement.upper().split()
        if words[0] in ("SELECT", "WITH", "("):
            outcomes += _asked(session, statement, stages[-1], next(names))
            continue
        is_table = words[:2] == ["CREATE", "TABLE"]  # none is written to
        if is_table:
            name, columns = _created(statement)
            session.createDataFrame([], ", ".join(columns)).createOrReplaceTempView(name)
        else:
            _executed(session, statement)
        if is_table or (words[0] == "CREATE" and "VIEW" in words[:5]):
            stages.append(_declare(session, statement, stages[-1], folder / str(len(stages))))
    return outcomes + [outcome for stage in stages for outcome in _played(session, stage)]


def _declare(session: Any, statement: str, before: _Declared, folder: Path) -> _Declared:
    declared = _Declared(folder, dict(before.tables), dict(before.views))
    name, columns = _created(statement)
    for table in before.tables:
        (folder / table).mkdir(parents=True)
        pq.write_table(pq.read_table(before.folder / table), folder / table / "rows.parquet")
    words = statement.upper().split()
    if "VALUES" in words or "TABLE" in words[:5]:
        frame = session.table(name)
        declared.tables[name] = ", ".join(f"`{column.name}` {column.dataType.simpleString()}" for column in frame.schema.fields)
        (folder / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(frame.toArrow(), folder / name / "rows.parquet")
    else:
        list_of_columns = f"({', '.join(columns)})" if columns else ""
        declared.views[name] = f"SELECT * FROM ({statement[_query_start(statement) :]}) AS v{list_of_columns}"
    return declared


def _created(statement: str) -> tuple[str, list[str]]:
    """The name and the list of columns of CREATE."""
    created = sqlglot.parse_one(statement, dialect="spark").this
    columns = created.expressions if isinstance(created, exp.Schema) else []
    return created.find(exp.Table).name.lower(), [column.sql("spark") for column in columns]


def _query_start(statement: str) -> int:
    """Where the SELECT of CREATE VIEW … AS SELECT begins."""
    tokens = sqlglot.tokenize(statement, dialect="spark")
    return next(after.start for token, after in pairwise(tokens) if token.text.upper() == "AS")


def _statements(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    return [part.strip() for part in "\n".join(lines).split(";") if part.strip()]


def _executed(session: Any, statement: str) -> Any:
    """The DataFrame, and its rows; None if Spark refuses it."""
    try:
        frame = session.sql(statement)
        return [*frame.columns], _rows(frame)
    except Exception:
        return None


def _rows(frame: Any) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in frame.collect())


def _engine(session: Any, declared: _Declared, checkpoint: Path) -> clash.Engine:
    engine = clash.Engine(session, checkpoint, workers=2, adaptive=False)
    for name, columns in declared.tables.items():
        engine.stream(name, session.readStream.schema(columns).parquet(str(declared.folder / name)))
    for name, query in declared.views.items():
        engine.view(name, query)
    return engine


def _asked(session: Any, text: str, declared: _Declared, name: str) -> Iterator[Outcome]:
    """The outcome, if it is known before anything runs."""
    theirs = _executed(session, text)
    shown = " ".join(text.split())
    try:
        _engine(session, declared, declared.folder / "asked" / name).query(name, without_order(text))
    except ClashError as error:
        yield Outcome(shown, "refused by both" if theirs is None else "refused", f"{error.what}: {error.detail}")
        return
    if theirs is None:
        yield Outcome(shown, "accepted by us alone")
    else:
        declared.accepted[name] = text, theirs


def _played(session: Any, declared: _Declared) -> Iterator[Outcome]:
    if not declared.accepted:
        return
    engine = _engine(session, declared, declared.folder / "checkpoint")
    for name, (text, _) in declared.accepted.items():
        engine.query(name, without_order(text))
    run = engine.start(available_now=True)
    run.await_termination()
    for name, (text, (columns, rows)) in declared.accepted.items():
        found = run.results(name)
        ours, shown = _rows(found), " ".join(text.split())
        if ours != rows:
            yield Outcome(shown, "different", f"{dict(ours)} instead of {dict(rows)}")
        elif found.columns != columns:
            yield Outcome(shown, "equal but for names", f"{found.columns} instead of {columns}")
        else:
            yield Outcome(shown, "equal")
