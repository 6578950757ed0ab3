"""How a coordinator begins: with a new checkpoint, or with what it finds in one.

Invariant: a batch that was decided and not committed runs again under its decision, unless the program has changed: it may have failed for
what the program has changed, nothing of it is visible, and it is decided once more. The decision on disk counts until the new one is
written.
"""

from __future__ import annotations

from dataclasses import dataclass

from clash.coordinator.active_generation import ActiveGeneration
from clash.coordinator.batch_state import BatchProgress, BatchState
from clash.coordinator.checkpoint.batch_decision import BatchDecision, read_decision
from clash.coordinator.checkpoint.generation import GenerationStart, begin_generation
from clash.coordinator.checkpoint.generation_log import GenerationLog
from clash.coordinator.checkpoint.manifest import Manifest, read_last_manifest
from clash.coordinator.checkpoint.plan_files import PlanFiles
from clash.coordinator.checkpoint.source_registry import SourceRegistry, is_new
from clash.coordinator.control.changes import RunningSetup
from clash.coordinator.control.job import JobSpec, initial_source_order
from clash.coordinator.control.restart import setup_after_restart
from clash.coordinator.control.result_folders import refuse_mixed_columns
from clash.coordinator.control.setup import Setup
from clash.coordinator.lifecycle.backfill import filled_stores
from clash.coordinator.publication import ResultPublisher
from clash.errors import OptionError
from clash.plan.logical import LogicalPlan
from clash.state.container import read_container
from clash.state.storage import Storage, open_storage
from clash.workers.loaded_plan import LoadedPlan


@dataclass(frozen=True)
class Recovered:
    """What a coordinator begins with."""

    storage: Storage
    log: GenerationLog
    plan_files: PlanFiles
    sources: SourceRegistry
    publisher: ResultPublisher
    manifest: Manifest
    active: ActiveGeneration
    plan: LoadedPlan
    plan_path: str
    setup: Setup
    """The set-up that the program requests."""
    decision: BatchDecision | None
    """Of a batch that was decided and not committed, and that runs again under it."""
    superseded: BatchDecision | None
    """Of a batch that was decided and not committed, and that is decided again because the program has changed."""
    newest_generation: int
    """The newest generation on disk that counts."""

    @property
    def running(self) -> RunningSetup:
        return RunningSetup(self.active.generation.setup, self.active.generation.plan)

    @property
    def progress(self) -> BatchProgress:
        last = self.manifest.batch
        if self.decision is not None:
            return BatchProgress(BatchState.DECIDED, last + 1)
        return BatchProgress(BatchState.IDLE if last < 0 else BatchState.COMMITTED, last)


def recover(uri: str, job: JobSpec, timezone: str, plan: LogicalPlan | None) -> Recovered:
    """`plan`: overrides the first plan of a new checkpoint."""
    storage = open_storage(uri)
    log = GenerationLog(storage)
    if is_new(storage):
        _create(storage, log, job, plan)
    sources = SourceRegistry(storage, timezone, initial_source_order(job.streams, job.statistics))
    manifest = read_last_manifest(storage)
    next_batch = manifest.batch + 1
    decided = read_decision(storage, next_batch)
    newest = manifest.generation if decided is None else decided.generation
    storage.delete(log.files_after(newest))
    last = log.read(newest)
    setup = setup_after_restart(last.setup, last.program, job, uri)
    is_superseded = decided is not None and setup != last.setup
    if is_superseded:
        setup = setup.before_batch(next_batch)
    for record in manifest.containers:
        read_container(storage, record.path, verify=True)
    plan_files = PlanFiles(storage)
    active = ActiveGeneration(storage, timezone, log, manifest.generation if is_superseded else newest, plan_files)
    if decided is not None and not is_superseded:
        path = decided.plan_path
    else:
        filled = filled_stores(active.generation.stores.introduced, manifest.backfilled)
        path = active.write_plan(active.generation.visibility(manifest.containers, filled))
    committed = log.read(manifest.generation).setup.queries
    return Recovered(
        storage=storage,
        log=log,
        plan_files=plan_files,
        sources=sources,
        publisher=ResultPublisher(storage.uri, [*committed, *active.generation.setup.queries]),
        manifest=manifest,
        active=active,
        plan=active.load_plan(path),
        plan_path=path,
        setup=setup,
        decision=None if is_superseded else decided,
        superseded=decided if is_superseded else None,
        newest_generation=newest,
    )


def _create(storage: Storage, log: GenerationLog, job: JobSpec, plan: LogicalPlan | None) -> None:
    """The first generation of a new checkpoint is written before anything else: a job without a plan could not go on."""
    if not job.queries:  # most likely forgotten; a later start may list none, and continue with those of calls, or with none
        raise OptionError("there is no query to run", storage.uri, 'call engine.query("q1", "SELECT …") before engine.start()')
    setup = Setup.of(job)
    refuse_mixed_columns(setup)
    first = plan or setup.optimize(job.statistics)  # the heuristic: a start never waits for the solver
    log.write(begin_generation(None, GenerationStart(0, 0, 0, "start"), setup, job.record(), first, Manifest().retained))
