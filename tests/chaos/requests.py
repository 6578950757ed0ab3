"""What the program of a history requests: sinks, and the changes of a batch right before that batch is decided."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from clash.coordinator.checkpoint.batch_decision import decision_path
from clash.coordinator.control.job import SinkSpec
from clash.coordinator.control.setup import Setup
from clash.coordinator.coordinator import Coordinator
from clash.plan.logical import LogicalPlan
from clash.protocol.batch import BatchSpec, Tuning

from ..oracle.case import Ask, Case
from ..oracle.starts import plan_for, plan_of
from .folders import RESULTS


def sink_folder(base: Path, query: str) -> Path | None:
    """Half of the queries write to a folder of the user's, the others under the checkpoint."""
    return base / RESULTS / query if sum(query.encode()) % 2 else None


def sink_spec(base: Path, query: str) -> SinkSpec:
    folder = sink_folder(base, query)
    return SinkSpec() if folder is None else SinkSpec("parquet", str(folder))


class RequestingCoordinator(Coordinator):
    """`request` is called before a batch is decided, as late as a user can request something; a batch that is on record has been requested
    already. Every batch has the random plan that the case names."""

    def __init__(self, case: Case, request: Callable[[Coordinator, int], None], *arguments: Any, **options: Any) -> None:
        self._case, self._make_requests = case, request
        plan = None if case.setting.plan_seed is None else plan_of(case)
        super().__init__(*arguments, plan=plan, tuning=Tuning(**dict(case.setting.options)), **options)
        self.plan_override = self._random_plan

    def begin(self, batch: int, *arguments: Any, **options: Any) -> BatchSpec | None:
        if batch == self.last + 1 and not self.storage.exists(decision_path(batch)):
            self._make_requests(self, batch)
        return super().begin(batch, *arguments, **options)

    def _random_plan(self, setup: Setup, batch: int) -> LogicalPlan | None:
        seed = self._case.batches[batch].plan_seed if batch < len(self._case.batches) else None
        if seed is None or not setup.queries:
            return None
        asks = {query.name: Ask(query.name, query.request.text, query.request.windows) for query in setup.queries}
        return plan_for(self._case, asks, setup.streams, setup.workers, seed, 0.0)
