"""A history through the in-process transport, with its changes, restarts and failures.

Invariant: what is live, on how many workers and since when is worked out here from what was asked for, never read off the engine.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from clash.coordinator.adaptive.replanner import Policy, Replanner
from clash.coordinator.checkpoint.generation import Generation
from clash.coordinator.committed_batch import CommittedBatch
from clash.coordinator.control import changes
from clash.coordinator.control.job import JobSpec, QueryRequest
from clash.coordinator.control.setup import Setup
from clash.model.query import Query
from clash.model.stream import Stream
from clash.optimizer import Plan
from clash.state import failpoints
from clash.state.storage import open_storage

from .case import Ask, Batch, Case, Change, Life, Program, Row, plain_rows, table
from .programs import all_after, changed_streams, merged, readable, started
from .starts import alone, plan_for, plan_over, start
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


@dataclass
class Declared:
    """How streams are declared. `runs`: what is in force, `listed`: by the program, `recorded`: by the program of the last start that came
    to a batch; `since`: columns that were not there from the first, with this type, and the batch from which on they are."""

    runs: dict[str, Stream]
    listed: dict[str, Stream]
    recorded: dict[str, Stream]
    since: dict[tuple[str, str], int]

    def __init__(
        self,
        runs: Mapping[str, Stream],
        listed: Mapping[str, Stream] | None = None,
        recorded: Mapping[str, Stream] | None = None,
        since: Mapping[tuple[str, str], int] | None = None,
    ) -> None:
        self.runs, self.listed, self.recorded = dict(runs), dict(listed or runs), dict(recorded or runs)
        self.since = dict(since or {})

    def copy(self) -> Declared:
        return replace(self)

    @property
    def wanted(self) -> dict[str, Stream]:
        return merged(self.listed, self.recorded, self.runs)

    @property
    def options_listed(self) -> dict[str, Stream]:
        return {name: replace(stream, columns=()) for name, stream in self.listed.items()}

    @property
    def options_recorded(self) -> dict[str, Stream]:
        return {name: replace(stream, columns=()) for name, stream in self.recorded.items()}

    def redeclare(self, streams: Mapping[str, Stream], number: int) -> None:
        for name, stream in streams.items():
            before = dict(self.runs[name].columns) if name in self.runs else dict(stream.columns)
            for column, kind in stream.columns:
                if before.get(column) != kind:
                    self.since[name, column] = number
        self.runs.update(streams)


class Run:
    """`lives`: of all queries so far; `found`: per life, its results. `begins`: per stream the batch from which on rows of it come.
    `program`: that runs, `recorded`: that of the last start that came to a batch, `known`: the streams that were declared by then.
    `streams`: as they are declared, by whoever did it last, and per batch in `declarations`. `replanned`: how often the planner had
    another plan."""

    def __init__(self, case: Case) -> None:
        self.case, self.engine = case, start(case)
        self.engine.coordinator.plan_override = None if case.setting.adaptive else self._plan
        self.program = self.recorded = case.programs[0]
        self.declared = [stream.name for stream in case.first_streams]
        self.known, self.begins = [*self.declared], dict.fromkeys(self.declared, 0)
        self.workers = case.setting.workers
        self.streams = Declared({stream.name: stream for stream in case.first_streams})
        self.declarations: list[dict[str, Stream]] = []
        self.lives = [self._life(ask, 0) for ask in case.queries]
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

    @property
    def streams_asked(self) -> dict[str, Stream]:
        """As they are declared after all that was asked for."""
        found = dict(self.streams.runs)
        for change, _ in self.pending:
            found = {**found, **{stream.name: stream for stream in changed_streams(change, found)}}
        return found

    def _life(self, ask: Ask, number: int, history: bool = True, complete: int | None = 0) -> Life:
        runs = self.streams.runs
        columns = {(name, column) for name, stream in runs.items() for column, _ in stream.columns}
        since = tuple((*column, batch) for column, batch in self.streams.since.items() if column in columns)
        streams = tuple(runs[stream.name] for stream in self.case.streams if stream.name in runs) if self.case.evolves else ()
        return Life(ask, number, None, history, complete, None, streams, since)

    def step(self, number: int, batch: Batch) -> None:
        tables = {name: table(self.case.by_name[name], rows) for name, rows in batch.tables.items()} if number else {}
        if batch.restart and number % 2:  # the start reads the new rows
            self.engine.tables.update(tables)
            tables = {}
        if batch.restart:
            self.restart(batch.program, number)
        for name, rows in tables.items():
            self.engine.refresh(name, rows)
        if batch.quiet:
            self._eager(_STILL)
        for change in batch.changes:
            self._ask(change, number)
        setup = self.engine.coordinator.changes.setup
        if batch.plan_seed is not None and batch.plan_seed % 4 == 0 and setup.queries:  # else the driver asks for it at the border
            self.engine.replan(self._random_plan(setup, self.asked, batch.plan_seed))
        done = self._batch(number, batch)
        self._note(number, done)
        self.wrong += [f"after batch {number}: {told}" for told in self.upkeep.look(self.engine.coordinator, batch.quiet)]

    # ---- programs ----------------------------------------------------------------------------------------------

    def restart(self, program: Program | None, number: int) -> bool:
        """A new driver, before batch `number` is committed. What was not recorded is lost, and asked for again. Does the program change
        what runs?"""
        program = self._possible(self.program if program is None else program, number)
        new = {name: self.case.shown(self.case.by_name[name]) for name in program.streams}
        self.streams.listed |= new
        self.streams.runs |= new
        self.streams.listed |= {stream.name: stream for stream in program.declared}
        asked = started(self.live, self.recorded, program)
        wanted = self.streams.wanted
        if any(self.streams.runs.get(name, stream) != stream for name, stream in wanted.items()):
            asked = (Change("declare", streams=tuple(wanted.values())), *asked)
        changes = any(change.kind != "rescale" or change.workers != self.workers for change in asked) or bool(program.streams)
        for name in self.declared:  # from now on, read or read past
            self.begins.setdefault(name, self.engine.coordinator.last + 1)
        self.declared += program.streams
        self.begins |= dict.fromkeys(program.streams, number)
        self.engine.restart(self._job(program))
        self.program = replace(program, streams=(), declared=())
        self._eager(_EAGER)
        self.upkeep.swept = True
        lost, self.pending = self.pending, [(change, None) for change in asked]
        self.forced = self._differs()
        for change, handle in lost:
            if handle is not None:
                self._ask(change, number)
        return changes

    def _possible(self, program: Program, number: int) -> Program:
        """A shrunk history may list what cannot be, and a random one declare what stored rows or queries that go on forbid."""
        streams = tuple(name for name in program.streams if name in self.case.by_name and name not in self.declared)
        program = replace(program, streams=streams, declared=tuple(s for s in program.declared if s.name in self.declared))
        while True:
            declared = {stream.name: stream for stream in program.declared}
            there = {**self.streams.listed, **{name: self.case.shown(self.case.by_name[name]) for name in streams}, **declared}
            queries = tuple(ask for ask in program.queries if readable(ask, there))
            listing = replace(program, queries=queries)
            allowed = tuple(stream for stream in program.declared if self._allowed(stream, listing, number))
            if allowed == program.declared:
                return listing
            program = replace(program, declared=allowed)

    def _allowed(self, stream: Stream, program: Program, number: int) -> bool:
        """By the words of docs/changing.md. What ran in the last committed batch has stored rows."""
        gone = {change.name or (change.ask.name if change.ask else "") for change in started(self.live, self.recorded, program)}
        wanted = merged({stream.name: stream}, self.streams.recorded, self.streams.runs)[stream.name]
        if wanted.idle is not None and wanted.lateness is None:
            return False
        last = self.declarations[-1:]
        for before in [before[stream.name] for before in [self.streams.runs, *last] if stream.name in before]:
            for column, kind in before.columns:
                users = [life for life in self.lives if life.end is None or life.end >= number]
                readers = [life for life in users if column in self.query(life).columns_of(stream.name)]
                now = stream.type_of(column)
                if now is None and any(life.end is None and life.ask.name not in gone for life in readers):
                    return False
                if now not in (None, kind) and (readers or before.keep == "all"):
                    return False
        return True

    def query(self, life: Life) -> Query:
        return self.case.parse(life.ask, life.streams)

    def _job(self, program: Program) -> JobSpec:
        streams = tuple(self.streams.listed[name] for name in self.declared)
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
        elif change.kind == "options":
            now = {stream.name: stream for stream in changed_streams(change, self.streams_asked)}.get(change.name)
            if now is None or (now.idle is not None and now.lateness is None):
                return
            handle = engine.change_stream(change.name, **dict(change.options))
            if now.keep == "all":
                self._read(frozenset([change.name]), number)
        elif change.ask is None:
            if change.name not in asked:
                return
            handle = engine.remove_query(change.name)
        else:
            ask, reads = change.ask, self.case.reads(change.ask)
            if (ask.name in asked) != (change.kind == "replace") or not readable(ask, self.streams_asked):
                return
            tell = engine.add_query if change.kind == "add" else engine.replace_query
            handle = tell(ask.name, ask.text, dict(ask.windows), change.history)
            self._read(reads, number)
        self.pending.append((change, handle))

    def _declare(self, name: str, number: int) -> None:
        if name in self.declared or name not in self.case.by_name:
            return
        stream = self.streams.listed[name] = self.case.shown(self.case.by_name[name])
        self.streams.runs[name] = self.streams.recorded[name] = stream
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
        return self._random_plan(setup, {q.name: Ask(q.name, q.request.text, q.request.windows) for q in setup.queries}, seeds[-1])

    def _random_plan(self, setup: Setup, asks: Mapping[str, Ask], seed: int) -> Plan:
        if self.case.evolves:
            return plan_over(self.case, setup, seed)
        return plan_for(self.case, asks, setup.streams, setup.workers, seed, alone(self.case))

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
        streams = self.streams.copy()
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
                self.streams = replace(streams, listed=self.streams.listed, runs={**self.streams.runs, **streams.runs})
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
        queries = any(change.kind not in ("rescale", "options", "declare") for change, _ in self.pending)
        streams = self.streams_asked != self.streams.runs or self.streams.options_listed != self.streams.options_recorded
        return queries or streams or workers != self.workers or self.program != self.recorded or self.declared != self.known

    def _tables(self, number: int, batch: Batch) -> dict[str, pa.Table]:
        """Of the streams that are read by now: another program may have added some after a failure."""
        there = {name: rows for name, rows in batch.rows.items() if self.begins.get(name, math.inf) <= number}
        return {name: table(self.streams.listed[name], rows, self.case.by_name[name]) for name, rows in there.items()}

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
            self.streams.recorded = dict(self.streams.listed)
        return epoch

    def _apply(self, change: Change, number: int) -> None:
        name = change.ask.name if change.ask is not None else change.name
        self.workers = change.workers or self.workers
        if change.kind in ("remove", "replace"):
            self.lives = [replace(o, end=number) if o.ask.name == name and o.end is None else o for o in self.lives]
            self.lives = [life for life in self.lives if life.end != life.first]  # it never ran
        if change.ask is not None:
            self.lives.append(self._life(change.ask, number, change.history, None))
        if change.kind in ("options", "declare"):
            self._redeclare({stream.name: stream for stream in changed_streams(change, self.streams.runs)}, number)

    def _redeclare(self, streams: Mapping[str, Stream], number: int) -> None:
        """A query whose windows change with a stream's is another one from then on, that keeps its columns."""
        self.streams.redeclare(streams, number)
        for life in [life for life in self.lives if life.end is None]:
            wider = tuple(replace(s, window=streams[s.name].window) if s.name in streams else s for s in life.streams)
            if self.case.parse(life.ask, wider).join.windows == self.query(life).join.windows:
                continue
            self.lives.remove(life)
            if life.first != number:
                self.lives.append(replace(life, end=number))
                life = replace(life, first=number, complete=None, began=life.origin)
            self.lives.append(replace(life, streams=wider))

    def _note(self, number: int, done: CommittedBatch) -> None:
        self.committed.append(done)
        self.declarations.append(dict(self.streams.runs))
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
        lives = {life.ask.name: life.origin for life in self.lives if life.lives(number)}
        if done.counts.keys() != lives.keys():
            self.wrong.append(f"batch {number} has results of {sorted(done.counts)}, not {sorted(lives)}")
        ran = self.engine.coordinator.log.read(done.generation)
        since = {query.name: query.batch for query in ran.setup.queries}
        if since != lives:
            self.wrong.append(f"batch {number} has queries that began with {since}, not {lives}")
        for stream in ran.setup.streams:
            if stream != self.streams.runs[stream.name]:
                self.wrong.append(f"batch {number} ran over {stream}, not {self.streams.runs[stream.name]}")
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
