"""What a history must give: watermarks by the letter, results by DuckDB over the admitted rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from clash.model.query import Query

from .case import Case, Row, plain, plain_rows, table, tau

_DB = duckdb.connect()  # one for all: opening one takes longer than a query
_DB.execute("PRAGMA disable_optimizer")  # DuckDB 2.0 gets `CASE … END IN (0)` over NULLs wrong with it
_DB.execute("PRAGMA threads=1")
LOWEST = -(10**30)


@dataclass
class Expected:
    """By query, each result with the batch of its last row; by stream, late rows; `watermarks` per batch and stream, None if none."""

    results: dict[str, Counter[tuple[int, Row]]] = field(default_factory=dict)
    late: dict[str, Counter[Row]] = field(default_factory=dict)
    watermarks: list[dict[str, int | None]] = field(default_factory=list)


def expect(case: Case) -> Expected:
    found = Expected(late={stream.name: Counter() for stream in case.streams})
    admitted = _admit(case, found)
    for stream in case.streams:
        rows = admitted[stream.name]
        loaded = _naive(table(stream, [row for _, _, row in rows]))
        loaded = loaded.append_column(f"__tau_{stream.name}", pa.array([t for t, _, _ in rows], pa.int64()))
        loaded = loaded.append_column(f"__batch_{stream.name}", pa.array([b for _, b, _ in rows], pa.int64()))
        _DB.register("__loaded", loaded)
        _DB.execute(f"CREATE OR REPLACE TABLE {stream.name} AS SELECT * FROM __loaded")
        _DB.unregister("__loaded")
    for query in case.parsed:
        answer = _DB.sql(duck_text(query, case)).to_arrow_table()
        rows = plain_rows(answer.columns)
        found.results[query.name] = Counter((row[-1], row[:-1]) for row in rows)
    return found


def duck_text(query: Query, case: Case) -> str:
    """The query's own text, with its windows as conditions and the batch of the last row as one more column."""
    select, _, rest = query.text.partition("\nFROM ")
    windows = dict(query.join.windows)
    taus = [f"{alias}.__tau_{relation.stream}" for alias, relation in query.aliases]
    batches = [f"{alias}.__batch_{relation.stream}" for alias, relation in query.aliases]
    if select.endswith(" *"):
        columns = [f"{a}.{c}" for a, relation in query.aliases for c, _ in case.by_name[relation.stream].columns]
        select = f"{select.removesuffix('*')}{', '.join(columns)}"
    conditions = [
        f"(GREATEST({', '.join(taus)}) - {own} <= {windows[relation]})"
        for own, (_, relation) in zip(taus, query.aliases, strict=True)
        if windows[relation] is not None
    ]
    text = f"{select}, GREATEST({', '.join(batches)}) AS __batch FROM {rest}"
    if not conditions:
        return text
    return f"{text} {'AND' if ' WHERE ' in rest else 'WHERE'} {' AND '.join(conditions)}"


def _admit(case: Case, found: Expected) -> dict[str, list[tuple[int, int, Row]]]:
    """(τ, batch, row) by stream. A watermark is of earlier batches alone, and never falls; a stream that no query reads has none, and
    counts for nobody."""
    admitted: dict[str, list[tuple[int, int, Row]]] = {stream.name: [] for stream in case.streams}
    highest = dict.fromkeys(admitted, LOWEST)
    marks = dict.fromkeys(admitted, LOWEST)
    used = sorted({relation.stream for query in case.parsed for relation in query.join.relations})
    streams = [case.by_name[name] for name in used]
    seen = dict.fromkeys(admitted, case.batches[0].now if case.batches else 0)
    for number, batch in enumerate(case.batches):
        for stream in streams:
            if stream.lateness is not None and highest[stream.name] > LOWEST:
                marks[stream.name] = max(marks[stream.name], highest[stream.name] - stream.lateness)
        idle = {s.name for s in streams if s.idle is not None and batch.now - seen[s.name] > s.idle}
        awake = min((marks[s.name] for s in streams if s.name not in idle), default=LOWEST)
        for name in idle:
            marks[name] = max(marks[name], awake)
        found.watermarks.append({name: None if marks[name] == LOWEST else marks[name] for name in used})
        for stream in streams:
            rows = batch.rows.get(stream.name, ())
            for row in rows:
                time = tau(stream, row, batch.now)
                if time is None or time < marks[stream.name]:
                    found.late[stream.name][plain(row)] += 1
                else:
                    admitted[stream.name].append((time, number, row))
                    highest[stream.name] = max(highest[stream.name], time)
            if rows:
                seen[stream.name] = batch.now
    return admitted


def _naive(rows: pa.Table) -> pa.Table:
    """DuckDB's TIMESTAMP has no zone, as its comparisons here need none."""
    kinds = [pa.timestamp("us") if pa.types.is_timestamp(f.type) else f.type for f in rows.schema]
    return rows.cast(pa.schema([pa.field(f.name, kind) for f, kind in zip(rows.schema, kinds, strict=True)]))
