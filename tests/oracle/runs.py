"""A history through the in-process transport, with its changes, restarts and failures.

Invariant: what is live, on how many workers and since when is worked out here from what was asked for, never read off the engine.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from clash.coordinator.adaptive.replanner import Policy, Replanner
from clash.coordinator.checkpoint.generation import Generation
from clash.coordinator.committed_batch import CommittedBatch
from clash.coordinator.control import changes
from clash.coordinator.control.job import JobSpec, QueryRequest
from clash.coordinator.control.setup import Setup
from clash.optimizer import Plan
from clash.state import failpoints
from clash.state.storage import open_storage

from .case import Ask, Batch, Case, Change, Life, Program, Row, plain_rows, table
from .programs import all_after, started
from .starts import alone, plan_for, start
from .upkeep import Upkeep

Found = Counter[tuple[int, Row]]  # results with the batch that they came with
Asking = tuple[Change, changes.Change | None]  # and its handle: what a program changes has none
_EAGER = Policy(
    gain=-1e9,
    min_change=0.0,
    solver_seconds=0.0,
    solver_pause=0.0,
    solver_pause_if_drifted=0.0,
    estimate_interval=0.0,
    estimate_interval_if_drifted=0.0,
    pause=0,
    max_pause=0,
)  # whatever differs, by the heuristic
_STILL = replace(_EAGER, gain=1.0)
_UNRECORDED = ("before-record", "after-generation")


class Run:
    """`lives`: of all queries so far; `found`: per life, its results. `begins`: per stream the batch from which on rows of it come.
    `program`: that runs, `recorded`: that of the last start that came to a batch, `known`: the streams that were declared by then.
    `replanned`: how often the planner had another plan."""

    def __init__(self, case: Case) -> None:
        self.case, self.engine = case, start(case)
        self.engine.coordinator.plan_override = None if case.setting.adaptive else self._plan
        self.lives = [Life(ask) for ask in case.queries]
        self.program = self.recorded = case.programs[0]
        self.declared = [stream.name for stream in case.first_streams]
        self.known, self.begins = [*self.declared], dict.fromkeys(self.declared, 0)
        self.workers = case.setting.workers
        self.pending: list[Asking] = []
        self.epoch, self.forced = 0, False  # the first batch of this epoch; does the next batch begin another one in any case?
        self.committed: list[CommittedBatch] = []
        self.found: dict[str, Found] = {life.key: Counter() for life in self.lives}
        self.wrong: list[str] = []
        self.upkeep = Upkeep()
        self.replanned = 0
        self._ran: Generation | None = None  # of the last batch
        self._eager(_EAGER)

    @property
    def live(self) -> dict[str, Ask]:
        return {life.ask.name: life.ask for life in self.lives if life.end is None}

    @property
    def asked(self) -> dict[str, Ask]:
        """As it is after all that was asked for."""
        return all_after(tuple(change for change, _ in self.pending), self.live)

    def step(self, number: int, batch: Batch) -> None:
        if batch.restart:
            self.restart(batch.program, number)
        if batch.quiet:
            self._eager(_STILL)
        for change in batch.changes:
            self._ask(change, number)
        setup = self.engine.coordinator.changes.setup
        if batch.plan_seed is not None and batch.plan_seed % 4 == 0 and setup.queries:  # else the driver asks for it at the border
            self.engine.replan(plan_for(self.case, self.asked, setup.streams, setup.workers, batch.plan_seed, alone(self.case)))
        done = self._batch(number, batch)
        self._note(number, done)
        self.wrong += [f"after batch {number}: {told}" for told in self.upkeep.look(self.engine.coordinator, batch.quiet)]

    # ---- programs ----------------------------------------------------------------------------------------------

    def restart(self, program: Program | None, number: int) -> bool:
        """A new driver, before batch `number` is committed. What was not recorded is lost, and asked for again. Does the program change
        what runs?"""
        program = self._possible(self.program if program is None else program)
        asked = started(self.live, self.recorded, program)
        changes = any(change.kind != "rescale" or change.workers != self.workers for change in asked) or bool(program.streams)
        for name in self.declared:  # from now on, read or read past
            self.begins.setdefault(name, self.engine.coordinator.last + 1)
        self.declared += program.streams
        self.begins |= dict.fromkeys(program.streams, number)
        self.engine.restart(self._job(program))
        self.program = replace(program, streams=())
        self._eager(_EAGER)
        self.upkeep.swept = True
        lost, self.pending = self.pending, [(change, None) for change in asked]
        self.forced = self.program != self.recorded or self.declared != self.known
        for change, handle in lost:
            if handle is not None:
                self._ask(change, number)
        return changes

    def _possible(self, program: Program) -> Program:
        """A shrunk history may list what cannot be."""
        streams = tuple(name for name in program.streams if name in self.case.by_name and name not in self.declared)
        queries = tuple(ask for ask in program.queries if self.case.reads(ask) <= {*self.declared, *streams})
        return replace(program, queries=queries, streams=streams)

    def _job(self, program: Program) -> JobSpec:
        streams = tuple(self.case.by_name[name] for name in self.declared)
        queries = tuple(QueryRequest(ask.name, ask.text, ask.windows) for ask in program.queries)
        return replace(self.engine.job, streams=streams, queries=queries, workers=program.workers)

    # ---- changes -----------------------------------------------------------------------------------------------

    def _ask(self, change: Change, number: int) -> None:
        """Before batch `number` is on record. A shrunk history may ask for what cannot be."""
        if change.kind == "stream":
            self._declare(change.name, number)
            return
        engine, asked = self.engine, self.asked
        if change.kind == "rescale":
            handle = engine.rescale(change.workers)
        elif change.ask is None:
            if change.name not in asked:
                return
            handle = engine.remove_query(change.name)
        else:
            ask, reads = change.ask, self.case.reads(change.ask)
            if (ask.name in asked) != (change.kind == "replace") or not reads <= {*self.declared}:
                return
            tell = engine.add_query if change.kind == "add" else engine.replace_query
            handle = tell(ask.name, ask.text, dict(ask.windows), change.history)
            self._read(reads, number)
        self.pending.append((change, handle))

    def _declare(self, name: str, number: int) -> None:
        if name in self.declared or name not in self.case.by_name:
            return
        stream = self.case.by_name[name]
        handle = self.engine.add_stream(stream)
        if handle.batch != number:
            self.wrong.append(f"stream {name} was declared before batch {number}, and takes effect with {handle.batch}")
        self.declared.append(name)
        if stream.keep == "all":
            self._read(frozenset([name]), number)

    def _read(self, streams: frozenset[str], number: int) -> None:
        """A stream that is new is read from the next batch on, which is one under who needs it: as `clash.spark.run` has it."""
        new = streams - self.begins.keys()
        if new:
            self.forced = True
            self.begins |= dict.fromkeys(sorted(new), number)

    # ---- plans -------------------------------------------------------------------------------------------------

    def _plan(self, setup: Setup, batch: int) -> Plan | None:
        """A random plan at a boundary, if one was asked for since the last one."""
        epoch = self.case.setting.epoch
        seeds = [b.plan_seed for b in self.case.batches[max(batch + 1 - epoch, 0) : batch + 1] if b.plan_seed is not None]
        if not seeds or seeds[-1] % 4 == 0 or not setup.queries:
            return None
        asks = {q.name: Ask(q.name, q.request.text, q.request.windows) for q in setup.queries}
        return plan_for(self.case, asks, setup.streams, setup.workers, seeds[-1], alone(self.case))

    def _eager(self, policy: Policy) -> None:
        if self.case.setting.adaptive:
            self.engine.coordinator.replanner = Replanner(policy)

    def _attempt(self, tables: Mapping[str, pa.Table], now: int) -> CommittedBatch:
        """The planner's thread ends before the next batch begins, and leaves its statistics for a restart: a seed is one history."""
        driver = self.engine.coordinator
        if self.case.setting.adaptive:
            driver.collector.write_interval = -math.inf
        try:
            return self.engine.batch(tables, now)
        finally:
            if self.case.setting.adaptive:
                driver.replanner.wait()
                self.wrong += ["the planner failed"] if driver.replanner.failed else []

    # ---- batches -----------------------------------------------------------------------------------------------

    def _batch(self, number: int, batch: Batch) -> CommittedBatch:
        """After a failure the batch runs again, unless it was committed: as Spark would have it. It does so under what was recorded for it,
        unless a program that wants something else was started meanwhile."""
        before = ([*self.lives], self.workers, self.epoch, self.recorded, self.known)
        asked = [(change, None) for change, _ in self.pending]
        try:
            with _failing(batch.fail):
                done = self._attempt(self._tables(number, batch), batch.now)
            self._settle(number)
            return done
        except RuntimeError as error:
            if "fail point" not in str(error):
                raise
        recorded = batch.fail is not None and batch.fail[0] not in _UNRECORDED
        asked = asked if recorded and self._settle(number) else []
        committed = self.engine.coordinator.last == number
        self.upkeep.swept = False
        if number % 2 or batch.second is not None:  # else a failed attempt in a process that goes on
            changes = self.restart(batch.second, number + committed)
            if changes and recorded and not committed:
                self.lives, self.workers, self.epoch, self.recorded, self.known = before
                self.pending = [*asked, *self.pending]
                self.forced, recorded = self._differs(), False
        if committed:
            return self.engine.coordinator.publish(number)
        now = batch.now + 1_000_000 if recorded else batch.now  # what was recorded for the batch counts
        done = self._attempt(self._tables(number, batch), now)
        if not recorded:
            self._settle(number)
        return done

    def _differs(self) -> bool:
        """Does what waits differ from what the last committed batch ran under?"""
        workers = next((change.workers for change, _ in reversed(self.pending) if change.kind == "rescale"), self.workers)
        queries = any(change.kind != "rescale" for change, _ in self.pending)
        return queries or workers != self.workers or self.program != self.recorded or self.declared != self.known

    def _tables(self, number: int, batch: Batch) -> dict[str, pa.Table]:
        """Of the streams that are read by now: another program may have added some after a failure."""
        there = {name: rows for name, rows in batch.rows.items() if self.begins.get(name, math.inf) <= number}
        return {name: table(self.case.by_name[name], rows) for name, rows in there.items()}

    def _settle(self, number: int) -> bool:
        """The batch is on record. If it begins an epoch, all that was asked for takes effect with it, else nothing does."""
        epoch = number == 0 or self.forced or number - self.epoch >= self.case.setting.epoch
        for change, handle in self.pending:
            if handle is not None and handle.batch != (number if epoch else None):
                self.wrong.append(f"batch {number} {'begins an' if epoch else 'is in an'} epoch: {change} has {handle.batch}")
            if epoch:
                self._apply(change, number)
        if epoch:
            self.pending, self.forced, self.epoch = [], False, number
            self.recorded, self.known = self.program, [*self.declared]
        return epoch

    def _apply(self, change: Change, number: int) -> None:
        name = change.ask.name if change.ask is not None else change.name
        self.workers = change.workers or self.workers
        if change.kind in ("remove", "replace"):
            self.lives = [replace(o, end=number) if o.ask.name == name and o.end is None else o for o in self.lives]
            self.lives = [life for life in self.lives if life.end != life.first]  # it never ran
        if change.ask is not None:
            self.lives.append(Life(change.ask, number, None, change.history, None))

    def _note(self, number: int, done: CommittedBatch) -> None:
        self.committed.append(done)
        manifest = self.engine.coordinator.manifest
        for at, life in enumerate(self.lives):
            if not life.lives(number):
                continue
            if life.complete is None:
                life = self.lives[at] = replace(life, complete=manifest.complete_from.get(life.ask.name))
            found = self.found.setdefault(life.key, Counter())
            rows = [row for url in done.results.get(life.ask.name, ()) for row in _rows(self.engine.uri, url)]
            found.update((number, row) for row in rows)
            if done.counts.get(life.ask.name) != len(rows):
                self.wrong.append(f"batch {number} has {len(rows)} results of {life.key}, and says {done.counts.get(life.ask.name)}")
        lives = {life.ask.name: life.first for life in self.lives if life.lives(number)}
        if done.counts.keys() != lives.keys():
            self.wrong.append(f"batch {number} has results of {sorted(done.counts)}, not {sorted(lives)}")
        ran = self.engine.coordinator.log.read(done.generation)
        since = {query.name: query.batch for query in ran.setup.queries}
        if since != lives:
            self.wrong.append(f"batch {number} has queries that began with {since}, not {lives}")
        if ran.setup.workers != self.workers:
            self.wrong.append(f"batch {number} ran on {ran.setup.workers} workers, not {self.workers}")
        if ran.batch == number and ran.predicted is not None and self._ran is not None:
            self.replanned += self._ran.topology != ran.topology
        self._ran = ran


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
