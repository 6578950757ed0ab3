"""The coordinator's part of a batch: decide, record and, when all tasks have reported, commit and publish.

Invariant: what a batch runs under is recorded before its job starts, so a re-run finds it; the manifest is the one commit point; what comes
after it (moving result files to their place, cleaning up) can be done again at any time. Spark's batch id is the only clock. Every change
of queries, workers or plan is a new generation, which begins with the first batch of an epoch and is recorded before that batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple, NoReturn

from clash.coordinator.active_generation import ActiveGeneration
from clash.coordinator.adaptive.generation_cost import compare_costs
from clash.coordinator.adaptive.replanner import Replanner, ReplanRequest
from clash.coordinator.adaptive.statistics_collector import StatisticsCollector
from clash.coordinator.adaptive.table_statistics import TableStatistics
from clash.coordinator.batch_reports import BatchReports
from clash.coordinator.batch_state import BatchState
from clash.coordinator.boundary import BoundaryRequests, NextPlan, PlanOverride, plan_of_changes
from clash.coordinator.checkpoint.batch_decision import BatchDecision, write_decision
from clash.coordinator.checkpoint.generation import Generation, GenerationStart, begin_generation
from clash.coordinator.checkpoint.manifest import Manifest, write_manifest
from clash.coordinator.checkpoint.spark_seal import SparkSeal
from clash.coordinator.cleanup import leftovers, obsolete_after
from clash.coordinator.committed_batch import CommittedBatch
from clash.coordinator.control.changes import Change, Changes, Pending, RunningSetup
from clash.coordinator.control.folder_owner import ResultFolders
from clash.coordinator.control.job import JobSpec
from clash.coordinator.control.result_folders import assign_result_folders
from clash.coordinator.control.setup import LiveQuery, Setup
from clash.coordinator.lifecycle.epochs import Epoch, next_epoch
from clash.coordinator.next_decision import next_decision, starting_state
from clash.coordinator.next_manifest import next_manifest
from clash.coordinator.publication import ResultPublisher
from clash.coordinator.recovery import Recovered, establish, recover
from clash.coordinator.tables import InitialReads, ReadTable, Tables, table_named, with_table_sizes
from clash.errors import CheckpointError, ClashError, OptionError
from clash.model.block_columns import NUMBER_BITS
from clash.model.query import Query
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.plan.logical import LogicalPlan
from clash.protocol.batch import BatchSpec, Tuning
from clash.state.failpoints import reach
from clash.state.json_records import RESTORE


class DecidedBatch(NamedTuple):
    """The batch that was decided last."""

    decision: BatchDecision
    sources: tuple[str, ...]
    """The streams that it may have rows of."""


def _read_no_table(table: Stream) -> NoReturn:
    raise OptionError("a table cannot be read", f"table {table.name}", "give the coordinator a function that reads it")


class Coordinator:
    """One per run. `plan` overrides the first plan, and `plan_override`, called at each boundary, those after it: both for tests. `check`
    refuses a start for reasons of the caller's, before it changes anything on disk; `fence` raises an error once the checkpoint may
    belong to another run: it is called before whatever that run must not see. `read_table` reads the rows of a table."""

    def __init__(
        self,
        uri: str,
        job: JobSpec,
        timezone: str = "UTC",
        plan: LogicalPlan | None = None,
        tuning: Tuning | None = None,
        check: Callable[[Recovered], None] | None = None,
        fence: Callable[[], None] = lambda: None,
        read_table: ReadTable = _read_no_table,
    ) -> None:
        self._fence = fence
        self.job, self.timezone, self.tuning = job, timezone, tuning or Tuning()
        self.plan_override: PlanOverride | None = None
        self.replanner = Replanner()
        initial = InitialReads(read_table, job.tables)
        recovered: Recovered = recover(uri, job, timezone, plan, with_table_sizes(job.statistics, initial.reads))
        self.storage, self.log, self.plan_files = recovered.storage, recovered.log, recovered.plan_files
        self.uri = self.storage.uri
        self.sources = recovered.sources
        self.publisher = ResultPublisher(self.uri, self.sources.identity, recovered.queries)
        self.folders = ResultFolders(self.uri, self.sources.identity, lambda: self.last, adopts=recovered.is_format_6)
        self.changes = Changes(recovered.running, self.planning_statistics, self.folders.check_new)
        self._boundaries = BoundaryRequests()
        self._newest_generation = recovered.newest_generation  # of the generations on disk
        self._probing: Mapping[str, int] = {}  # by store, the rows that probed it in the last batch
        self._superseded = recovered.superseded  # a decision on disk that the program's changes replace
        self.manifest = recovered.manifest
        self.active = recovered.active
        self._progress = recovered.progress
        self._decided = None if recovered.decision is None else DecidedBatch(recovered.decision, self.sources.order)
        recorded = self.manifest.tables if recovered.decision is None else recovered.decision.tables
        initial.complete(recovered.setup.tables, recorded, self.uri)
        on_disk = recovered.decision or recovered.superseded
        versions = (self.manifest.tables, {} if on_disk is None else on_disk.tables)
        self.tables = Tables(self.storage, read_table, recorded, [table.name for table in job.tables], versions)
        self.collector = StatisticsCollector(self.storage, TableStatistics(lambda: self.tables.newest, self.tables.rows, timezone))
        if check is not None:
            check(recovered)
        self.folders.check_at_start(recovered.queries, self.generation.setup.streams_by_name, self.manifest.published)
        if not self._is_running(recovered.setup):
            self.changes.restart(recovered.setup, "start with another program")
            self._boundaries.request()
        self._fence()
        plan_path = establish(recovered, self.folders)  # the start is certain: from here on the disk changes
        self.loaded_plan = self.active.load_plan(plan_path)
        self.publisher.publish_staged(self.manifest, recovered.committed)  # Spark does not repeat the batch if its half has the commit
        self.sources.extend(stream.name for stream in job.streams if not stream.is_table)
        self.storage.delete(self._compact_generations())
        self.storage.sweep()  # what killed writers left half written: no process writes now
        self.publisher.sweep_torn()
        self.sweep()
        self.storage.delete(self.plan_files.remove_except({plan_path, *(() if on_disk is None else (on_disk.plan_path,))}))
        self.storage.delete(self.tables.leftovers())
        for read in initial.reads.values():
            self.tables.offer(read)
        for name, error in initial.failures.items():
            self.tables.record_failure(name, error)

    def close(self, error: ClashError | None = None) -> None:
        """The run has ended, perhaps with an error: nothing waits for a batch, and nothing works beside it."""
        self.changes.close(error)
        self.tables.close(error)
        self.replanner.close()

    # ---- reading -----------------------------------------------------------------------------------------------

    @property
    def last(self) -> int:
        """The last committed batch, -1 before the first."""
        return self.manifest.batch

    @property
    def generation(self) -> Generation:
        """The generation of the batch that was begun last."""
        return self.active.generation

    @property
    def is_next_decided(self) -> bool:
        """Whether the batch after the last committed one is decided: then the last one has been handed over."""
        return self._progress.batch != self.last or self._superseded is not None

    @property
    def committed_queries(self) -> tuple[LiveQuery, ...]:
        """Those of the last committed batch."""
        return self.log.read(self.manifest.generation).setup.queries

    @property
    def queries_to_publish(self) -> tuple[LiveQuery, ...]:
        """Those of the last committed batch, and those of the batch that was begun last: one may have replaced another of its name."""
        return *self.committed_queries, *self.generation.setup.queries

    def query(self, name: str) -> LiveQuery | None:
        """The query that has this name or, if none does, had it last."""
        if not isinstance(name, str):  # whatever a user passes
            return None
        live = self.publisher.queries.get(name)
        return self.log.last_query(name) if live is None else live

    def planning_statistics(self) -> Statistics | None:
        """What plans are made with: the last estimate, else what was given."""
        known = self.replanner.latest or self.job.statistics or self.generation.plan.request.statistics
        return with_table_sizes(known, self.tables.newest)

    def add_stream(self, stream: Stream) -> Change:
        """One stream more, as if the program had declared it: the next start of the program is compared with that."""
        change = self.changes.add_stream(stream, self.last + 1)
        self.job = replace(self.job, streams=(*self.job.streams, stream))
        return change

    def refresh_table(self, name: str) -> Change:
        """Reads a table again; tuples of the next batch that is decided join what it has now."""
        self._fence()
        return self.tables.refresh(table_named(self.changes.setup.tables, name))

    def add_table(self, table: Stream) -> Change:
        """One table more, as if the program had declared it."""
        self.changes.setup.add_stream(table)  # raises if there is one of that name
        self._fence()
        self.tables.refresh(table)
        return self.add_stream(table)

    def read_more(self, streams: Iterable[str]) -> None:
        """Spark is to read these streams, too, from its next start on, and the next batch that is not decided yet begins an epoch."""
        self._fence()
        self._boundaries.request()
        self.sources.extend(streams)

    # ---- a batch -----------------------------------------------------------------------------------------------

    def begin(self, batch: int, now: int, partitions: int, seal: SparkSeal | None = None) -> BatchSpec | None:
        """What the batch's tasks need to know; None if the batch is committed already. `seal`: of Spark's half of the checkpoint."""
        self._fence()
        if batch == self.last:
            return None
        if batch != self.last + 1:
            raise CheckpointError(
                "the two halves of the checkpoint do not fit together",
                f"Spark goes on with batch {batch}, but we have {f'batch {self.last}' if self.last >= 0 else 'none'} last ({self.uri})",
                RESTORE,
            )
        if self._progress.state in (BatchState.DECIDED, BatchState.RUNNING) and self._decided is not None:
            decision = self._decided.decision
            if decision.seal != seal:  # Spark has planned the batch again
                decision = replace(decision, seal=seal)
                write_decision(self.storage, batch, decision)
        else:
            decision = self._decide(batch, max(now, self.manifest.now), seal)
        self._decided = DecidedBatch(decision, self.sources.order)
        reach("after-record")
        self.publisher.delete_handed_over(self.manifest, self.committed_queries)  # Spark has recorded the batch, and does not repeat it
        containers = self.active.live(starting_state(self.manifest, self.active).containers, decision.watermarks)
        self.loaded_plan = self.active.load_plan(decision.plan_path)
        self._progress.move(BatchState.RUNNING, batch)
        return BatchSpec(
            uri=self.uri,
            checkpoint=self.sources.identity,
            plan_path=decision.plan_path,
            generation=decision.generation,
            timezone=self.timezone,
            batch=batch,
            attempt=os.urandom(4).hex(),
            partitions=partitions,
            workers=self.loaded_plan.topology.workers,
            rounds=self.loaded_plan.topology.rounds,
            now=decision.now,
            first_number=self.manifest.next_number,
            watermarks=decision.watermarks,
            containers=containers,
            sinks={query.name: query.result_location(self.uri) for query in self.generation.setup.queries},
            layouts=self.active.layouts(containers),
            relayout=decision.relayout,
            backfill=decision.backfill,
            probing=self._probing,
            tables={name: version.files for name, version in decision.tables.items() if name in self.loaded_plan.topology.tables},
            tuning=self.tuning,
        )

    def abandon(self, spec: BatchSpec) -> None:
        """An attempt at the batch has failed: what it wrote is deleted, and its decision stands."""
        self._progress.move(BatchState.DECIDED, spec.batch)
        self.sweep()

    def commit(self, spec: BatchSpec, reports: BatchReports) -> CommittedBatch:
        """Makes the batch part of the state, and its results visible. `reports`: of all tasks."""
        if self._decided is None:
            raise AssertionError(f"batch {spec.batch} was not decided")
        previous = self.manifest
        manifest = next_manifest(starting_state(previous, self.active), self.active, *self._decided, spec, reports)
        self._progress.check(BatchState.COMMITTED, spec.batch)
        reach("before-manifest")
        self._fence()
        write_manifest(self.storage, manifest)
        self.manifest = manifest
        self._progress.move(BatchState.COMMITTED, spec.batch)
        reach("after-manifest")
        self.changes.complete(manifest.complete_from)
        self.collector.add(reports.all, self.loaded_plan.topology)
        self._probing = reports.probing_rows(self.loaded_plan)
        committed = self.publish(spec.batch)
        self._clean(previous, spec, reports)
        return replace(committed, plan_path=spec.plan_path, probes=reports.probes, worker_seconds=reports.worker_seconds)

    def publish(self, batch: int) -> CommittedBatch:
        """Moves the result files of the last committed batch to their place, unless they are there already."""
        manifest = self.manifest
        if batch != manifest.batch:
            raise AssertionError(f"batch {batch} is not the last one committed, {manifest.batch}")
        queries = self.committed_queries
        self._fence()
        with_files = {file.destination for file in manifest.files}
        self.folders.refuse_taken(query for query in queries if query.name in with_files)
        paths = self.publisher.publish(manifest, queries, is_handed_over=self.is_next_decided)
        if self._progress.batch == batch:  # otherwise the next batch is decided: Spark may be behind us by a commit that it lost
            self._progress.move(BatchState.PUBLISHED, batch)
        reach("after-publish")
        return CommittedBatch.of(manifest, {name: tuple(paths.get(name, ())) for name in (query.name for query in queries)})

    # ---- deciding ----------------------------------------------------------------------------------------------

    def _decide(self, batch: int, now: int, seal: SparkSeal | None) -> BatchDecision:
        """Records what the batch runs under: first the generation, if it begins one, then the decision."""
        requested, force = self._boundaries.pending()  # before looking at what waits: what is requested after this forces the next batch
        epoch = next_epoch(self.manifest.epoch, self.job.epoch, batch, now, force)
        is_boundary = epoch.batch == batch
        taken, active = self._cross_boundary(batch, epoch) if is_boundary else (None, self.active)
        self._fence()
        self.sources.extend(stream.name for stream in active.topology.arriving)
        decision = next_decision(self.manifest, self.active, active, epoch, now, self.tuning, self.tables.newest, seal)
        reach("before-record")
        write_decision(self.storage, batch, decision)
        self._progress.move(BatchState.DECIDED, batch)
        ended, self.active, self._superseded = self.generation, active, None
        self._decided = DecidedBatch(decision, self.sources.order)
        self._boundaries.serve(requested)
        self.publisher.add_queries(self.generation.setup.queries)
        self.tables.settle(decision.tables, batch)
        self.changes.settle(taken, RunningSetup(self.generation.setup, self.generation.plan), batch)
        if is_boundary:
            self._request_plan(epoch, ended)
        return decision

    # ---- boundaries between epochs -----------------------------------------------------------------------------

    def _cross_boundary(self, batch: int, epoch: Epoch) -> tuple[Pending | None, ActiveGeneration]:
        """The generation that begins here, or the active one, and the changes that are in effect with it."""
        pending = self.changes.peek()
        override = None if self.plan_override is None else self.plan_override(pending.setup, batch)
        if pending.changes:
            if override is None and not pending.plan_is_given and self._is_running(pending.setup):
                return pending, self.active  # the changes change nothing, as a rescale to as many workers as there are
            chosen = plan_of_changes(pending, self.generation.setup, override)
        elif override is not None:
            chosen = NextPlan(override, "given")
        else:
            offer = self.replanner.offers.take(self.generation.number, epoch.number)
            if offer is None:
                return None, self.active
            chosen = NextPlan(offer.plan, offer.reason, offer.predicted)
        try:
            generation = self._next_generation(batch, pending.setup, chosen)
        except Exception as error:
            if self._superseded is not None:
                raise  # what would run without it is not what the record on disk says
            self.changes.refuse(pending, error)
            return None, self.active
        self._fence()  # planning may take long
        self.log.write(generation)
        self.folders.claim(generation.setup.queries)
        reach("after-generation")
        return pending, ActiveGeneration(self.storage, self.timezone, self.log, generation.number, self.plan_files)

    def _next_generation(self, batch: int, setup: Setup, chosen: NextPlan) -> Generation:
        plan = chosen.plan
        if plan is None or not setup.fits(plan):
            plan = setup.optimize(self.planning_statistics(), start=self.generation.plan)
        number = max(self.generation.number, self._newest_generation) + 1
        start = GenerationStart(number, batch, self.manifest.next_number << NUMBER_BITS, chosen.reason, chosen.predicted)
        setup = assign_result_folders(setup, self.log.last_query, number)
        self.folders.check_new(setup, self.generation.setup)  # others may have come to a folder since it was requested
        return begin_generation(self.generation, start, setup, self.job.record(), plan, self.manifest.retained)

    def _is_running(self, setup: Setup) -> bool:
        return setup == self.generation.setup and self.job.record() == self.generation.program

    def _request_plan(self, epoch: Epoch, ended: Generation) -> None:
        """Looks for a better plan beside the stream, by the statistics of the epochs so far; the last of them was under `ended`."""
        generation = self.generation
        queries, streams = generation.plan.queries, generation.setup.read_streams
        drifted = self.collector.end_epoch(ended.plan.queries, ended.setup.read_streams)
        adapts = self.job.adaptive and self.plan_override is None and epoch.number > 0 and generation.setup.queries
        if adapts and self.replanner.is_due(generation.number, drifted):
            question = ReplanRequest(generation.number, epoch.number, generation.setup, generation.plan, drifted, self.collector.stability)
            self.replanner.request(question, partial(self._estimate, queries, streams))
        else:
            self.replanner.run_beside(self.collector.fold)

    def _estimate(self, queries: tuple[Query, ...], streams: Mapping[str, Stream]) -> Statistics | None:
        seen = self.collector.estimate(queries, streams)
        return None if seen is None else with_table_sizes(seen, self.tables.newest)

    # ---- cleaning up -------------------------------------------------------------------------------------------

    def _clean(self, before: Manifest, spec: BatchSpec, reports: BatchReports) -> None:
        """Deletes what the committed batch made obsolete, the containers that it merged into others among it."""
        reach("before-cleanup")
        plans = self.plan_files.remove_except({spec.plan_path})
        self.active.forget_plan(plans)
        self.storage.delete([*obsolete_after(before, self.manifest, reports.removed), *plans, *self.tables.obsolete(self.manifest.tables)])
        self.storage.delete(self._compact_generations())
        self.publisher.delete_joined(spec, reports.joined)
        self.publisher.keep_queries(self.queries_to_publish)
        self.folders.keep(self.queries_to_publish)
        self._record_outcome()
        reach("after-cleanup")

    def _record_outcome(self) -> None:
        """Whether a better plan made batches cheaper: judged once, when it has run for a while."""
        costs = [self.manifest.costs[number] for number in sorted(self.manifest.costs)]
        compared = compare_costs(*costs) if len(costs) == 2 and self.generation.predicted is not None else None
        if compared is not None:
            self.replanner.offers.record_outcome(*compared)

    def _compact_generations(self) -> list[str]:
        """Adds what has ended to the history. Returns the records that are obsolete: no stored rows were laid out under their generations,
        and none will be."""
        committed = self.manifest.generation
        layouts = [*self.generation.stores.layouts.values(), *self.log.read(committed).stores.layouts.values()]
        live = {version.generation for version in layouts} | {record.generation for record in self.manifest.containers}
        return self.log.compact(committed, self.manifest.costs, live)

    def sweep(self) -> None:
        """Deletes what the last manifest does not list: leftovers of attempts that failed or were killed. What is found before the fence is
        not of another run."""
        obsolete = leftovers(self.storage, self.manifest)
        results = self.publisher.leftovers(self.manifest, self.generation.setup.streams_by_name)
        self._fence()
        self.storage.delete(obsolete)
        for storage, paths in results:
            storage.delete(paths)
