"""What frequent keys do to a plan: which worker has most of the work, and which layouts spread it.

The workers of a batch wait for the one that has most to do, so what costs is its work, times the number of workers. Hashing puts all rows
of a key on one worker, and where a key is frequent on both sides of a join, most matches are found there. A layout with hot keys spreads
their rows; in return, each tuple that looks for them goes to every worker.

Without frequent keys in the statistics nothing here changes a cost, and there are no layouts with hot keys. Matches are counted only in
steps whose key has some: elsewhere they are spread evenly under every layout that partitions, and cost the same in all plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from clash.model.layout import ONE, Layout, slot_of
from clash.model.relation import Attribute
from clash.model.statistics import Statistics, column_text
from clash.plan.logical import LogicalPlan
from clash.planner.lattice import Sub
from clash.planner.placements import EVERY_WORKER, Placement, hashed_attribute, linked_attributes

MIN_LOAD = 1.2  # times the mean: with less on the busiest worker, no layout with hot keys is considered
HOT_SHARES = (1 / 8, 1 / 32)  # of what a worker has in the mean: keys with more are hot, in one candidate layout each
MAX_HOT = 16  # keys of a layout

Shares = Mapping[int, float]
"""By hash of a key, the share that it has."""
Ends = tuple[Attribute, Attribute]
"""What a step compares: an attribute of the probing tuples, and one of the stored rows."""


class StepWork(NamedTuple):
    """What frequent keys change of a step."""

    copies: float
    """The number of workers that a tuple is sent to, in the mean, if its key is known."""
    waiting: float
    """The probes and matches that would be done while workers wait for the busiest one."""


_EVEN = StepWork(1.0, 0.0)


@dataclass(frozen=True)
class Skew:
    """Under one set of statistics."""

    statistics: Statistics
    workers: int
    running: tuple[tuple[str, Layout], ...] = ()
    """Layouts with hot keys that are considered anyway, by stream."""
    _links: dict[tuple[int, int, int, Attribute | None], Ends | None] = field(default_factory=dict, compare=False)
    _matchings: dict[Ends, Shares] = field(default_factory=dict, compare=False)

    def hot_layouts(self, stream: str, layouts: Sequence[Layout]) -> list[Layout]:
        """The layouts with hot keys that a store of the stream may have beside these."""
        found = [layout for name, layout in self.running if name == stream and layout._replace(hot=()) in layouts]
        for layout in layouts:
            if layout.column is not None and self.store_load(stream, layout) >= MIN_LOAD:
                shares = self._of(stream, layout.column)
                ranked = sorted(shares, key=lambda key: (-shares[key], key))[:MAX_HOT]
                for limit in HOT_SHARES:
                    found.append(layout._replace(hot=tuple(sorted(key for key in ranked if shares[key] >= limit / self.workers))))
        return [layout for layout in dict.fromkeys(found) if layout.hot]

    def store_load(self, stream: str, layout: Layout) -> float:
        """The rows of the worker that stores most of them, in multiples of the mean."""
        if layout.kind != "hash" or layout.column is None:
            return 1.0
        shares = self._of(stream, layout.column)
        return self._load(shares, layout.hot) if shares else 1.0

    def step(self, layout: Layout, key: Attribute | None, placement: Placement, before: Sub, probed: Sub, after: Sub) -> StepWork:
        """`key`: the attribute that the layout hashes, if the tuples determine it; None otherwise."""
        ends = self._ends(before, probed, after, key) if self.workers > 1 and self.statistics.frequent else None
        if ends is None:
            return _EVEN
        probing, stored = (self._of(end.relation.stream, end.column) for end in ends)
        if not probing and not stored:
            return _EVEN
        if ends not in self._matchings:
            self._matchings[ends] = self._matching(probing, stored, ends)
        matching = self._matchings[ends]
        hot = layout.hot if key is not None else ()
        spread = sum(probing.get(one, 0.0) for one in hot)
        copies = 1.0 + spread * (self.workers - 1)
        probes, matches = (0.0 if placement == EVERY_WORKER else before.sends), after.sends
        if layout == ONE:
            return StepWork(1.0, matches * (self.workers - 1))
        if layout.kind == "all":
            return StepWork(1.0, self._waiting_at(placement, ends, probes, matches, probing, matching))
        if key is None:
            attribute = hashed_attribute(layout, probed)
            load = self.store_load(attribute.relation.stream, layout) if attribute is not None and probed.size == 1 else 1.0
            return StepWork(1.0, matches * (load - 1.0))
        return StepWork(copies, self._waiting(probing, matching, hot, probes, matches))

    def _ends(self, before: Sub, probed: Sub, after: Sub, key: Attribute | None) -> Ends | None:
        step = before.id, probed.id, after.id, key
        if step not in self._links:
            self._links[step] = linked_attributes(before, probed, after, key)
        return self._links[step]

    def _of(self, stream: str, column: str) -> Shares:
        return self.statistics.frequent.get(column_text(stream, column), {})

    def _matching(self, probing: Shares, stored: Shares, ends: Sequence[Attribute]) -> Shares:
        """The share that each frequent key has in the matches. A key that is frequent on one side alone has the mean number of partners."""
        selectivity = self.statistics.equality(*(column_text(end.relation.stream, end.column) for end in ends))
        if selectivity <= 0:
            return {}
        found = {
            key: min(1.0, probing.get(key, min(selectivity, 1.0)) * stored.get(key, min(selectivity, 1.0)) / selectivity)
            for key in {*probing, *stored}
        }
        total = sum(found.values())
        return {key: share / max(total, 1.0) for key, share in found.items()}

    def _waiting_at(
        self, placement: Placement, ends: Sequence[Attribute], probes: float, matches: float, probing: Shares, matching: Shares
    ) -> float:
        """Where tuples probe a replicated store on the worker where they are: even, unless the key of this step put them there."""
        return self._waiting(probing, matching, (), probes, matches) if placement in ends else 0.0

    def _waiting(self, probing: Shares, matching: Shares, hot: Iterable[int], probes: float, matches: float) -> float:
        """The work of the busiest worker, times the number of workers, less all work: of tuples that go where their key is, with those of
        hot keys everywhere."""
        spread = frozenset(hot)
        cold_probes = 1.0 - sum(probing.get(key, 0.0) for key in spread)
        loads = self._by_worker({key: share for key, share in probing.items() if key not in spread}, cold_probes)
        cold_matches = 1.0 - sum(matching.get(key, 0.0) for key in spread)
        found = self._by_worker({key: share for key, share in matching.items() if key not in spread}, cold_matches)
        busiest = max(probes * load + matches * match for load, match in zip(loads, found, strict=True))
        return max(0.0, self.workers * busiest - probes * cold_probes - matches * cold_matches)

    def _load(self, shares: Shares, hot: Iterable[int]) -> float:
        spread = frozenset(hot)
        cold = 1.0 - sum(shares.get(key, 0.0) for key in spread)
        by_worker = self._by_worker({key: share for key, share in shares.items() if key not in spread}, cold)
        return max(1.0, self.workers * (max(by_worker) + (1.0 - cold) / self.workers))

    def _by_worker(self, shares: Shares, total: float) -> list[float]:
        """`total`, of which each key's share is on its worker and the rest is spread evenly."""
        loads = [max(0.0, total - sum(shares.values())) / self.workers] * self.workers
        for key, share in shares.items():
            loads[slot_of(key, self.workers)] += share
        return loads


def hot_layouts(plan: LogicalPlan) -> tuple[tuple[str, Layout], ...]:
    """The layouts with hot keys of a plan, by stream."""
    stores = [store for store in plan.stores if store.key.stream is not None]
    return tuple((str(store.key.stream), layout) for store in stores for layout in store.layouts if layout.hot)
