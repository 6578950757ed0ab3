"""The heuristic: ruin and recreate over shared plans.

A move removes some related queries and inserts them again, where everything that the others pay for is free. Moves that force another
layout on a store form the outer search; orders by dynamic programming form the inner one. The number of moves is fixed, so the answer is
deterministic unless the deadline ends the search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from clash.planner.deadline import NEVER, Deadline
from clash.planner.graph import Graph
from clash.planner.guidance import Guide
from clash.planner.insertion import Prices, QueryInserter
from clash.planner.lattice import Target
from clash.planner.solution import Solution

MAX_QUERIES_PER_MOVE = 6  # except where a store changes its layout: then all queries that use it
MAX_QUERIES_PER_LAYOUT_MOVE = 40
RESTARTS = 4  # constructions in random order, besides the first
RESTART_NOISE = 0.02
INITIAL_TEMPERATURE = 0.003  # of the cost of the first plan: about how much worse an accepted move may be
MAX_QUERIES_OF_TEMPERATURE = 30  # a larger set has the temperature of such a part of it: what a move changes does not grow with the set
MAX_JOURNAL = 500_000  # changes since the best plan, after which the search returns to it
GUIDED_SHARE = 0.3  # of the moves that insert queries at the prices of the relaxation
HULL_SHARE = 0.1  # of the moves, where queries have hulls: all of a hull's queries leave, and every other time find it there for nothing
HOP_PRICES = (0.0, 0.05, 0.3, 1.0)  # shares of the cost of a round that moves count per hop, in turn


class HeuristicSearch(QueryInserter):
    """Searches for a cheap plan for the targets."""

    def __init__(self, graph: Graph, targets: list[Target], seed: int = 0) -> None:
        super().__init__(graph, targets, seed)
        self._guided_prices: Prices | None = None
        subs = graph.lattice.subs
        targets_of_part: dict[int, list[Target]] = {}
        self._by_stream: dict[str, list[Target]] = {}
        self._streams: dict[int, list[str]] = {}
        for target in targets:
            for problem in self._subproblems[target.sub]:
                if problem.size > 1 and problem.sub != target.sub:
                    targets_of_part.setdefault(problem.sub, []).append(target)
            self._streams[target.sub] = sorted({r.stream for r in subs[target.sub].relations})
            for stream in self._streams[target.sub]:
                self._by_stream.setdefault(stream, []).append(target)
        self._layout_choices: list[tuple[int, list[Target]]] = []  # (store with a choice of layouts, the queries that use it)
        if graph.model.layouts == "one":
            choosable = [store for store in self._base_stores if len(graph.stores[store].layouts) > 1]
            self._layout_choices = [(store, self._by_stream[str(graph.stores[store].stream)]) for store in choosable]
        self._common: list[tuple[Target, list[Target]]] = []  # (sub-join as if it were a query, the queries that contain it)
        for sub, group in targets_of_part.items():
            if len(group) > 1 and graph.has_store(sub) and sub not in self._goals:  # a query inside others has goals of its own
                pin = Target.of_sub(sub)
                self._subproblems[sub] = [self._subproblem(part, pin) for part in graph.parts(pin)]
                self._goals[sub] = graph.feeders(sub)
                self._common.append((pin, group))

        self._hulls: list[tuple[Target, list[Target]]] = []  # (join as if it were a query, the queries that may take their results from it)
        for hull in graph.lattice.hulls:
            group = [target for target in targets if hull.sub in target.hulls]
            if group and hull.sub not in self._goals:
                self._goals[hull.sub] = graph.goals(hull)
                self._subproblems[hull.sub] = [self._subproblem(part, hull) for part in graph.parts(hull)]
            if group:
                self._hulls.append((hull, group))

    def run(self, moves: int, deadline: Deadline, start: Mapping[int, int] | None = None) -> Solution:
        """Some constructions, then `moves` moves from the best of them. The first construction is made whatever the deadline is.

        `start`: node → arc of a plan to begin with, if it is cheaper than what is constructed.
        """
        rng, targets = self.random, list(self.targets)
        if start:
            self.adopt(start)
            self.rewire()
        else:
            self._construct(targets, NEVER)
        best_cost, best = self.cost(), self.save()

        def again(noise: float) -> bool:
            return self._construct(targets, deadline, noise)

        others: list[Callable[[], bool]] = []
        if start:
            others.append(lambda: again(0.0))
        if len(targets) > 1 and not deadline.passed:
            # Once, so that the answer is never worse than queries planned one by one.
            others += [lambda: self._plan_separately(deadline), *([lambda: again(RESTART_NOISE)] * RESTARTS if moves else ())]
        for construct in others:
            if construct() and self.cost() < best_cost:
                best_cost, best = self.cost(), self.save()
            rng.shuffle(targets)
        self.restore(best)
        self._improve(targets, moves, deadline)
        return self.solution()

    def run_guided(self, guide: Guide, moves: int, deadline: Deadline) -> Solution:
        """A construction under the guide's layouts and prices, `moves` moves under these layouts, and then as many that may change them.

        Where the construction is not done at the deadline, the answer is the plan of the run before.
        """
        before = self.save()
        targets = list(self.targets)
        self.fixed_layouts, self._guided_prices = guide.layouts, self.priced(guide.costs)
        self.prices = self._guided_prices
        is_done = self._construct(targets, deadline)
        self.prices = self._true_prices
        if is_done:
            self.rewire()
        else:
            self.restore(before)
        self._improve(targets, moves, deadline)
        self.fixed_layouts = {}
        self._improve(targets, moves, deadline)
        self._guided_prices = None
        return self.solution()

    def _improve(self, targets: list[Target], moves: int, deadline: Deadline) -> None:
        """Moves, each accepted if it is better or, early on, not much worse (simulated annealing). It ends with the best plan."""
        rng, journal = self.random, self.journal
        journal.entries.clear()
        best_cost = current_cost = self.cost()
        best_arcs = self.cost_of_arcs
        initial_temperature = INITIAL_TEMPERATURE * best_cost * min(1.0, MAX_QUERIES_OF_TEMPERATURE / len(targets))
        prices = [share * self.graph.model.round_cost for share in HOP_PRICES]
        for move in range(moves):
            self.hop_price = prices[move % len(prices)]
            if deadline.passed:
                break
            mark, arcs = len(journal.entries), self.cost_of_arcs
            if not self._move(targets, deadline):
                break
            self.rewire()
            cost = self.cost()
            temperature = initial_temperature * (1 - move / moves) ** 2 + 1e-12
            if cost < current_cost + 1e-9 or rng.random() < math.exp(-(cost - current_cost) / temperature):
                current_cost = cost
                if cost < best_cost - 1e-9:
                    best_cost, best_arcs = cost, self.cost_of_arcs
                    journal.entries.clear()
            else:
                self.undo(mark, arcs)
            if len(journal.entries) > MAX_JOURNAL:
                self.undo(0, best_arcs)
                current_cost = best_cost
        self.undo(0, best_arcs)

    def run_separately(self) -> Solution:
        """Every query's own best plan, equal parts run once; `run` is no worse, unless the deadline ends it."""
        self._plan_separately(NEVER)
        return self.solution()

    # ---- constructions --------------------------------------------------------------------------------------
    def _construct(self, targets: list[Target], deadline: Deadline, noise: float = 0.0) -> bool:
        """A new plan: insert the queries one after the other. False where that is not done at the deadline."""
        self._reset()
        for target in targets:
            if deadline.passed:
                return False
            self.insert(target, noise)
        self.rewire()
        return True

    def _plan_separately(self, deadline: Deadline) -> bool:
        """Every query's own best plan, equal parts run once; the first query to use a store decides on its layout.

        False where that is not done at the deadline.
        """
        plans: dict[int, int] = {}
        layouts: dict[int, int] = {}
        for target in self.targets:
            if deadline.passed:
                return False
            self._reset()
            self.layout.assign(layouts)
            self.insert(target)
            layouts.update(self.layout)
            plans.update({node: at for node, at in self.into.items() if node not in plans})
        self.adopt(plans)
        self.rewire()
        return True

    # ---- moves ----------------------------------------------------------------------------------------------
    def _move(self, targets: list[Target], deadline: Deadline) -> bool:
        """Remove some related queries and insert them again. False where that is not done at the deadline: the plan then lacks queries.

        They are those around a store that gets another layout, those around a sub-join that they could share (it is inserted first, so that
        it is free for them), or simply neighbours.
        """
        rng = self.random
        noise = 0.1 * rng.random() if rng.random() < 0.7 else 0.0
        kind = rng.random()
        forced: tuple[int, int] | None = None  # (store, layout)
        pin: Target | None = None
        if self._guided_prices is not None and rng.random() < GUIDED_SHARE:
            self.prices = self._guided_prices
        if kind < 0.35 and self._layout_choices and not self.fixed_layouts:
            store, group = rng.choice(self._layout_choices)
            others = [i for i in range(len(self.graph.stores[store].layouts)) if i != self.layout.get(store)]
            forced = (store, rng.choice(others))
            if len(group) > MAX_QUERIES_PER_LAYOUT_MOVE:  # a layout can change only if all queries that use the store are removed
                forced, group = None, rng.sample(group, MAX_QUERIES_PER_MOVE)
        elif self._hulls and rng.random() < HULL_SHARE:
            hull, group = rng.choice(self._hulls)
            pin = hull if rng.random() < 0.5 else None
        elif kind < 0.65 and self._common:
            pin, group = rng.choice(self._common)
            group = group if len(group) <= MAX_QUERIES_PER_MOVE else rng.sample(group, MAX_QUERIES_PER_MOVE)
        else:
            group = self._neighbours(targets, rng.choice((1, 2, 2, 3, 3, 4, MAX_QUERIES_PER_MOVE)))
        group = list(group)
        for target in group:
            self.remove(target)
        rng.shuffle(group)
        if forced is not None:
            if forced[0] in self.users:
                forced = None  # queries that were not removed still use it under its layout
            else:
                self.layout[forced[0]] = forced[1]
        if pin is not None:
            self.insert(pin, noise)
        for target in group:
            if deadline.passed:
                self.prices = self._true_prices
                return False
            self.insert(target, noise)
        self.prices = self._true_prices
        if pin is not None:
            self.remove(pin)
        if forced is not None and forced[0] not in self.users:
            self._unset_layout(forced[0])
        return True

    def _neighbours(self, targets: list[Target], count: int) -> list[Target]:
        """A random query and others, up to `count`, that share streams with it or with each other."""
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
