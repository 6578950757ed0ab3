"""How a coordinator begins: with a new checkpoint, or with what it finds in one.

Invariant: `recover` reads and checks everything and changes nothing, so a start that is refused leaves the disk as it was; `establish`
writes and deletes when the start is certain. A batch that was decided and not committed runs again under its decision, unless the program
has changed: it may have failed for what the program has changed, nothing of it is visible, and it is decided once more. The decision on
disk counts until the new one is written.
"""

from __future__ import annotations

from dataclasses import dataclass

from clash.coordinator.active_generation import ActiveGeneration
from clash.coordinator.batch_state import BatchProgress, BatchState
from clash.coordinator.checkpoint.batch_decision import BatchDecision, read_decision
from clash.coordinator.checkpoint.format_6 import FORMAT_6, Format6View, upgrade
from clash.coordinator.checkpoint.generation import Generation, GenerationStart, begin_generation
from clash.coordinator.checkpoint.generation_log import GenerationLog
from clash.coordinator.checkpoint.manifest import Manifest, read_last_manifest
from clash.coordinator.checkpoint.plan_files import PlanFiles
from clash.coordinator.checkpoint.source_registry import FORMAT, SourceRegistry, format_of, is_new
from clash.coordinator.control.changes import RunningSetup
from clash.coordinator.control.folder_owner import ResultFolders
from clash.coordinator.control.job import JobSpec, initial_source_order
from clash.coordinator.control.restart import setup_after_restart
from clash.coordinator.control.result_folders import refuse_mixed_columns
from clash.coordinator.control.setup import LiveQuery, Setup
from clash.coordinator.lifecycle.backfill import filled_stores
from clash.coordinator.verification import verify_files
from clash.errors import OptionError
from clash.model.statistics import Statistics
from clash.plan.logical import LogicalPlan
from clash.state.storage import Storage, open_storage


@dataclass(frozen=True)
class Recovered:
    """What a coordinator begins with."""

    storage: Storage
    log: GenerationLog
    plan_files: PlanFiles
    sources: SourceRegistry
    manifest: Manifest
    active: ActiveGeneration
    setup: Setup
    """The set-up that the program requests."""
    committed: tuple[LiveQuery, ...]
    """The queries of the last committed batch."""
    decision: BatchDecision | None
    """Of a batch that was decided and not committed, and that runs again under it."""
    superseded: BatchDecision | None
    """Of a batch that was decided and not committed, and that is decided again because the program has changed."""
    newest_generation: int
    """The newest generation on disk that counts."""
    first: Generation | None
    """The first generation of a new checkpoint, which is not written yet."""
    is_format_6: bool
    is_older_format: bool
    """Its record is written again, with today's format."""

    @property
    def running(self) -> RunningSetup:
        return RunningSetup(self.active.generation.setup, self.active.generation.plan)

    @property
    def queries(self) -> tuple[LiveQuery, ...]:
        """The queries whose results the next batches may publish: those of the last one, and of the one that begins."""
        return *self.committed, *self.active.generation.setup.queries

    @property
    def progress(self) -> BatchProgress:
        last = self.manifest.batch
        if self.decision is not None:
            return BatchProgress(BatchState.DECIDED, last + 1)
        return BatchProgress(BatchState.IDLE if last < 0 else BatchState.COMMITTED, last)


def recover(uri: str, job: JobSpec, timezone: str, plan: LogicalPlan | None = None, statistics: Statistics | None = None) -> Recovered:
    """Reads and checks, and changes nothing. `plan`: overrides the first plan of a new checkpoint; `statistics`: those to make one with."""
    storage = open_storage(uri)
    new = is_new(storage)
    recorded = FORMAT if new else format_of(storage)
    is_format_6 = recorded == FORMAT_6
    if is_format_6:
        storage = Format6View(storage)
    log = GenerationLog(storage)
    manifest = read_last_manifest(storage)
    next_batch = manifest.batch + 1
    log.check(manifest.generation)
    decided = read_decision(storage, next_batch)
    verify_files(storage, manifest, log, decided, new)
    first = _first_generation(storage, job, plan, statistics) if new else None
    if first is not None:
        log.hold(first)
    sources = SourceRegistry(storage, timezone, initial_source_order(job.streams, job.statistics))
    newest = manifest.generation if decided is None else decided.generation
    last = log.read(newest)
    setup = setup_after_restart(last.setup, last.program, job, uri, log.read(manifest.generation).setup)
    is_superseded = decided is not None and setup != last.setup
    if is_superseded:
        setup = setup.before_batch(next_batch)
    plan_files = PlanFiles(storage)
    active = ActiveGeneration(storage, timezone, log, manifest.generation if is_superseded else newest, plan_files)
    if decided is not None and not is_superseded:
        active.load_plan(decided.plan_path)
    return Recovered(
        storage=storage,
        log=log,
        plan_files=plan_files,
        sources=sources,
        manifest=manifest,
        active=active,
        setup=setup,
        committed=log.read(manifest.generation).setup.queries,
        decision=None if is_superseded else decided,
        superseded=decided if is_superseded else None,
        newest_generation=newest,
        first=first,
        is_format_6=is_format_6,
        is_older_format=recorded != FORMAT,
    )


def establish(recovered: Recovered, folders: ResultFolders) -> str:
    """Makes the checkpoint the one of this run, when the start is certain. Returns the path of the physical plan to begin with."""
    storage, log, manifest, active = recovered.storage, recovered.log, recovered.manifest, recovered.active
    if recovered.first is not None:
        log.write(recovered.first)  # before the checkpoint's record: a job without a plan could not go on
    if recovered.is_format_6:
        upgrade(open_storage(storage.uri))
    if recovered.first is not None or recovered.is_format_6:
        recovered.sources.write(FORMAT_6 if recovered.is_format_6 else FORMAT)
    storage.delete(log.files_after(recovered.newest_generation))
    folders.claim_at_start(recovered.queries)
    if recovered.is_older_format:
        recovered.sources.write()  # after the folders are marked: in this format a folder without a marker is of others
    if recovered.decision is not None:
        return recovered.decision.plan_path
    filled = filled_stores(active.generation.stores.introduced, manifest.backfilled)
    return active.write_plan(active.generation.visibility(manifest.containers, filled))


def _first_generation(storage: Storage, job: JobSpec, plan: LogicalPlan | None, statistics: Statistics | None) -> Generation:
    if not job.queries:  # most likely forgotten; a later start may list none, and continue with those of calls, or with none
        raise OptionError("there is no query to run", storage.uri, 'call engine.query("q1", "SELECT …") before engine.start()')
    setup = Setup.of(job)
    refuse_mixed_columns(setup)
    first = plan or setup.optimize(statistics or job.statistics)  # the heuristic: a start never waits for the solver
    return begin_generation(None, GenerationStart(0, 0, 0, "start"), setup, job.record(), first, Manifest().retained)
