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
from clash.coordinator.coordinator import Coordinator
from clash.inprocess.engine import InProcessEngine
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.optimizer import Plan
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
class Asked:
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

    def expect(self, asked: Asked) -> Counter[tuple[int, ...]]:
        found: Counter[tuple[int, ...]] = Counter()
        for combo in itertools.product(*(self.rows[s] for s in asked.streams)):
            row = dict(zip(asked.streams, combo, strict=True))
            batches = [r["batch"] for r in combo]
            times = [r["ts"] for r in combo]
            if not asked.first <= max(batches) < asked.until or (not asked.history and min(batches) < asked.first):  # type: ignore[type-var]
                continue
            if self.window is not None and max(times) - min(times) > self.window:  # type: ignore[type-var, operator]
                continue
            sides = [[row[side[0]][side[2]] for side in join.split(" = ")] for join in JOINS[asked.streams]]
            if any(left is None or left != right for left, right in sides):
                continue
            if asked.filter is not None and row["S"]["b"] in (asked.filter, None):
                continue
            found[tuple(r["id"] for r in combo)] += 1  # type: ignore[misc]
        return found


def random_asked(random: Random, name: str, batch: int) -> Asked:
    streams = random.choice(list(JOINS))
    narrowed = random.randrange(3) if "S" in streams and random.random() < 0.3 else None
    return Asked(name, streams, narrowed, random.random() < 0.7, batch)


def random_plan(random: Random, driver: Coordinator) -> Plan | None:
    if random.random() < 0.5:
        return None
    rates = {s: random.choice([1, 10, 1000, 100000]) for s in COLUMNS}
    chances = {join: random.choice([1e-6, 1e-3, 0.1]) for joins in JOINS.values() for join in joins}
    return driver.wanted.optimize(Statistics(rates=rates, selectivities=chances))


def _add(engine: InProcessEngine, asked: Asked) -> Change:
    asked.change = engine.add_query(asked.name, asked.text, history=asked.history)
    return asked.change


POINTS = (
    "before-record", "after-generation", "after-record", "round-stored", "before-manifest", "after-manifest", "after-publish",
    "before-cleanup", "after-cleanup",
)  # fmt: skip


def run_batch(random: Random, engine: InProcessEngine, batch: int, tables: dict[str, pa.Table], calls: list[Callable[[], Change]]) -> None:
    """A batch that may fail somewhere, once. What was not recorded by then is asked for again, as a program would."""
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
    live = {a.name: a for a in (random_asked(random, f"q{i}", 0) for i in range(random.choice([1, 2, 3])))}
    for asked in live.values():
        asked.history = True
    every = list(live.values())
    engine = InProcessEngine(
        streams, {a.name: a.text for a in every}, workers=random.choice([1, 2, 3]), seed=seed,
        strategy=random.choice(["global", "global", "shared", "independent"]), layouts=random.choice(["one", "many"]),
        tuning={"relayout_rows": random.choice([1, 5, 1000])},
    )  # fmt: skip
    if random.random() < 0.8:
        engine.coordinator.replanner = lambda driver, _: random_plan(random, driver)
    names = itertools.count(len(every))
    try:
        for batch in range(batches):
            if batch and random.random() < 0.2:
                engine.restart()
            calls: list[Callable[[], Change]] = []  # what is asked for before this batch
            for _ in range(random.choice([0, 0, 1, 1, 2]) if batch else 0):
                kind = random.choice(["add", "remove", "rescale"])
                if kind == "add":
                    asked = random_asked(random, f"q{next(names)}", batch)
                    calls.append(partial(_add, engine, asked))
                    live[asked.name] = asked
                    every.append(asked)
                elif kind == "remove" and live:
                    gone = live.pop(random.choice(sorted(live)))
                    gone.until = batch
                    calls.append(partial(engine.remove_query, gone.name))
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
        for asked in every:
            found = Counter(zip(*(column.to_pylist() for column in engine.results(asked.name).columns), strict=True)) \
                if asked.first < asked.until else Counter()  # fmt: skip
            wanted = history.expect(asked)
            of_batch = {row["id"]: row["batch"] for rows in history.rows.values() for row in rows}
            complete = 0 if asked.change is None else asked.change.complete_from or engine.coordinator.complete_from(asked.name)
            allowed = {combo for combo in wanted if complete is None or max(of_batch[i] for i in combo) < complete}  # type: ignore[type-var]
            assert not found - wanted, f"{asked}: {found - wanted} too many"
            missing = {combo: n for combo, n in (wanted - found).items() if combo not in allowed}
            assert not missing, f"{asked}: {missing} missing, complete from {complete}"
            incomplete += bool(wanted - found)
        return len(engine.generations), incomplete
    finally:
        MemoryStorage.named(engine.uri.removeprefix("memory:")).forget()


@pytest.mark.parametrize("seed", range(20))
def test_random_changes(seed: int) -> None:
    run_history(seed)
