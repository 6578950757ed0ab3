"""What a history must give: watermarks by the letter, results by DuckDB over the admitted rows."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import duckdb
import pyarrow as pa

from clash.model.query import Query
from clash.model.relation import Attribute
from clash.model.stream import Stream
from clash.topology.columns import query_attributes

from ..sql.local_time import DAY, from_local, plus, to_local
from .case import Case, Life, Row, plain, plain_rows, table, tau

_DB = duckdb.connect()  # one for all: opening one takes longer than a query
_DB.execute("PRAGMA disable_optimizer")  # DuckDB 2.0 gets `CASE … END IN (0)` over NULLs wrong with it
_DB.execute("PRAGMA threads=1")
LOWEST = -(10**30)


_Admitted = dict[str, list[tuple[int, int, Row]]]  # by stream: (τ, batch, row)


@dataclass
class Expected:
    """By query (a life's key), each result with the batch of its last row; by stream, late rows; `watermarks` per batch and stream, None
    if none."""

    results: dict[str, Counter[tuple[int, Row]]] = field(default_factory=dict)
    late: dict[str, Counter[Row]] = field(default_factory=dict)
    watermarks: list[dict[str, int | None]] = field(default_factory=list)


def expect(
    case: Case,
    lives: Sequence[Life] | None = None,
    begins: Mapping[str, int] | None = None,
    declared: Sequence[Mapping[str, Stream]] | None = None,
) -> Expected:
    """`lives`: of the queries, if they change. A new query's results may lack rows of a stream that nobody had read: those are expected
    too, unless they would have made rows late that came after them. `begins`: per stream the batch from which on there are rows of it, if
    not all are there from the first; `declared`: per batch the streams as they are declared, if that changes. Rows that came before a
    column are no part of what a query gives that reads it."""
    lives = [Life(ask) for ask in case.queries] if lives is None else lives
    declared = [case.by_name] * len(case.batches) if declared is None else declared
    kept = [frozenset(name for name, stream in streams.items() if stream.keep == "all") for streams in declared]
    queries = {life.key: case.parse(life.ask, life.streams) for life in lives}
    reads = {key: frozenset(r.stream for r in query.streams) for key, query in queries.items()}
    there = [
        frozenset(s.name for s in case.streams if begins is None or at >= begins.get(s.name, len(case.batches)))
        for at in range(len(case.batches))
    ]
    used = [names & kept[at].union(*(reads[life.key] for life in lives if life.lives(at))) for at, names in enumerate(there)]
    found = Expected(late={stream.name: Counter() for stream in case.streams})
    admitted = _admit(case, found, used, declared)
    every = [names & kept[at].union(*reads.values()) for at, names in enumerate(there)]
    all_of_them = admitted if every == used else _admit(case, Expected(late=defaultdict(Counter)), every, declared)
    fits = {name for name, rows in all_of_them.items() if [row for row in rows if name in used[row[1]]] == admitted[name]}
    for rows in [admitted] if all_of_them is admitted else [admitted, all_of_them]:
        mine = [life for life in lives if (reads[life.key] <= fits) == (rows is all_of_them)]
        loaded: tuple[Stream, ...] | None = None
        for life in sorted(mine, key=lambda life: str(life.streams)):
            if loaded != life.streams:
                _load(case, rows, life.streams)
                loaded = life.streams
            answer = _DB.sql(duck_text(queries[life.key], case, life)).to_arrow_table()
            told = [(row[-1], row[-2], row[:-2]) for row in plain_rows(answer.columns)]
            found.results[life.key] = Counter(
                (last, row) for first, last, row in told if life.lives(last) and (life.history or first >= life.origin)
            )
    return found


def _load(case: Case, admitted: _Admitted, streams: Sequence[Stream]) -> None:
    for stream in streams or case.streams:
        if stream.is_table:
            _load_table(case, stream)
            continue
        rows = admitted[stream.name]
        loaded = _naive(table(stream, [row for _, _, row in rows], case.by_name[stream.name]))
        for name, values in _in_zone(case.by_name[stream.name], [row for _, _, row in rows], case.setting.timezone).items():
            loaded = loaded.append_column(name, pa.array(values, pa.timestamp("us")))
        loaded = loaded.append_column(f"__tau_{stream.name}", pa.array([t for t, _, _ in rows], pa.int64()))
        loaded = loaded.append_column(f"__batch_{stream.name}", pa.array([b for _, b, _ in rows], pa.int64()))
        _DB.register("__loaded", loaded)
        _DB.execute(f"CREATE OR REPLACE TABLE {stream.name} AS SELECT * FROM __loaded")
        _DB.unregister("__loaded")


def _load_table(case: Case, stream: Stream) -> None:
    """All versions, with the batches that they are joined by."""
    starts = [number for number, batch in enumerate(case.batches) if stream.name in batch.tables]
    spans = zip(starts, [*starts[1:], len(case.batches)], strict=True)
    rows = [(first, end, row) for first, end in spans for row in case.batches[first].tables[stream.name]]
    loaded = _naive(table(stream, [row for _, _, row in rows]))
    for name, values in _in_zone(stream, [row for _, _, row in rows], case.setting.timezone).items():
        loaded = loaded.append_column(name, pa.array(values, pa.timestamp("us")))
    loaded = loaded.append_column(f"__first_{stream.name}", pa.array([first for first, _, _ in rows], pa.int64()))
    loaded = loaded.append_column(f"__end_{stream.name}", pa.array([end for _, end, _ in rows], pa.int64()))
    _DB.register("__loaded", loaded)
    _DB.execute(f"CREATE OR REPLACE TABLE {stream.name} AS SELECT * FROM __loaded")
    _DB.unregister("__loaded")


_REWRITTEN = (
    (re.compile(r"(\w+)\.ts - (\w+)\.ts"), r"\1.__local_ts - \2.__local_ts"),
    (re.compile(r"(\w+)\.ts \+ INTERVAL 1 DAY"), r"\1.__next_day_ts"),
    (re.compile(r"(\w+)\.ts - INTERVAL 1 DAY"), r"\1.__day_before_ts"),
    (re.compile(r"HOUR\((\w+)\.ts\)"), r"HOUR(\1.__local_ts)"),
    (re.compile(r"CAST\((\w+)\.ts AS DATE\)"), r"CAST(\1.__local_ts AS DATE)"),
)  # what depends on the session's time zone, as columns that are computed beside DuckDB, whose zones have other rules than Java's


def _in_zone(stream: Stream, rows: Sequence[Row], zone: str) -> dict[str, list[datetime | None]]:
    """The columns of `_REWRITTEN`, without time zones."""
    kind = stream.type_of("ts")
    if kind is None:
        return {}
    at = [name for name, _ in stream.columns].index("ts")
    moments = [row[at] for row in rows]
    if kind == "timestamp_ntz":
        shifts = [("__local_ts", 0), ("__next_day_ts", 1), ("__day_before_ts", -1)]
        return {name: [m and m + days * DAY for m in moments] for name, days in shifts}
    return {
        "__local_ts": [m and to_local(m, zone) for m in moments],
        "__next_day_ts": [m and plus(m, DAY, zone).replace(tzinfo=None) for m in moments],
        "__day_before_ts": [m and plus(m, -DAY, zone).replace(tzinfo=None) for m in moments],
    }


def _utc_literals(text: str, zone: str) -> str:
    """Local times of the session as those of UTC, which is what DuckDB's columns hold."""
    return re.sub(r"TIMESTAMP '([^']*)'", lambda found: f"TIMESTAMP '{from_local(datetime.fromisoformat(found[1]), zone):%F %T.%f}'", text)


def duck_text(query: Query, case: Case, life: Life | None = None) -> str:
    """The query's own text, with its windows as conditions and the batches of the last and of the first row as more columns."""
    text = _utc_literals(query.text, case.setting.timezone)
    for pattern, replacement in _REWRITTEN:
        text = pattern.sub(replacement, text)
    select, _, rest = text.partition("\nFROM ")
    windows = dict(query.join.windows)
    arriving = [(alias, relation) for alias, relation in query.aliases if relation not in query.tables]
    taus = [f"{alias}.__tau_{relation.stream}" for alias, relation in arriving]
    batches = [f"{alias}.__batch_{relation.stream}" for alias, relation in arriving]
    if select.endswith(" *"):
        streams = {stream.name: stream for stream in (life.streams if life is not None else ()) or case.streams}
        columns = [f"{a}.{c}" for a, relation in query.aliases for c, _ in streams[relation.stream].columns]
        select = f"{select.removesuffix('*')}{', '.join(columns)}"
    conditions = [
        f"(GREATEST({', '.join(taus)}) - {own} <= {windows[relation]})"
        for own, (_, relation) in zip(taus, arriving, strict=True)
        if windows[relation] is not None
    ]
    for alias, relation in query.aliases:
        if relation in query.tables:  # of the version that is in force when the last row comes
            name, last = relation.stream, f"GREATEST({', '.join(batches)})"
            conditions.append(f"({alias}.__first_{name} <= {last} AND {last} < {alias}.__end_{name})")
    read = query_attributes(query)
    for alias, relation in query.aliases:
        for name, column, batch in () if life is None else life.since:
            if name == relation.stream and Attribute(relation, column) in read:
                conditions.append(f"({alias}.__batch_{name} >= {batch})")
    ends = ", ".join(f"{end}({', '.join(batches)}) AS __{end}" for end in ("GREATEST", "LEAST"))
    text = f"{select}, {ends} FROM {rest}"
    if not conditions:
        return text
    return f"{text} {'AND' if ' WHERE ' in rest else 'WHERE'} {' AND '.join(conditions)}"


def _admit(case: Case, found: Expected, used: list[frozenset[str]], declared: Sequence[Mapping[str, Stream]]) -> _Admitted:
    """A watermark is of earlier batches alone, and never falls; a stream that no query reads has none, and counts for nobody. `used`: per
    batch, the streams that are read."""
    admitted: _Admitted = {stream.name: [] for stream in case.streams}
    highest = dict.fromkeys(admitted, LOWEST)
    marks = dict.fromkeys(admitted, LOWEST)
    seen: dict[str, int] = {}
    for number, batch in enumerate(case.batches):
        streams = [declared[number].get(stream.name, stream) for stream in case.streams if stream.name in used[number]]
        for stream in streams:
            if number == 0 or stream.name not in used[number - 1]:
                seen[stream.name] = batch.now  # what is read anew has not been idle
            if stream.lateness is not None and highest[stream.name] > LOWEST:
                marks[stream.name] = max(marks[stream.name], highest[stream.name] - stream.lateness)
        idle = {s.name for s in streams if s.idle is not None and batch.now - seen[s.name] > s.idle}
        awake = min((marks[s.name] for s in streams if s.name not in idle), default=LOWEST)
        for name in idle:
            marks[name] = max(marks[name], awake)
        found.watermarks.append({s.name: None if marks[s.name] == LOWEST else marks[s.name] for s in streams})
        for stream in streams:
            rows = batch.rows.get(stream.name, ())
            for row in rows:
                time = tau(case.by_name[stream.name], row, batch.now)
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
