"""A history through the in-process transport, with its restarts and failures, beside what the oracle says."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from unittest.mock import patch

import clash
from clash.driver.committed import Committed
from clash.inprocess import InProcess
from clash.planner.plan import Plan
from clash.state import failpoints
from clash.state.memory import MemoryStorage

from .case import Batch, Case, plain_rows, table
from .oracle import Expected, expect
from .plans import random_plan


def differences(case: Case) -> list[str]:
    """What differs from the oracle; nothing if all is well."""
    expected = expect(case)
    engine = start(case)
    try:
        committed = [run_batch(engine, case, number, batch) for number, batch in enumerate(case.batches)]
        return [*_in_batches(case, expected, committed), *_in_results(case, expected, engine), *_in_late(case, expected, engine)]
    finally:
        MemoryStorage.named(engine.uri.removeprefix("memory:")).forget()


def start(case: Case) -> InProcess:
    setting = case.setting
    with patch.object(Plan, "explain", return_value=""):  # it plans for the other strategies too, which is not what is tested here
        return InProcess(
            case.streams, case.texts, workers=setting.workers, strategy=setting.strategy, cost=setting.cost, layouts=setting.layouts,
            mirs=setting.mirs, statistics=setting.statistics, windows=case.windows, partitions=setting.partitions, seed=setting.seed,
            plan=None if setting.plan_seed is None else plan_of(case), timezone=setting.timezone, options=dict(setting.options),
        )  # fmt: skip


def plan_of(case: Case) -> Plan:
    """The random plan that its setting names."""
    base = clash.optimize(
        case.texts, streams=case.streams, windows=case.windows, workers=case.setting.workers,
        strategy="independent", cost="probe", mirs=False, time_limit=0.0,
    )  # fmt: skip
    return random_plan(Random(case.setting.plan_seed), base)


def run_batch(engine: InProcess, case: Case, number: int, batch: Batch) -> Committed:
    """After a failure the batch runs again, unless it was committed: as Spark would have it."""
    if batch.restart:
        engine.restart()
    by_name = case.by_name
    tables = {name: table(by_name[name], rows) for name, rows in batch.rows.items()}
    try:
        with _failing(batch.fail):
            return engine.batch(tables, batch.now)
    except RuntimeError as error:
        if "fail point" not in str(error):
            raise
    if number % 2:  # else a failed attempt in a process that goes on
        engine.restart()
    if engine.driver.last == number:
        return engine.driver.finish(number)
    again = batch.now if batch.fail == ("before-record", 1) else batch.now + 1_000_000  # what was recorded for the batch counts
    return engine.batch(tables, again)


@contextmanager
def _failing(point: tuple[str, int] | None) -> Iterator[None]:
    if point is None:
        yield
        return
    failpoints._reached.clear()
    os.environ["CLASH_FAILPOINT"] = f"{point[0]}@{point[1]}!raise"
    try:
        yield
    finally:
        del os.environ["CLASH_FAILPOINT"]


def _in_batches(case: Case, expected: Expected, committed: list[Committed]) -> Iterator[str]:
    for number, done in enumerate(committed):
        if done.batch != number:
            yield f"batch {number} is called {done.batch}"
        for name, results in expected.results.items():
            wanted = sum(count for (batch, _), count in results.items() if batch == number)
            if done.counts[name] != wanted:
                yield f"batch {number} gives {done.counts[name]} results of {name}, not {wanted}"
        for name, mark in done.watermarks.items():
            if mark != expected.watermarks[number][name]:
                yield f"batch {number} has watermark {mark} of {name}, not {expected.watermarks[number][name]}"


def _in_results(case: Case, expected: Expected, engine: InProcess) -> Iterator[str]:
    for ask in case.queries:
        found = engine.results(ask.name)
        got = Counter(plain_rows(found.columns))
        wanted: Counter[tuple[object, ...]] = Counter()
        for (_, row), count in expected.results[ask.name].items():
            wanted[row] += count
        yield from _compared(f"results of {ask.name}", got, wanted)
        if found.schema != engine.driver.result_schema(ask.name):
            yield f"{ask.name} has another schema than it says"


def _in_late(case: Case, expected: Expected, engine: InProcess) -> Iterator[str]:
    for stream in engine.driver.topology.streams:
        found = engine.late(stream.name)
        at = [[name for name, _ in stream.columns].index(name) for name in found.column_names]
        wanted: Counter[tuple[object, ...]] = Counter()
        for row, count in expected.late[stream.name].items():
            wanted[tuple(row[i] for i in at)] += count
        if at:
            yield from _compared(f"late rows of {stream.name}", Counter(plain_rows(found.columns)), wanted)


def _compared(what: str, got: Counter[tuple[object, ...]], wanted: Counter[tuple[object, ...]]) -> Iterator[str]:
    for word, odd in (("extra", got - wanted), ("missing", wanted - got)):
        if odd:
            some = ", ".join(f"{row} × {count}" for row, count in list(odd.items())[:3])
            yield f"{what}: {odd.total()} {word} of {wanted.total()}, e.g. {some}"
