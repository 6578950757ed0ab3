"""A history through the in-process transport, with its changes, restarts and failures, beside what the oracle says."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

import clash
from clash.driver import changes
from clash.driver.committed import Committed
from clash.driver.driver import Driver
from clash.inprocess import InProcess
from clash.planner.plan import Plan
from clash.state import failpoints
from clash.state.memory import MemoryStorage
from clash.state.storage import open_storage

from .case import Ask, Batch, Case, Change, Life, Row, plain_rows, table
from .oracle import Expected, expect
from .plans import random_plan
from .upkeep import Upkeep

Found = Counter[tuple[int, Row]]  # results with the batch that they came with


def differences(case: Case) -> list[str]:
    """What differs from the oracle; nothing if all is well."""
    run = Run(case)
    try:
        for number, batch in enumerate(case.batches):
            run.step(number, batch)
        expected = expect(case, run.lives)
        return [
            *run.wrong,
            *_in_batches(run, expected),
            *(told for life in run.lives for told in _in_life(run, life, expected)),
            *_in_results(run),
            *_in_late(run, expected),
        ]
    finally:
        MemoryStorage.named(run.engine.uri.removeprefix("memory:")).forget()


def start(case: Case) -> InProcess:
    setting = case.setting
    return InProcess(
        case.streams, case.texts, workers=setting.workers, strategy=setting.strategy, cost=setting.cost, layouts=setting.layouts,
        mirs=setting.mirs, statistics=setting.statistics, windows=case.windows, partitions=setting.partitions, seed=setting.seed,
        plan=None if setting.plan_seed is None else plan_of(case), timezone=setting.timezone, options=dict(setting.options),
        epoch=setting.epoch,
    )  # fmt: skip


def plan_of(case: Case) -> Plan:
    """The random plan that its setting names."""
    changing = any(batch.changes or batch.plan_seed is not None for batch in case.batches)
    asks = {ask.name: ask for ask in case.queries}
    return plan_for(case, asks, case.setting.workers, case.setting.plan_seed, _alone(case) if changing else None)


def _alone(case: Case) -> float:
    """Stores that belong to a query stay with it: no plan moves their rows to others."""
    return 1.0 if case.setting.strategy == "independent" else 0.0


def plan_for(case: Case, asks: Mapping[str, Ask], workers: int, seed: int | None, alone: float | None) -> Plan:
    base = clash.optimize(
        {name: ask.text for name, ask in asks.items()}, streams=case.streams,
        windows={name: dict(ask.windows) for name, ask in asks.items() if ask.windows}, workers=workers,
        strategy="independent", cost="probe", mirs=False, time_limit=0.0,
    )  # fmt: skip
    plan = random_plan(Random(seed), base, alone)
    return replace(plan, asked=replace(plan.asked, strategy=case.setting.strategy))


class Run:
    """`lives`: of all queries so far; `found`: per life, its results."""

    def __init__(self, case: Case) -> None:
        self.case, self.engine = case, start(case)
        self.engine.driver.replanner = self._plan
        self.lives = [Life(ask) for ask in case.queries]
        self.pending: list[tuple[Change, changes.Change, int]] = []
        self.committed: list[Committed] = []
        self.found: dict[str, Found] = {life.key: Counter() for life in self.lives}
        self.wrong: list[str] = []
        self.upkeep = Upkeep()

    @property
    def asked(self) -> dict[str, Ask]:
        """As it is after all that was asked for."""
        return {q.name: Ask(q.name, q.asked.text, q.asked.windows) for q in self.engine.driver.changes.setup.queries}

    def step(self, number: int, batch: Batch) -> None:
        if batch.restart:
            self.restart()
        for change in batch.changes:
            self._ask(change, number)
        if batch.plan_seed is not None and batch.plan_seed % 4 == 0:  # else the driver asks for it at the border
            setup = self.engine.driver.changes.setup
            self.engine.replan(plan_for(self.case, self.asked, setup.workers, batch.plan_seed, _alone(self.case)))
        done = self._batch(number, batch)
        self._note(number, done)
        self.wrong += [f"after batch {number}: {told}" for told in self.upkeep.look(self.engine.driver, batch.quiet)]

    def restart(self) -> None:
        """What was not recorded is lost, and asked for again."""
        self.engine.restart()
        self.upkeep.swept = True
        lost, self.pending = self.pending, []
        for change, _, number in lost:
            self._ask(change, number)

    def _ask(self, change: Change, number: int) -> None:
        engine, live = self.engine, self.asked
        if change.kind == "rescale":
            handle = engine.rescale(change.workers)
        elif change.ask is None:
            if change.name not in live or len(live) == 1:
                return  # a shrunk history may ask for what cannot be
            handle = engine.remove_query(change.name)
        else:
            ask = change.ask
            if (ask.name in live) != (change.kind == "replace"):
                return
            tell = engine.add_query if change.kind == "add" else engine.replace_query
            handle = tell(ask.name, ask.text, dict(ask.windows), change.history)
        self.pending.append((change, handle, number))

    def _plan(self, driver: Driver, batch: int) -> Plan | None:
        """A random plan at a border, if one was asked for since the last one."""
        epoch = self.case.setting.epoch
        seeds = [b.plan_seed for b in self.case.batches[max(batch + 1 - epoch, 0) : batch + 1] if b.plan_seed is not None]
        if not seeds or seeds[-1] % 4 == 0:
            return None
        asks = {q.name: Ask(q.name, q.asked.text, q.asked.windows) for q in driver.wanted.queries}
        return plan_for(self.case, asks, driver.wanted.workers, seeds[-1], _alone(self.case))

    def _batch(self, number: int, batch: Batch) -> Committed:
        """After a failure the batch runs again, unless it was committed: as Spark would have it."""
        by_name = self.case.by_name
        tables = {name: table(by_name[name], rows) for name, rows in batch.rows.items()}
        try:
            with _failing(batch.fail):
                return self.engine.batch(tables, batch.now)
        except RuntimeError as error:
            if "fail point" not in str(error):
                raise
        recorded = self.engine.driver.storage.exists(f"batches/{number:09d}.json")
        self._settle(number)
        self.upkeep.swept = False
        if number % 2:  # else a failed attempt in a process that goes on
            self.restart()
        if self.engine.driver.last == number:
            return self.engine.driver.finish(number)
        again = batch.now + 1_000_000 if recorded else batch.now  # what was recorded for the batch counts
        return self.engine.batch(tables, again)

    def _settle(self, number: int) -> None:
        """Notes the changes that have taken effect, all of them at the first border after they were asked for."""
        left = []
        for change, handle, asked in self.pending:
            if handle.batch is None:
                left.append((change, handle, asked))
                continue
            epoch = self.case.setting.epoch
            if handle.batch != number or number != -(-asked // epoch) * epoch:
                self.wrong.append(f"{change} was asked for before batch {asked}, and took effect with batch {handle.batch}")
            name = change.ask.name if change.ask is not None else change.name
            if change.kind in ("remove", "replace"):
                self.lives = [replace(o, end=number) if o.ask.name == name and o.end is None else o for o in self.lives]
                self.lives = [life for life in self.lives if life.end != life.first]  # it never ran
            if change.ask is not None:
                self.lives.append(Life(change.ask, number, None, change.history, None))
        self.pending = left

    def _note(self, number: int, done: Committed) -> None:
        self._settle(number)
        self.committed.append(done)
        manifest = self.engine.driver.manifest
        for at, life in enumerate(self.lives):
            if not life.lives(number):
                continue
            if life.complete is None:
                life = self.lives[at] = replace(life, complete=manifest.complete.get(life.ask.name))
            found = self.found.setdefault(life.key, Counter())
            rows = [row for url in done.results[life.ask.name] for row in _rows(self.engine.uri, url)]
            found.update((number, row) for row in rows)
            if done.counts[life.ask.name] != len(rows):
                self.wrong.append(f"batch {number} has {len(rows)} results of {life.key}, and says {done.counts[life.ask.name]}")
        names = sorted(life.ask.name for life in self.lives if life.lives(number))
        if sorted(done.counts) != names:
            self.wrong.append(f"batch {number} has results of {sorted(done.counts)}, not {names}")


def _rows(uri: str, url: str) -> list[Row]:
    found = pq.read_table(pa.BufferReader(open_storage(uri).read(url.removeprefix(f"{uri}/"))))
    return plain_rows(found.columns)


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


def _in_batches(run: Run, expected: Expected) -> Iterator[str]:
    for number, done in enumerate(run.committed):
        if done.batch != number:
            yield f"batch {number} is called {done.batch}"
        for name, mark in expected.watermarks[number].items():
            if done.watermarks[name] != mark:
                yield f"batch {number} has watermark {done.watermarks[name]} of {name}, not {mark}"


def _in_life(run: Run, life: Life, expected: Expected) -> Iterator[str]:
    """Nothing that does not belong to it, ever; and from `complete` on all that does."""
    got, wanted = run.found[life.key], expected.results[life.key]
    whole = Counter({(b, row): n for (b, row), n in wanted.items() if life.complete is not None and b >= life.complete})
    yield from _compared(f"results of {life.key}", got, wanted, wanted if life.first == 0 else whole)
    soon = _complete_at_once(run, life)
    if soon and life.complete != life.first:
        yield f"{life.key} is complete from {life.complete} on, not at once, though {soon}"


def _complete_at_once(run: Run, life: Life) -> str | None:
    """Why nothing can be missing from the beginning, if so."""
    if not life.history:
        return "it has no history"
    case = run.case
    if case.setting.strategy == "independent" or life.first == 0:
        return None
    before = [other for other in run.lives if other.lives(life.first - 1) and other.history]
    if any(
        (o.ask.text, sorted(o.ask.windows)) == (life.ask.text, sorted(life.ask.windows))
        and o.complete is not None
        and o.complete <= life.first
        for o in before
    ):
        return "an equal query was there"
    query = case.parse(life.ask)
    for relation, window in query.join.windows:
        stream = case.by_name[relation.stream]
        if stream.keep != "all" or (stream.window is not None and (window is None or window > stream.window)):
            return None
    return "all is kept"


def _in_results(run: Run) -> Iterator[str]:
    """What can be read at the end under a name: of the last query of that name, and of those before it with the same columns."""
    for name in sorted({life.ask.name for life in run.lives}):
        table_ = run.engine.results(name)
        schema = run.engine.driver.result_schema(name)
        wanted: Counter[Row] = Counter()
        for life in reversed([life for life in run.lives if life.ask.name == name]):
            outputs = [(o.name, o.expression.type) for o in run.case.parse(life.ask).outputs]
            last = [(o.name, o.expression.type) for o in run.case.parse(_last(run, name)).outputs]
            if outputs != last:
                break
            for (_, row), count in run.found[life.key].items():
                wanted[row] += count
        yield from _compared(f"what can be read of {name}", Counter(plain_rows(table_.columns)), wanted, wanted)
        if table_.schema != schema:
            yield f"{name} has another schema than it says"


def _last(run: Run, name: str) -> Ask:
    return [life.ask for life in run.lives if life.ask.name == name][-1]


def _in_late(run: Run, expected: Expected) -> Iterator[str]:
    engine = run.engine
    for stream in engine.driver.topology.streams:
        found = engine.late(stream.name)
        if any(batch.changes or batch.plan_seed is not None for batch in run.case.batches):  # other columns at other times
            names = [stream.time] if stream.time is not None else []
            found = found.select(names or found.column_names[:1])
        at = [[name for name, _ in stream.columns].index(name) for name in found.column_names]
        wanted: Counter[tuple[object, ...]] = Counter()
        for row, count in expected.late[stream.name].items():
            wanted[tuple(row[i] for i in at)] += count
        if at:
            yield from _compared(f"late rows of {stream.name}", Counter(plain_rows(found.columns)), wanted, wanted)


def _compared(what: str, got: Counter[Row], wanted: Counter[Row], needed: Counter[Row]) -> Iterator[str]:
    for word, odd in (("extra", got - wanted), ("missing", needed - got)):
        if odd:
            some = ", ".join(f"{row} × {count}" for row, count in list(odd.items())[:3])
            yield f"{what}: {odd.total()} {word} of {wanted.total()}, e.g. {some}"
