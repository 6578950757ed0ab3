"""A generation: the batches under one set-up and one plan.

Invariant: generations are numbered in order; each begins with a batch and is recorded before that batch is. Of two that begin with the same
batch the later one counts: a batch that failed was decided again under another program.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

from clash.codec import Codec
from clash.coordinator.control.job import ProgramRecord
from clash.coordinator.control.setup import LiveQuery, Setup
from clash.coordinator.lifecycle.store_bootstrap import Bootstrap, RetainedState, choose_bootstraps
from clash.coordinator.lifecycle.store_history import StoreHistory
from clash.model.layout import Layout
from clash.plan.codecs import SHARED
from clash.plan.logical import LogicalPlan, StoreKey, StorePlan
from clash.plan.topology import Topology
from clash.plan.validate_plan import validate_plan
from clash.plan.validate_topology import validate_topology
from clash.plan.visibility import VisibilityBounds
from clash.protocol.containers import ContainerRecord
from clash.topology.build import build_topology
from clash.topology.stores import readers

_MAX_STATISTICS = 2_000  # of one kind in a record: more than a workload of any sensible size has, and they are copied with every generation


@dataclass(frozen=True)
class Generation:
    number: int
    batch: int
    """Its first batch."""
    arrival: int
    """The first arrival of that batch. It is later than that of the generation before, as every batch has at least one arrival number:
    arrivals alone say what began earlier, a store or a query."""
    setup: Setup
    program: ProgramRecord
    """What the program declared at its last start."""
    plan: LogicalPlan
    timed: bool
    """Whether tuples carry event times."""
    reason: str
    """Why it began."""
    stores: StoreHistory = field(default_factory=StoreHistory)
    predicted: tuple[float, float] | None = None
    """What the planner expected the plan before and this one to cost, where it compared them."""
    bootstraps: tuple[Bootstrap, ...] = ()
    """With what its new base stores begin."""

    @cached_property
    def topology(self) -> Topology:
        """As if every step may see every stored row."""
        return build_topology(self.plan)

    def visibility(
        self, containers: Iterable[ContainerRecord], filled: frozenset[str] = frozenset(), filling: frozenset[str] = frozenset()
    ) -> VisibilityBounds:
        """Which of the stored rows steps may see. `filled`, `filling`: the intermediate stores whose earlier rows were filled in, or
        are."""
        branches = [(branch.name, live) for live in self.setup.queries for branch in live.query.branches]
        added = {name: live.since for name, live in branches if live.since is not None}
        without_history = {name: live.arrival for name, live in branches if not live.history and live.arrival is not None}
        return self.stores.visibility(containers, added, without_history, self.arrival, filled, filling)


GENERATION: Codec[Generation] = Codec(Generation, SHARED, compact=True)


@dataclass(frozen=True)
class GenerationStart:
    """Where a generation begins, and why."""

    number: int
    batch: int
    arrival: int
    reason: str
    predicted: tuple[float, float] | None = None


def begin_generation(
    previous: Generation | None, start: GenerationStart, setup: Setup, program: ProgramRecord, plan: LogicalPlan, state: RetainedState
) -> Generation:
    """The generation after `previous`, over a state. Raises `PlanError` if the plan must not run."""
    plan = _over_streams(plan, setup)
    validate_plan(plan)
    topology = build_topology(plan)
    validate_topology(topology)
    new_queries = {branch.name: live.history for live in setup.queries if live.batch is None for branch in live.query.branches}
    bootstraps = () if previous is None else choose_bootstraps(previous.topology, topology, state, new_queries)
    sources = {bootstrap.store: bootstrap.source for bootstrap in bootstraps}
    history = StoreHistory() if previous is None else previous.stores
    same_rows = previous is not None and previous.timed == topology.timed
    begun = tuple(_begun(query, start, previous) for query in setup.queries)
    generation = Generation(
        number=start.number,
        batch=start.batch,
        arrival=start.arrival,
        setup=replace(setup, queries=begun),
        program=program,
        plan=plan,
        timed=topology.timed,
        reason=start.reason,
        stores=history.next(topology, start.number, start.arrival, sources, same_rows, None if previous is None else previous.topology),
        predicted=start.predicted,
        bootstraps=bootstraps,
    )
    vars(generation)["topology"] = topology  # the cached property: it is not built again
    return generation


def _begun(live: LiveQuery, start: GenerationStart, previous: Generation | None) -> LiveQuery:
    """The query with the batch that it begins with, or since which it has its windows."""
    if live.batch is None or previous is None:
        return replace(live, batch=start.batch, arrival=start.arrival, changed_batch=None, changed_arrival=None)
    before = previous.setup.query(live.name)
    if before.query.windows == live.query.windows:
        return replace(live, changed_batch=before.changed_batch, changed_arrival=before.changed_arrival)
    return replace(live, changed_batch=start.batch, changed_arrival=start.arrival)


def _over_streams(plan: LogicalPlan, setup: Setup) -> LogicalPlan:
    """The plan over the streams of now, which may have been added or changed since it was made. A stream that is retained for queries to
    come has a store that no query reads yet; one that no longer is has none."""
    statistics = plan.request.statistics
    request = replace(plan.request, streams=setup.read_streams)
    retained = {stream.name for stream in setup.streams if stream.keep == "all"}
    stores = [s for s in plan.stores if s.key.join is not None or s.key.stream in retained or readers(s.key, plan.queries)]
    stored = {store.key.stream for store in stores}
    names = [stream.name for stream in setup.streams if stream.name in retained - stored]
    extra = tuple(StorePlan(StoreKey(name, None), (Layout("hash"),), statistics.rate(name), 0.0) for name in names)
    return replace(plan, request=request, stores=(*stores, *extra))


def to_record(generation: Generation) -> Generation:
    """The generation with a bounded number of statistics, as it is recorded."""
    statistics = generation.plan.request.statistics
    bounded = replace(
        statistics,
        rates=dict(islice(statistics.rates.items(), _MAX_STATISTICS)),
        selectivities=dict(islice(statistics.selectivities.items(), _MAX_STATISTICS)),
        sizes=dict(islice(statistics.sizes.items(), _MAX_STATISTICS)),
    )
    return replace(generation, plan=replace(generation.plan, request=replace(generation.plan.request, statistics=bounded)))
