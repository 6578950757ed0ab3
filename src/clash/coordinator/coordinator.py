"""The driver's part of a batch: decide, record, and, when all tasks have reported, commit.

Invariant: what a batch runs under is recorded before its job starts, so a re-run finds it; the manifest is the one commit point; what
comes after it (moving result files to their place, cleaning up) can be done again at any time. Spark's batch id is the only clock. Every
change of queries, workers or plan is a new generation, which starts with the first batch of an epoch and is recorded before that batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from clash.coordinator.lifecycle.store_bootstrap import taken_over
from clash.coordinator.lifecycle.backfill import advanced, filled, next_piece
from clash.coordinator.control.changes import Change, Changes, Pending
from clash.coordinator.committed_batch import Committed, after, measured
from clash.coordinator.lifecycle.epochs import Epoch, next_epoch
from clash.coordinator.control.result_folders import refuse_mixed, shelved
from clash.coordinator.checkpoint.generation import Generation, next_generation
from clash.coordinator.checkpoint.generation_log import History
from clash.coordinator.control.job import Job, reading_order
from clash.coordinator.lifecycle.retention import note
from clash.coordinator.checkpoint.manifest import Manifest, manifest_path, read_last_manifest, stale_manifests, write_manifest
from clash.coordinator.adaptive.generation_cost import compared
from clash.coordinator.publication import Outputs
from clash.coordinator.checkpoint.source_registry import Reading, is_new
from clash.coordinator.checkpoint.batch_decision import Record, read_record, record_path, stale_records, write_record
from clash.coordinator.adaptive.replanner import Policy, Replanner
from clash.coordinator.batch_reports import Reports
from clash.coordinator.control.restart import restarted
from clash.coordinator.lifecycle.relayout import choose
from clash.coordinator.active_generation import Running
from clash.coordinator.control.setup import Live, Setup, differences
from clash.coordinator.adaptive.statistics_collector import Watch
from clash.coordinator.lifecycle.watermarks import Clock, advance, observe
from clash.protocol.batch import Tuning, Work
from clash.errors import CheckpointError, ClashError, OptionError
from clash.expressions.arrow_types import arrow_type
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.planner.plan import Format, Plan
from clash.state.container import read_container
from clash.state.failpoints import reach
from clash.state.storage import open_storage
from clash.topology import Topology
from clash.columnar.block import NUMBER_BITS
from clash.workers.program import Program, result_schema


class Driver:
    """One per run. `plan` overrides the first plan, and `replanner` (asked at each border) those after it, for tests."""

    def __init__(self, uri: str, job: Job, timezone: str = "UTC", plan: Plan | None = None, tuning: Tuning | None = None) -> None:
        self.storage, self.job, self.timezone, self.tuning = open_storage(uri), job, timezone, tuning or Tuning()
        self.uri = self.storage.uri
        self.history = History(self.storage)
        self.watch = Watch(self.storage)
        self.replanner: Callable[[Driver, int], Plan | None] | None = None
        self.planner = Replanner(Policy())
        if is_new(self.storage):
            self._create(plan)
        self._reading = Reading(self.storage, timezone, reading_order(job.streams, job.statistics))
        self.manifest = read_last_manifest(self.storage)
        decided = read_record(self.storage, self.last + 1)
        self._newest = number = self.manifest.generation if decided is None else decided.generation  # of the generations on record
        self.history.drop_after(number)
        known = self.history.read(number)
        self.wanted = restarted(known, job, uri)  # at a border: the set-up that is to be planned for
        self._anew = decided is not None and self.wanted != known.setup
        if self._anew:  # the batch may have failed for what the program has changed; nothing of it is visible, so it is decided once more
            number = self.manifest.generation
            self.wanted = self.wanted.not_begun(self.last + 1)
        for record in self.manifest.containers:
            read_container(self.storage, record.path, verify=True)
        self.running = Running(self.storage, self.timezone, self.history, number)
        whole = filled(self.generation, self.manifest.filled)
        used = None if decided is None else decided.plan
        self.running.open(self.generation.past(self.manifest.containers, whole) if used is None or self._anew else used)
        self.changes = Changes(self.generation, self._statistics)
        self._asked_borders = self._had_borders = 0
        self._recorded: Record  # what the batch that was begun last runs under
        self._sources = self.reading  # the streams that it may have rows of
        self._started = not self._is_same(self.wanted)
        if self._started:
            self.changes.restart(self.wanted, "start with another program")
        self._reading.extend(stream.name for stream in job.streams)
        committed = self.history.read(self.manifest.generation).setup.queries
        self.outputs = Outputs(self.uri, [*committed, *self.generation.setup.queries])
        self._write_measured()
        self.storage.sweep()  # what killed writers left half written: nobody writes now
        self.outputs.sweep_torn()
        self.sweep()
        self.running.sweep(used)

    def _create(self, plan: Plan | None) -> None:
        """The first generation of a new checkpoint, before anything else: a job without a plan could not go on."""
        if not self.job.queries:  # most likely forgotten; a later start may list none, and go on with those of calls, or with none
            raise OptionError("there is no query to run", self.uri, 'call engine.query("q1", "SELECT …") before engine.start()')
        setup = Setup.of(self.job)
        refuse_mixed(setup)
        plan = plan or setup.optimize(self.job.statistics)  # the heuristic: a start never waits for the solver
        self.history.write(next_generation(None, 0, 0, 0, setup, self.job.to_json(), plan, "start"))

    def close(self, error: ClashError | None = None) -> None:
        """The run has ended, perhaps with an error: nothing waits for a batch, and nothing works on beside it."""
        self.changes.close(error)
        self.planner.close()

    # ---- looking -----------------------------------------------------------------------------------------------

    @property
    def last(self) -> int:
        """The last committed batch, -1 before the first."""
        return self.manifest.batch

    @property
    def reading(self) -> tuple[str, ...]:
        """The streams that Spark reads, by their place."""
        return self._reading.order

    @property
    def generation(self) -> Generation:
        """That of the batch that was begun last."""
        return self.running.generation

    @property
    def topology(self) -> Topology:
        return self.running.program.topology

    @property
    def program(self) -> Program:
        return self.running.program

    @property
    def known(self) -> Mapping[str, Live]:
        """The queries, live or known to this process, by name."""
        return self.outputs.known

    @property
    def sinks(self) -> dict[str, tuple[str, str]]:
        """Per query, live or known to this process, where its result files are."""
        return self.outputs.sinks

    def query(self, name: str) -> Live | None:
        """The query that has this name or, if none does, had it last."""
        if name not in [*self.known]:  # whatever a user gives
            found = self.history.last_of(name) if isinstance(name, str) else None
            if found is None:
                return None
            self.outputs.learn([found[0]])
        return self.known[name]

    def result_schema(self, query: str) -> pa.Schema:
        if query in self.program.queries:
            return self.program.result_schema(query)
        found = self.history.last_of(query)
        if found is None:
            raise OptionError("unknown query", repr(query), "name one that was added")
        return result_schema(found[1])

    def late_schema(self, stream: str) -> pa.Schema:
        """Late rows have the columns that are read of their stream; where nobody reads it now, those that may have been."""
        if stream in self.program.streams:
            return self.program.late_schema(stream)
        return pa.schema([(name, arrow_type(kind)) for name, kind in self.changes.setup.by_name[stream].columns])

    def explain(self, format: Format = "text") -> str:
        """The plan that runs. Planning for the other strategies, to compare them, would take its time from the stream."""
        return self.generation.plan.explain(format, compare=False)

    def generations(self) -> list[dict[str, Any]]:
        """Every generation so far, oldest first: when, why, and what it cost beside what was expected."""
        return self.history.told(self.manifest.measured, self.generation.number)

    def complete_from(self, query: str) -> int | None:
        """The batch from which on the results of a live query lack nothing; None as long as that is unknown."""
        return self.manifest.complete.get(query)

    @property
    def statistics(self) -> Statistics | None:
        """What was seen of the streams so far, else what was given."""
        return self.watch.so_far(self.generation.plan.queries, self.generation.setup) or self._statistics()

    def _statistics(self) -> Statistics | None:
        return self.planner.latest or self.job.statistics or self.generation.plan.asked.statistics

    def add_stream(self, stream: Stream) -> Change:
        """A stream for queries to come: nobody reads it before one needs it, so that its first rows are there for that one."""
        return self.changes.add_stream(stream, self.last + 1)

    def read(self, streams: Iterable[str]) -> None:
        """Spark is to read these streams, too, from its next start on, and the next batch that is not recorded yet starts an epoch."""
        self._asked_borders += 1
        self._reading.extend(streams)

    # ---- a batch -----------------------------------------------------------------------------------------------

    def begin(self, batch: int, now: int, partitions: int) -> Work | None:
        """What the batch's tasks need to know; None if the batch is committed already."""
        if batch == self.last:
            return None
        if batch != self.last + 1:
            raise CheckpointError(
                "the two halves of the checkpoint do not fit together",
                f"Spark goes on with batch {batch}, but we have {f'batch {self.last}' if self.last >= 0 else 'none'} last ({self.uri})",
                "restore both from one copy, or start with an empty checkpoint folder",
            )
        found = None if self._anew else read_record(self.storage, batch)
        recorded = found or self._decide(batch, max(now, self.manifest.now))
        self._recorded, self._sources = recorded, self.reading
        reach("after-record")
        containers = self.running.live(self._found(self.running).containers, recorded.watermarks)
        self.running.open(recorded.plan)
        return Work(
            uri=self.uri,
            plan=recorded.plan,
            generation=recorded.generation,
            timezone=self.timezone,
            batch=batch,
            attempt=os.urandom(4).hex(),
            partitions=partitions,
            now=recorded.now,
            first=self.manifest.first,
            watermarks=recorded.watermarks,
            containers=containers,
            sinks={query.name: query.place(self.uri) for query in self.generation.setup.queries},
            layouts=self.running.layouts(containers),
            rewrite=recorded.rewrite,
            backfill=recorded.backfill,
            tuning=self.tuning,
        )

    def _decide(self, batch: int, now: int) -> Record:
        """Records what the batch runs under: first the generation, if it starts one, then all of it."""
        borders = self._asked_borders  # before looking at what waits: what is asked for after this forces the next batch
        epoch = next_epoch(self.manifest.epoch, self.job.epoch, batch, now, self._started or borders > self._had_borders)
        border = epoch.batch == batch
        taken, running = self._border(batch, epoch) if border else (None, self.running)
        self._reading.extend(stream.name for stream in running.topology.streams)
        clocks = self._clocks(running, now)
        marks = {name: clock.mark for name, clock in clocks.items()}
        containers = running.live(self._found(running).containers, marks)
        progress, layouts = self.manifest.filled, running.layouts(containers)
        piece = next_piece(running.generation, running.topology, containers, layouts, progress, self.tuning.rewrite_rows)
        filling = frozenset() if piece is None else frozenset([piece[0]])
        plan = running.open(running.generation.past(containers, filled(running.generation, progress), filling))
        rewrite = choose(containers, running.topology, layouts, self.tuning)
        reach("before-record")
        recorded = Record(now, plan, running.generation.number, epoch, clocks, rewrite, () if piece is None else (piece,))
        write_record(self.storage, batch, recorded)
        self._had_borders, self._anew = borders, False
        ended, self.running = self.generation, running
        self.outputs.learn(self.generation.setup.queries)
        self.changes.done(taken, self.generation, batch)
        if border:
            self._started = False
            self._ask(epoch, ended)
        return recorded

    def _found(self, running: Running) -> Manifest:
        """What the batch to come starts from: a new store may begin with what another one has."""
        return taken_over(self.manifest, running.generation.batch, running.generation.adopted)

    def _clocks(self, running: Running, now: int) -> dict[str, Clock]:
        """A stream that is read anew has not been idle; one that is not read keeps its watermark, which never falls."""
        declared = running.generation.setup.by_name
        before = {stream.name for stream in self.running.topology.streams}
        clocks = {n: c if n in before else replace(c, seen=None) for n, c in self.manifest.clocks.items() if n in declared}
        return {**clocks, **advance(running.topology.streams, clocks, now)}

    def commit(self, work: Work, reports: Sequence[bytes | pa.Buffer]) -> Committed:
        """Makes the batch part of the state, and its results visible."""
        reported = Reports.of(work, reports)
        told, highs = reported.told(), reported.highs
        running, last = self.running, self.manifest
        before = self._found(running)
        gone = running.gone(before, work)
        streams = [stream for stream in running.generation.setup.streams if stream.name in self._sources]
        missing, complete = running.completeness(before, work, highs)
        manifest = Manifest(
            batch=work.batch,
            now=work.now,
            first=work.first + reported.numbers * work.partitions,
            clocks=observe(self._recorded.clocks, highs, told["input"], work.now),
            containers=tuple(after(work, reported.rounds)),
            files=reported.files,
            told=told,
            generation=work.generation,
            epoch=self._recorded.epoch,
            gone=gone,
            kept=note(before.kept, running.topology, streams, highs, work.now, gone),
            missing=missing,
            complete=complete,
            measured=measured(before.measured, work.generation, told),
            filled=advanced(running.generation, before.filled, work.backfill),
        )
        reach("before-manifest")
        write_manifest(self.storage, manifest)
        self.manifest = manifest
        reach("after-manifest")
        self.changes.completed(manifest.complete)
        self.watch.add(reported.all, self.topology)
        committed = self.finish(work.batch)
        self._clean(last, reported.removed)
        return committed

    def finish(self, batch: int) -> Committed:
        """Moves the result files of the last committed batch to their place, unless they are there already."""
        manifest = self.manifest
        if batch != manifest.batch:
            raise AssertionError(f"batch {batch} is not the last one committed, {manifest.batch}")
        paths = self.outputs.publish(manifest)
        results = {name: tuple(paths.get(name, ())) for name in self.history.read(manifest.generation).setup.names}
        reach("after-publish")
        return Committed.of(manifest, results)

    def handed_over(self, batch: int) -> None:
        """The batch's results have reached the functions that wanted them: their files can go."""
        if batch != self.last:
            raise AssertionError(f"batch {batch} is not the last one committed, {self.last}")
        self.outputs.handed_over(self.manifest)

    # ---- borders between epochs --------------------------------------------------------------------------------

    def _border(self, batch: int, epoch: Epoch) -> tuple[Pending | None, Running]:
        """The generation that starts here, or the one that runs. Nothing that goes wrong with a plan stops the stream."""
        pending = self.changes.peek()
        self.wanted = pending.setup
        given = None if self.replanner is None else self.replanner(self, batch)
        offer = None
        if pending.changes and given is None and not pending.given and self._is_same(pending.setup):
            return pending, self.running  # such as as many workers as there are
        if pending.changes:
            plan, reason = given or pending.plan, "; ".join(differences(self.generation.setup, self.wanted)) or pending.changes[-1].what
        elif given is not None:
            plan, reason = given, "given"
        else:
            offer = self.planner.take(self.generation.number, epoch.number)
            if offer is None:
                return None, self.running
            plan, reason = offer.plan, offer.reason
        try:
            if plan is None or not self.wanted.fits(plan):
                plan = self.wanted.optimize(self._statistics(), start=self.generation.plan)
            number = max(self.generation.number, self._newest) + 1
            setup = shelved(self.wanted, plan, self.history, number)
            predicted = None if offer is None else offer.predicted
            arrival = self.manifest.first << NUMBER_BITS
            program, known = self.job.to_json(), self.manifest
            generation = next_generation(self.generation, number, batch, arrival, setup, program, plan, reason, predicted, known)
        except Exception as error:
            if self._anew:
                raise  # what runs without it is not what the record has
            self.changes.refuse(pending, error)
            return None, self.running
        self.history.write(generation)
        reach("after-generation")
        return pending, Running(self.storage, self.timezone, self.history, generation.number, self.running)

    def _is_same(self, setup: Setup) -> bool:
        return setup == self.generation.setup and self.job.to_json() == self.generation.program

    def _ask(self, epoch: Epoch, ended: Generation) -> None:
        """Beside the stream: is there a better plan, by what the epochs so far have shown? The last of them was under `ended`."""
        generation = self.generation
        stirred = self.watch.end_epoch(ended.plan.queries, ended.setup)
        wanted = self.job.adaptive and self.replanner is None and epoch.number > 0 and generation.setup.queries
        if wanted and self.planner.rested(generation.number, stirred):
            look = partial(self.watch.statistics, generation.plan.queries, generation.setup)
            self.planner.ask(generation.number, epoch.number, generation.setup, generation.plan, look, stirred)
        else:
            self.planner.beside(self.watch.fold)

    # ---- cleaning up -------------------------------------------------------------------------------------------

    def _clean(self, before: Manifest, removed: Iterable[str]) -> None:
        """`removed`: what the batch merged away."""
        reach("before-cleanup")
        kept = {record.path for record in self.manifest.containers}
        gone = [path for path in {*removed, *(record.path for record in before.containers)} if path not in kept]
        gone += [manifest_path(before.batch), record_path(self.last)]
        self.storage.delete([*gone, *self.running.stale()])
        if before.generation != self.manifest.generation:
            self._write_measured()
        self.history.keep({record.generation for record in self.manifest.containers} | {self.generation.number})
        self._learn()
        reach("after-cleanup")

    def _learn(self) -> None:
        """Did a better plan make batches cheaper? Asked once, when it has run for a while."""
        costs = [self.manifest.measured[number] for number in sorted(self.manifest.measured)]
        found = compared(*costs) if len(costs) == 2 and self.generation.predicted is not None else None
        if found is not None:
            self.planner.learn(*found)

    def _write_measured(self) -> None:
        for number, sums in self.manifest.measured.items():
            if number < self.manifest.generation:
                self.history.write_measured(number, sums)

    def sweep(self) -> None:
        """Deletes whatever the last manifest does not name: leftovers of attempts that failed or were killed."""
        kept = {record.path for record in self.manifest.containers}
        gone = [f"state/{name}" for name in self.storage.list("state", recursive=True) if f"state/{name}" not in kept]
        gone += stale_manifests(self.storage, self.last)
        gone += stale_records(self.storage, self.last + 1)
        self.storage.delete(gone)
        self.outputs.sweep(self.manifest, self.generation.setup.by_name)
