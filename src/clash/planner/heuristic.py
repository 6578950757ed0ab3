"""The heuristic: ruin and recreate over shared plans.

Moves take some related queries out and put them back, where everything that the others paid for is free; moves that force another
layout on a store are the outer search, orders by dynamic programming the inner one. The number of moves is fixed, so the
answer is the same every time unless the clock cuts it off.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

from clash.planner.graph import Graph
from clash.planner.lattice import Target
from clash.planner.insertion import Router
from clash.planner.solution import Solution


class Search(Router):
    def __init__(self, graph: Graph, targets: list[Target], seed: int = 0) -> None:
        """What the moves choose from: queries by stream, stores with a choice of layouts, sub-joins of several queries."""
        super().__init__(graph, targets, seed)
        subs = graph.lattice.subs
        common: dict[int, list[Target]] = {}
        self._by_stream: dict[str, list[Target]] = {}
        self._streams: dict[int, list[str]] = {}
        for target in targets:
            for level in self._levels[target.sub]:
                if level.size > 1 and level.sub != target.sub:
                    common.setdefault(level.sub, []).append(target)
            self._streams[target.sub] = sorted({r.stream for r in subs[target.sub].relations})
            for stream in self._streams[target.sub]:
                self._by_stream.setdefault(stream, []).append(target)
        self._choices: list[tuple[int, list[Target]]] = []
        if graph.model.layouts == "one":
            open_ = [at for at in self._base_stores if len(graph.stores[at].layouts) > 1]
            self._choices = [(at, self._by_stream[str(graph.stores[at].stream)]) for at in open_]
        self._common: list[tuple[Target, list[Target]]] = []
        for at, group in common.items():
            if len(group) > 1 and graph.has_store(at) and at not in self._goals:  # a query inside others has goals of its own
                pin = Target(at, [at], [], True)
                self._levels[at] = [self._level(part, pin) for part in graph.parts(pin)]
                self._goals[at] = graph.feeders(at)
                self._common.append((pin, group))

    def construct(self, targets: list[Target], noise: float = 0.0) -> None:
        self._reset()
        for target in targets:
            self.recreate(target, noise)
        self.rewire()

    def _alone(self) -> None:
        """Every query's own best plan, equal parts run once; the first query to use a store decides on its layout."""
        plans: dict[int, int] = {}
        layouts: dict[int, int] = {}
        for target in self.targets:
            self._reset()
            self.layout.update(layouts)
            self.recreate(target)
            layouts.update(self.layout)
            plans.update({node: at for node, at in self.into.items() if node not in plans})
        self.adopt(plans)
        self.rewire()

    def unshared(self) -> Solution:
        """What `_alone` makes of the queries; `run` is never worse."""
        self._alone()
        return self.solution()

    def run(self, moves: int, deadline: float, start: Mapping[int, int] | None = None) -> Solution:
        """Some constructions, then `moves` moves, each kept if it is better or, early on, not much worse."""
        rng, targets = self.random, list(self.targets)
        self.construct(targets)
        best = now = self.cost()
        kept = held = self._save()
        for _ in range(4 if len(targets) > 1 and moves else 0):
            if time.perf_counter() > deadline:
                break
            rng.shuffle(targets)
            self.construct(targets, 0.02)
            if self.cost() < best:
                best = now = self.cost()
                kept = held = self._save()
        others: list[Callable[[], None]] = []
        if start:
            others.append(lambda: self.adopt(start))
        if len(targets) > 1:
            others.append(self._alone)  # sharing must pay: never worse than queries that nobody planned together
        for other in others:
            other()
            self.rewire()
            if self.cost() < best:
                best = now = self.cost()
                kept = held = self._save()
        self._restore(held)
        heat = 0.003 * best
        prices = [share * self.graph.model.round_cost for share in (0.0, 0.05, 0.3, 1.0)]
        for move in range(moves):
            self.hop_price = prices[move % 4]
            if time.perf_counter() > deadline:
                break
            self._move(targets)
            self.rewire()
            found = self.cost()
            warm = heat * (1 - move / moves) ** 2 + 1e-12
            if found < now + 1e-9 or rng.random() < math.exp(-(found - now) / warm):
                now, held = found, self._save()
                if found < best - 1e-9:
                    best, kept = found, held
            else:
                self._restore(held)
        self._restore(kept)
        return self.solution()

    def _move(self, targets: list[Target]) -> None:
        """Take some related queries out and put them back: around a store that gets another layout, around a sub-join that
        several queries could share (it is put in first, so that they find it paid for), or simply neighbours."""
        rng = self.random
        noise = 0.1 * rng.random() if rng.random() < 0.7 else 0.0
        kind = rng.random()
        forced: tuple[int, int] | None = None
        pin: Target | None = None
        if kind < 0.35 and self._choices:
            store, group = rng.choice(self._choices)
            others = [i for i in range(len(self.graph.stores[store].layouts)) if i != self.layout.get(store)]
            forced = (store, rng.choice(others))
            if len(group) > 40:  # a layout changes only once every query that uses the store is out: too many
                forced, group = None, rng.sample(group, 6)
        elif kind < 0.65 and self._common:
            pin, group = rng.choice(self._common)
            group = group if len(group) <= 6 else rng.sample(group, 6)
        else:
            group = self._neighbours(targets, rng.choice((1, 2, 2, 3, 3, 4, 6)))
        group = list(group)
        for target in group:
            self.remove(target)
        rng.shuffle(group)
        if forced is not None:
            if forced[0] in self.users:
                forced = None  # queries that stayed still use it as it is
            else:
                self.layout[forced[0]] = forced[1]
        if pin is not None:
            self.recreate(pin, noise)
        for target in group:
            self.recreate(target, noise)
        if pin is not None:
            self.remove(pin)
        if forced is not None and forced[0] not in self.users:
            self.layout.pop(forced[0], None)

    def _neighbours(self, targets: list[Target], count: int) -> list[Target]:
        rng, count = self.random, min(count, len(targets))
        group = [rng.choice(targets)]
        for _ in range(4 * count):
            if len(group) >= count:
                break
            near = self._by_stream[rng.choice(self._streams[rng.choice(group).sub])]
            other = rng.choice(near)
            if other not in group:
                group.append(other)
        return group
