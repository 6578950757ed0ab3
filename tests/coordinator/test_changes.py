"""Queries, workers and plans that change while batches run: no result is lost or doubled, whatever happens when."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from unittest.mock import patch

import pyarrow as pa
import pytest

from clash.coordinator.control.changes import Change
from clash.coordinator.control.setup import Setup
from clash.inprocess.engine import InProcessEngine
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.plan.logical import LogicalPlan
from clash.state import failpoints
from clash.state.memory_storage import MemoryStorage

SECOND = 1_000_000
COLUMNS = {"R": "ax", "S": "ab", "T": "by", "U": "ya"}
JOINS = {
    "RS": ["R.a = S.a"],
    "ST": ["S.b = T.b"],
    "RST": ["R.a = S.a", "S.b = T.b"],
    "STU": ["S.b = T.b", "T.y = U.y"],
    "RSTU": ["R.a = S.a", "S.b = T.b", "T.y = U.y"],
}


@dataclass
class QueryLifetime:
    """A query from one batch to another."""

    name: str
    streams: str
    filter: int | None
    history: bool
    first: int
    change: Change | None = None
    until: int = 1 << 30

    @property
    def text(self) -> str:
        ids = ", ".join(f"{s}.id AS {s}" for s in self.streams)
        wheres = [*JOINS[self.streams], *([f"S.b <> {self.filter}"] if self.filter is not None else [])]
        return f"SELECT {ids} FROM {', '.join(self.streams)} WHERE {' AND '.join(wheres)}"


@dataclass
class History:
    """What came, and what the queries should have made of it."""

    window: int | None
    rows: dict[str, list[dict[str, int | None]]] = field(default_factory=lambda: {s: [] for s in COLUMNS})

    def expect(self, query: QueryLifetime) -> Counter[tuple[int, ...]]:
        results: Counter[tuple[int, ...]] = Counter()
        for combo in itertools.product(*(self.rows[s] for s in query.streams)):
            row = dict(zip(query.streams, combo, strict=True))
            batches = [r["batch"] for r in combo]
            times = [r["ts"] for r in combo]
            if not query.first <= max(batches) < query.until or (not query.history and min(batches) < query.first):  # type: ignore[type-var]
                continue
            if self.window is not None and max(times) - min(times) > self.window:  # type: ignore[type-var, operator]
                continue
            sides = [[row[side[0]][side[2]] for side in join.split(" = ")] for join in JOINS[query.streams]]
            if any(left is None or left != right for left, right in sides):
                continue
            if query.filter is not None and row["S"]["b"] in (query.filter, None):
                continue
            results[tuple(r["id"] for r in combo)] += 1  # type: ignore[misc]
        return results


def random_query(random: Random, name: str, batch: int) -> QueryLifetime:
    streams = random.choice(list(JOINS))
    narrowed = random.randrange(3) if "S" in streams and random.random() < 0.3 else None
    return QueryLifetime(name, streams, narrowed, random.random() < 0.7, batch)


def random_plan(random: Random, setup: Setup) -> LogicalPlan | None:
    if random.random() < 0.5:
        return None
    rates = {s: random.choice([1, 10, 1000, 100000]) for s in COLUMNS}
    chances = {join: random.choice([1e-6, 1e-3, 0.1]) for joins in JOINS.values() for join in joins}
    return setup.optimize(Statistics(rates=rates, selectivities=chances))


def _add(engine: InProcessEngine, query: QueryLifetime) -> Change:
    query.change = engine.add_query(query.name, query.text, history=query.history)
    return query.change


POINTS = (
    "before-record", "after-generation", "after-record", "round-stored", "before-manifest", "after-manifest", "after-publish",
    "before-cleanup", "after-cleanup",
)  # fmt: skip


def run_batch(random: Random, engine: InProcessEngine, batch: int, tables: dict[str, pa.Table], calls: list[Callable[[], Change]]) -> None:
    """A batch that may fail somewhere, once. What was not recorded by then is requested again, as a program would."""
    if random.random() < 0.7:
        engine.batch(tables)
        return
    failpoints._reached.clear()
    try:
        with patch.dict(os.environ, CLASH_FAILPOINT=f"{random.choice(POINTS)}@1!raise"):
            engine.batch(tables)
        return  # it was not reached
    except RuntimeError as error:
        assert "fail point" in str(error)
    if random.random() < 0.5:
        engine.restart()
        if engine.coordinator.generation.batch != batch:
            for call in calls:
                call()
    if engine.coordinator.last != batch:
        engine.batch(tables)
    else:
        engine.coordinator.publish(batch)


def run_history(seed: int, batches: int = 8) -> tuple[int, int]:
    random = Random(seed)
    window = random.choice([None, 2, 5])
    keep = random.choice(["needed", "needed", "all"])
    lateness = None if window is None else "0 seconds"
    streams = [
        Stream.of(
            s, {"id": "bigint", **dict.fromkeys(columns, "bigint"), "ts": "timestamp"}, time="ts", lateness=lateness, keep=keep,
            window=None if window is None else f"{window} seconds",
        )
        for s, columns in COLUMNS.items()
    ]  # fmt: skip
    history = History(None if window is None else window * SECOND)
    ids = itertools.count()
    live = {a.name: a for a in (random_query(random, f"q{i}", 0) for i in range(random.choice([1, 2, 3])))}
    for query in live.values():
        query.history = True
    every = list(live.values())
    engine = InProcessEngine(
        streams, {a.name: a.text for a in every}, workers=random.choice([1, 2, 3]), seed=seed,
        strategy=random.choice(["global", "global", "shared", "independent"]), layouts=random.choice(["one", "many"]),
        tuning={"relayout_rows": random.choice([1, 5, 1000])},
    )  # fmt: skip
    if random.random() < 0.8:
        engine.coordinator.plan_override = lambda setup, _: random_plan(random, setup)
    names = itertools.count(len(every))
    try:
        for batch in range(batches):
            if batch and random.random() < 0.2:
                engine.restart()
            calls: list[Callable[[], Change]] = []  # what is requested before this batch
            for _ in range(random.choice([0, 0, 1, 1, 2]) if batch else 0):
                kind = random.choice(["add", "remove", "rescale"])
                if kind == "add":
                    query = random_query(random, f"q{next(names)}", batch)
                    calls.append(partial(_add, engine, query))
                    live[query.name] = query
                    every.append(query)
                elif kind == "remove" and live:
                    removed = live.pop(random.choice(sorted(live)))
                    removed.until = batch
                    calls.append(partial(engine.remove_query, removed.name))
                else:
                    calls.append(partial(engine.rescale, random.choice([1, 2, 3, 4])))
            changes = [call() for call in calls]
            assert all(change.batch is None for change in changes)
            tables = {}
            for s, columns in COLUMNS.items():
                rows = [
                    {"id": next(ids), **{c: random.choice([0, 1, 2, None]) for c in columns}, "ts": batch * SECOND, "batch": batch}
                    for _ in range(random.randrange(4))
                ]
                history.rows[s] += rows
                types = {"id": pa.int64(), **dict.fromkeys(columns, pa.int64()), "ts": pa.timestamp("us", "UTC")}
                tables[s] = pa.table({c: pa.array([row[c] for row in rows], kind) for c, kind in types.items()})
            run_batch(random, engine, batch, tables, calls)
        incomplete = 0
        for query in every:
            found = Counter(zip(*(column.to_pylist() for column in engine.results(query.name).columns), strict=True)) \
                if query.first < query.until else Counter()  # fmt: skip
            expected = history.expect(query)
            of_batch = {row["id"]: row["batch"] for rows in history.rows.values() for row in rows}
            complete = (
                0 if query.change is None else query.change.complete_from or engine.coordinator.manifest.complete_from.get(query.name)
            )
            allowed = {combo for combo in expected if complete is None or max(of_batch[i] for i in combo) < complete}  # type: ignore[type-var]
            assert not found - expected, f"{query}: {found - expected} too many"
            missing = {combo: n for combo, n in (expected - found).items() if combo not in allowed}
            assert not missing, f"{query}: {missing} missing, complete from {complete}"
            incomplete += bool(expected - found)
        return len(engine.generations), incomplete
    finally:
        MemoryStorage.named(engine.uri.removeprefix("memory:")).forget()


@pytest.mark.parametrize("seed", range(20))
def test_random_changes(seed: int) -> None:
    run_history(seed)
