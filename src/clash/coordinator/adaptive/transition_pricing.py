"""What it costs to change from one plan to another, once, under the cost model of the plans.

A new plan does not begin as it is priced. A new intermediate result lacks the rows that were completed before it: for combinations of older
rows its parts are probed one after the other, until they have left the windows. Where nothing leaves, it is backfilled. Rows that are
stored under another layout are read where they are, or are rewritten.

The steps are those that will run: the topology of the new plan, as of its first batch. As in the cost of a plan, the windows of all streams
count as one window, whatever their lengths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from clash.model.statistics import Statistics
from clash.plan.logical import LogicalPlan, StoreKey
from clash.plan.store_names import store_id
from clash.plan.topology import Edge, ProbeRule, Store, Topology
from clash.plan.visibility import VisibilityBounds
from clash.planner.cardinalities import Sizes
from clash.planner.cost_model import CostModel
from clash.topology.build import build_topology

LOOKUP = 0.04  # of a container of an older layout: 60 ns, where a tuple that is sent takes 1.5 µs
_INTRODUCED = 1  # the first arrival of the new plan; all stored rows came before


class TransitionCost(NamedTuple):
    """In units of the cost model; paid once."""

    probes: float = 0.0
    """Older rows: probes of the parts of new intermediate results, and lookups in stores of older layouts."""
    rounds: float = 0.0
    """Further shuffles that these probes need, for a window."""
    rewriting: float = 0.0
    """Stored rows that never expire, written under their new layout."""
    backfill: float = 0.0
    """New intermediate results of rows that never expire."""

    @property
    def total(self) -> float:
        return sum(self)


def transition_cost(running: LogicalPlan, new: LogicalPlan, statistics: Statistics) -> TransitionCost:
    """The price of the change, under statistics in their normal form. Nothing for what both plans have."""
    plain = build_topology(new)
    before = {store.key: set(store.layouts) for store in running.stores}
    introduced = [store.key for store in new.stores if store.key.join is not None and store.key not in before]
    moved = [plain.store[store_id(s.key)] for s in new.stores if s.key in before and before[s.key] != set(s.layouts)]
    unfilled = {key for key in introduced if not any(_expires(plain, part) for part in _parts(key))}
    model = CostModel(new.request.cost, new.workers, new.request.layouts)
    prices = _Prices(model, Sizes(statistics, dict(new.streams)), statistics, plain.tables)
    # While a store is backfilled its parts are probed, too, but that soon ends: only the backfill counts.
    probing = _first_topology(new, plain, [key for key in introduced if key not in unfilled])
    filling = _first_topology(new, plain, [*unfilled], is_filling=True)
    return TransitionCost(
        probes=prices.over_parts(probing) + prices.lookups(plain, {store.id for store in moved if store.horizon is not None}),
        rounds=model.round_cost * max(0, probing.rounds - plain.rounds),
        rewriting=sum(prices.inserts(store) for store in moved if store.horizon is None),
        backfill=prices.backfill(filling),
    )


def _first_topology(plan: LogicalPlan, plain: Topology, introduced: list[StoreKey], is_filling: bool = False) -> Topology:
    """The topology of the plan's first batch, if these of its intermediate results are new."""
    if not introduced:
        return plain
    ids = [store_id(key) for key in introduced]
    oldest = {store.id: 0 for store in plain.stores if store.join is None and store.stream not in plain.tables}
    filling = frozenset(ids if is_filling else ())
    return build_topology(plan, VisibilityBounds(introduced=dict.fromkeys(ids, _INTRODUCED), filling=filling, oldest=oldest))


def _parts(key: StoreKey) -> list[StoreKey]:
    return [] if key.join is None else [StoreKey(relation.stream, None, key.owner) for relation in sorted(key.join.relations)]


def _expires(topology: Topology, key: StoreKey) -> bool:
    return topology.store[store_id(key)].horizon is not None


@dataclass(frozen=True)
class _Prices:
    model: CostModel
    sizes: Sizes
    statistics: Statistics
    tables: frozenset[str]

    def over_parts(self, topology: Topology) -> float:
        """The steps that only combinations of older rows take, over a window in which these become fewer.

        At a share u of the window, 1 − u of the rows of a part are older ones. A step after k such parts therefore gets (1 − u)ᵏ of the
        rows that it would get of all, on average 1 / (k + 1).
        """
        older_parts: dict[str, int] = {}
        total = 0.0
        for edge in topology.edges:  # parents come first
            rule = topology.rule[edge.store, edge.label]
            before = older_parts.get(edge.source.name, 0)
            is_over_parts = isinstance(rule, ProbeRule) and rule.before is not None
            older_parts[edge.label] = before + is_over_parts
            if is_over_parts:
                total += self._step(edge) / (before + 1)
        return total

    def backfill(self, topology: Topology) -> float:
        """All stored tuples once more through the steps that fill the stores, and the rows that these then get."""
        filled = {origin.label: topology.store[origin.backfills] for origin in topology.origins if origin.backfills is not None}
        labels = set(filled)
        total = sum(self.inserts(store) for store in {store.id: store for store in filled.values()}.values())
        for edge in topology.edges:
            if edge.source.kind != "stream" and edge.source.name in labels:
                labels.add(edge.label)
                if isinstance(topology.rule[edge.store, edge.label], ProbeRule):
                    total += self._step(edge)
        return total

    def lookups(self, topology: Topology, stores: set[str]) -> float:
        """For a window, every probe of these stores also looks into a container of the older layout."""
        probes = [edge for edge in topology.edges if edge.store in stores and edge.carries is not None]
        probes = [edge for edge in probes if isinstance(topology.rule[edge.store, edge.label], ProbeRule)]
        places = self.model.workers
        return sum(self._rows(edge) * (places if edge.address.kind == "all" else 1) * LOOKUP for edge in probes) if self.model.full else 0.0

    def inserts(self, store: Store) -> float:
        """All rows of the store, sent and inserted; nothing under a cost model in which stores are free."""
        rows = self.sizes.rows(store.join) if store.join is not None else self.statistics.rate(store.stream or "")
        weights = self.model.weights
        return rows * (weights.send + weights.insert) * len(store.layouts) if self.model.full else 0.0

    def _step(self, edge: Edge) -> float:
        return self.model.step(edge.layout, self._rows(edge), edge.address.kind != "all", edge.stays)

    def _rows(self, edge: Edge) -> float:
        """What travels on the edge: of each result the share of one origin, as in a plan."""
        if edge.carries is None:
            return 0.0
        origins = [relation for relation in edge.carries.relations if relation.stream not in self.tables]
        return self.sizes.rows(edge.carries) / max(1, len(origins))
