"""Random streams and rows: few values, so that they meet; NULLs, duplicates, a hot key, times out of order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from clash.model.stream import Stream

from .case import Batch, Row, micros

START = datetime(2024, 1, 1, tzinfo=UTC)
CHANGES = {
    "Europe/Berlin": (datetime(2024, 3, 31, 1, tzinfo=UTC), datetime(2024, 10, 27, 1, tzinfo=UTC)),
    "America/New_York": (datetime(2024, 3, 10, 7, tzinfo=UTC), datetime(2024, 11, 3, 6, tzinfo=UTC)),
    "Australia/Lord_Howe": (datetime(2024, 4, 6, 15, tzinfo=UTC), datetime(2024, 10, 5, 15, 30, tzinfo=UTC)),
}
"""When zones change their clocks."""
_NAN = float("nan")
_DAYS = [date(2024, 1, 1) + timedelta(days=n) for n in (0, 1, 2, 40)]
_MOMENTS = [START + timedelta(seconds=n) for n in (0, 1, 86_400)] + [START + timedelta(microseconds=1)]
# what a key may be: the types that its columns have, and the values that all of them can hold
_DOMAINS: tuple[tuple[tuple[str, ...], tuple[Any, ...]], ...] = (
    (("int",), (0, 1, 2)),
    (("tinyint", "smallint", "int", "bigint"), (0, 1, 2, -1, 100)),
    (("bigint",), (0, 1, 2**62, -(2**63), 2**32, 2**53 + 1)),
    (("string",), ("", "a", "b", "ab", "é日", "x" * 40)),
    (("double", "float"), (0.0, -0.0, 1.0, 1.5, _NAN, float("inf"))),
    (("int", "double", "decimal(10,2)", "bigint", "decimal(12,3)"), (0, 1, 2, 3)),
    (("decimal(10,2)",), (Decimal("0.00"), Decimal("1.50"), Decimal("-7.25"))),
    (("decimal(25,3)",), (Decimal("0.000"), Decimal("1.500"), Decimal("1234567890123456789012.125"))),
    (("date",), tuple(_DAYS)),
    (("timestamp",), tuple(_MOMENTS)),
    (("timestamp_ntz",), tuple(moment.replace(tzinfo=None) for moment in _MOMENTS)),
    (("boolean",), (True, False)),
    (("binary",), (b"", b"a", b"ab", b"\x00")),
)
_WEIGHTS = (6, 4, 1, 4, 2, 2, 1, 1, 1, 1, 1, 1, 1)
_NESTED: dict[str, tuple[Any, ...]] = {
    "array<int>": ([1, None], [], [2, 3]),
    "map<string,int>": ([("a", 1)], []),
    "struct<x:int,y:array<string>>": ({"x": 1, "y": ["a", None]}, {"x": None, "y": None}),
}
PAYLOAD: dict[str, tuple[str, tuple[Any, ...]]] = {
    "p": ("int", (-2, -1, 0, 1, 2, 3)),
    "s": ("string", ("", "a", "b", "ab", "B%")),
    "f": ("double", (0.5, -1.0, 0.0, -0.0, _NAN, 2.25)),
    "ok": ("boolean", (True, False)),
}


@dataclass(frozen=True)
class Schema:
    """`domain` of a key column: which columns it may be joined with; `values`: what each column may hold, the first one hot."""

    streams: tuple[Stream, ...]
    domain: dict[tuple[str, str], int]
    values: dict[tuple[str, str], tuple[Any, ...]]
    zone: str = "UTC"
    start: datetime = START


def _random_clock(rng: Random) -> tuple[str, datetime]:
    """The session's time zone, and when the history begins: often while that zone changes its clock, or a day from it."""
    zone = rng.choice(["UTC", "UTC", "Europe/Berlin", *CHANGES, *CHANGES])
    if zone not in CHANGES or rng.random() < 0.2:
        return zone, START
    return zone, rng.choice(CHANGES[zone]) + timedelta(
        hours=rng.choice([0, 0, 0, -1, 1, -24, -23, 24, 25]), seconds=rng.choice([0, -1, -3])
    )


def random_schema(rng: Random) -> Schema:
    weighted = [at for at, weight in enumerate(_WEIGHTS) for _ in range(weight)]
    domains = [rng.choice(weighted) for _ in range(rng.randint(1, 3))]
    few = {
        which: rng.sample(_DOMAINS[which][1], min(len(_DOMAINS[which][1]), rng.choice([1, 2, 2, 3, 4]))) for which in sorted(set(domains))
    }
    streams, domain, values = [], {}, {}
    timed = rng.choice([1.0, 1.0, 0.9, 0.5])
    lateness = rng.choice([None, "0 seconds", "0 seconds", "mixed", "mixed"])
    ntz = rng.random() < 0.1
    for name in "RSTUV"[: rng.randint(2, 5)]:
        columns: dict[str, str] = {}
        for at in range(rng.randint(1, len(domains) + 1)):
            which = domains[at % len(domains)] if rng.random() < 0.8 else rng.choice(domains)
            kinds = _DOMAINS[which][0]
            column, kind = f"k{at}", rng.choice(kinds)
            columns[column] = kind
            domain[name, column] = which
            values[name, column] = tuple(_as(value, kind) for value in few[which])
        for column, (kind, pool) in PAYLOAD.items():
            if rng.random() < 0.45 or column == "p":
                columns[column] = kind
                values[name, column] = pool
        if rng.random() < 0.12:
            columns["n"] = rng.choice(sorted(_NESTED))
            values[name, "n"] = _NESTED[columns["n"]]
        time = None
        if rng.random() < timed:
            time = "ts"
            columns["ts"] = "timestamp_ntz" if ntz else "timestamp"
        late = rng.choice([None, "0 seconds", "1 second", "3 seconds"]) if lateness == "mixed" else lateness
        idle = rng.choice([None, None, None, "2 seconds"]) if late is not None else None
        window = rng.choice([None, None, "0 seconds", "1 second", "2 seconds", "5 seconds", "5 seconds", "20 seconds"])
        keep = "all" if rng.random() < 0.1 else "needed"
        streams.append(Stream.of(name, columns, time=time, window=window, lateness=late, idle=idle, keep=keep))
    return Schema(tuple(streams), domain, values, *_random_clock(rng))


def values_of(kind: str) -> list[Any]:
    """All values that columns of a type may hold."""
    keys = [_as(value, kind) for kinds, values in _DOMAINS if kind in kinds for value in values]
    return keys + [value for payload, values in PAYLOAD.values() if payload == kind for value in values]


def _as(value: Any, kind: str) -> Any:
    """A number of a mixed domain, as the column's type holds it."""
    if kind.startswith("decimal"):
        return Decimal(value).quantize(Decimal(1).scaleb(-int(kind[:-1].split(",")[1])))
    return float(value) if kind in ("double", "float") else value


def random_batches(rng: Random, schema: Schema, rows: int, count: int | None = None) -> tuple[Batch, ...]:
    """About `rows` rows per stream, cut into batches."""
    count = rng.choice([1, 2, 3, 5, 8]) if count is None else count
    hot, nulls = rng.choice([0.0, 0.0, 0.5, 0.8]), rng.choice([0.0, 0.05, 0.2])
    jitter = rng.choice([(0,), (0, 0, -1), (0, 0, 0, -1, -2, -5, 1)])
    pace = rng.choice([(0, 0, 1), (0, 1, 1, 2, 4), (2, 9)])
    fine = rng.random() < 0.3
    days = (0, 0, 3600, 82_800, 86_400, 90_000) if schema.start != START and rng.random() < 0.4 else (0,)  # apart, in seconds
    now, clock = micros(schema.start) + 7_000_000, 0
    batches = []
    for _ in range(count):
        now += rng.choice([0, 1, 1_000_000, 1_000_000, 3_000_000])
        held: dict[str, tuple[Row, ...]] = {}
        for stream in schema.streams:
            if rng.random() < 0.15:
                continue
            share = rng.choice([0, 1, 1, 1, 2])
            made: list[Row] = []
            for _ in range(share * rows // count + rng.randint(0, 1)):
                at = timedelta(seconds=clock + rng.choice(jitter) + rng.randint(0, 1) + rng.choice(days))
                if fine:
                    at += timedelta(microseconds=rng.choice([-1, 0, 0, 1]))
                made.append(_row(rng, stream, schema, schema.start + at, hot, nulls))
                if rng.random() < 0.08:
                    made.append(made[-1])
            if made or rng.random() < 0.5:
                held[stream.name] = tuple(made)
        clock += rng.choice(pace)
        batches.append(Batch(now, held))
    return tuple(batches)


def quiet_batches(rng: Random, schema: Schema, after: Batch, count: int) -> tuple[Batch, ...]:
    """One row of each stream per batch, long after all windows have passed."""
    found = []
    for number in range(1, count + 1):
        at = schema.start + timedelta(seconds=200_000 * number)
        rows = {stream.name: (_row(rng, stream, schema, at, 0.0, 0.0),) for stream in schema.streams}
        found.append(Batch(max(after.now, micros(schema.start)) + 200_000_000_000 * number, rows, quiet=True))
    return tuple(found)


def _row(rng: Random, stream: Stream, schema: Schema, at: datetime, hot: float, nulls: float) -> Row:
    row = []
    for column, kind in stream.columns:
        pool = schema.values.get((stream.name, column))
        if pool is None:
            value: Any = None if rng.random() < nulls / 4 else at.replace(tzinfo=None) if kind == "timestamp_ntz" else at
        elif nulls and rng.random() < nulls:
            value = None
        else:
            value = pool[0] if hot and (stream.name, column) in schema.domain and rng.random() < hot else rng.choice(pool)
        row.append(value)
    return tuple(row)
