"""A generation: the batches under one set-up and one plan, and since when each part of its state has been what it is.

Invariant: generations are numbered in order; each starts with a batch and is recorded before that batch is. Of two that start with the same
batch the later one counts: a batch that failed was begun again under another program. An intermediate store keeps
its beginning as long as every generation has it: one that was dropped and comes back is a new one. A column counts as kept since it was
last missing, a layout since it was last another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from clash.coordinator.lifecycle.store_bootstrap import Adoption, choose_donors
from clash.coordinator.checkpoint.manifest import Manifest
from clash.coordinator.checkpoint.plan_record import plan_from_json, plan_to_json
from clash.coordinator.control.setup import Setup
from clash.protocol.batch import ContainerRecord, Laid
from clash.model.layout import Layout
from clash.planner.orders import StoreKey, StorePlan
from clash.planner.plan import Plan
from clash.topology import Topology
from clash.plan.visibility import Past

FOLDER = "generations"
BEGINNING = Manifest()


class Begun(NamedTuple):
    """The generation that introduced an intermediate store, and its first arrival."""

    generation: int
    arrival: int


@dataclass(frozen=True)
class Generation:
    """`arrival`: of the first tuple under it. `program`: what the program asked for at its last start. `timed`: do tuples carry event
    times? `predicted`: what the planner expected the plan before and this one to cost, where it compared them. `adopted`: with what its new
    base stores begin."""

    number: int
    batch: int
    arrival: int
    setup: Setup
    program: Mapping[str, Any]
    plan: Plan
    timed: bool
    introduced: Mapping[str, Begun]
    columns: Mapping[str, Mapping[str, int]]
    laid: Mapping[str, Laid]
    reason: str
    predicted: tuple[float, float] | None = None
    adopted: tuple[Adoption, ...] = ()

    def past(
        self, containers: Iterable[ContainerRecord], filled: frozenset[str] = frozenset(), filling: frozenset[str] = frozenset()
    ) -> Past:
        """What the live containers lack. Only how it compares with the bounds is told of their age, so that the past, and with it the
        topology, stays the same from batch to batch."""
        oldest = oldest_arrivals(containers)
        least = min(oldest.values(), default=self.arrival)
        introduced = {store: begun.arrival for store, begun in self.introduced.items() if begun.arrival > least}
        added = {query.name: query.arrival for query in self.setup.queries if query.arrival is not None and query.arrival > least}
        columns = {
            store: late for store, all_ in self.columns.items() if (late := {name: since for name, since in all_.items() if since > least})
        }
        bounds = {*introduced.values(), *added.values(), *(since for late in columns.values() for since in late.values())}
        if not bounds:
            return Past()
        ages = {store: max((bound for bound in bounds if bound <= first), default=0) for store, first in oldest.items()}
        fresh = frozenset(query.name for query in self.setup.queries if not query.history and query.name in added)
        return Past(introduced, filled & introduced.keys(), filling, added, fresh, columns, ages)

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "batch": self.batch,
            "arrival": self.arrival,
            "setup": self.setup.to_json(),
            "program": dict(self.program),
            "plan": plan_to_json(self.plan),
            "timed": self.timed,
            "introduced": {store: [*begun] for store, begun in self.introduced.items()},
            "columns": {store: dict(columns) for store, columns in self.columns.items()},
            "laid": {store: laid.to_json() for store, laid in self.laid.items()},
            "reason": self.reason,
            "predicted": None if self.predicted is None else [*self.predicted],
            "adopted": [[*adoption] for adoption in self.adopted],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Generation:
        setup = Setup.from_json(data["setup"])
        predicted = data["predicted"]
        read = {
            "setup": setup,
            "plan": plan_from_json(data["plan"], setup.by_name),
            "introduced": {store: Begun(*begun) for store, begun in data["introduced"].items()},
            "laid": {store: Laid.from_json(laid) for store, laid in data["laid"].items()},
            "predicted": None if predicted is None else (predicted[0], predicted[1]),
            "adopted": tuple(Adoption(*adoption) for adoption in data["adopted"]),
        }
        return Generation(**{**data, **read})


def next_generation(
    previous: Generation | None,
    number: int,
    batch: int,
    arrival: int,
    setup: Setup,
    program: Mapping[str, Any],
    plan: Plan,
    reason: str,
    predicted: tuple[float, float] | None = None,
    known: Manifest = BEGINNING,
) -> Generation:
    """The generation that starts with `batch`, whose first arrival is `arrival`, after what is `known`; `previous`: that of the batch
    before."""
    plan = _over_streams(plan, setup)
    topology, timed = plan.topology, plan.topology.timed
    before = previous.introduced if previous is not None and previous.timed == timed else {}  # else the rows have other columns
    begun = {query.name: query.history for query in setup.queries if query.batch is None}
    adopted = () if previous is None else choose_donors(previous.plan.topology, topology, known, begun)
    sources = {adoption.store: adoption.source for adoption in adopted}
    introduced = {store.id: before.get(store.id, Begun(number, arrival)) for store in topology.stores if store.join is not None}
    laid = {}
    for store in topology.stores:
        now = Laid(number, store.layouts, plan.workers)
        old = None if previous is None else previous.laid.get(store.id)
        anew = store.id in sources or (store.id in introduced and introduced[store.id].generation == number)
        laid[store.id] = now if old is None or anew or old[1:] != now[1:] else old
    live = tuple(replace(q, batch=batch, arrival=arrival) if q.batch is None else q for q in setup.queries)
    setup = replace(setup, queries=live)
    columns = _columns(previous, arrival, topology, sources)
    return Generation(number, batch, arrival, setup, program, plan, timed, introduced, columns, laid, reason, predicted, adopted)


def _over_streams(plan: Plan, setup: Setup) -> Plan:
    """Some may have been added since it was made. One that is kept for queries to come has a store, read by nobody yet."""
    plan = replace(plan, asked=replace(plan.asked, streams=setup.by_name))
    stored = {store.key.stream for store in plan.stores}
    names = [stream.name for stream in setup.streams if stream.keep == "all" and stream.name not in stored]
    extra = tuple(StorePlan(StoreKey(name, None), (Layout("hash"),), plan.asked.statistics.rate(name), 0.0) for name in names)
    return replace(plan, stores=(*plan.stores, *extra))


def oldest_arrivals(containers: Iterable[ContainerRecord]) -> dict[str, int]:
    """Per store the smallest arrival of any row."""
    found: dict[str, int] = {}
    for record in containers:
        found[record.store] = min(record.oldest, found.get(record.store, record.oldest))
    return found


def _columns(previous: Generation | None, arrival: int, topology: Topology, sources: Mapping[str, str]) -> dict[str, dict[str, int]]:
    all_kept = {stream.name for stream in topology.streams if stream.keep == "all"}
    found = {}
    for store in topology.stores:
        if store.stream is not None and store.stream not in all_kept:
            before = {} if previous is None else previous.columns.get(sources.get(store.id, store.id), {})
            found[store.id] = {column.column: before.get(column.column, arrival) for column in store.columns}
    return found


def generation_path(number: int) -> str:
    return f"{FOLDER}/{number:06d}.json"
