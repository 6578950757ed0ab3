"""Inserts a query into a plan: dynamic programming over its part of the lattice, where everything already paid for is free.

A sub is reached from each origin on a route of its own, or from all of them over one split whose halves are both kept as MIRs, whichever is
cheaper. A store without a layout takes the one that the query's own steps vote for, each with its cost.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

from clash.planner.graph import Arc, Graph
from clash.planner.lattice import Target
from clash.planner.placements import DELIVERED
from clash.planner.plan_state import PlanState, Routes

INFINITE = math.inf


@dataclass(slots=True)
class SubProblem:
    """What the dynamic program needs to know of one sub."""

    sub: int
    size: int
    nodes: list[int]
    """Its nodes, tails before heads."""
    ends: list[int]
    """The nodes, one per relation that is no table, that must be reached to have the sub from all of them; empty where that is not
    possible."""
    store_cost: float
    """What keeping the sub as a MIR costs at least; 0 where it is a query's result."""
    splits: list[tuple[int, int, list[list[tuple[int, int, int]]]]]
    """(half, other half, variants per origin) of each split. A variant is (step over the split, arc from there to the end, end of the
    origin's own half); the arc is −1 where the step leads to the end, and the half's end is −1 where the half is the origin alone."""


class Prices:
    """What the dynamic program counts for each arc: its cost, or what a solution of the linear relaxation makes of it."""

    def __init__(self, graph: Graph, costs: list[float], demand_of: list[int]) -> None:
        self.costs = costs
        self.arcs_into = [  # per node: index, tail, cost, hop, demand and probed MIR (or −1) of every arc into it
            [(at, graph.arcs[at].tail, costs[at], graph.arcs[at].hop, demand_of[at], graph.arcs[at].mir) for at in arcs]
            for arcs in graph.into
        ]


class QueryInserter(PlanState):
    """A plan into which queries are inserted, each as cheaply as the rest of the plan allows."""

    def __init__(self, graph: Graph, targets: list[Target], seed: int) -> None:
        super().__init__(graph, targets)
        self.random = random.Random(seed)
        # What the dynamic program counts per hop. The real price depends on the rounds of the whole plan, so this is a guess.
        self.hop_price = 0.0
        self._demands: list[tuple[int, tuple[int, ...]]] = [(-1, ())]  # (store, layouts that will do); the first needs no layout at all
        demand_ids = {self._demands[0]: 0}
        self._demand_of: list[int] = []  # arc → its demand
        for arc in graph.arcs:
            key = (arc.store, arc.layouts) if arc.layouts and not self.free_copies else self._demands[0]
            if key not in demand_ids:
                demand_ids[key] = len(self._demands)
                self._demands.append(key)
            self._demand_of.append(demand_ids[key])
        self._true_prices = Prices(graph, [arc.cost for arc in graph.arcs], self._demand_of)
        self.prices = self._true_prices
        self._subproblems: dict[int, list[SubProblem]] = {}  # sub of a target → subproblems of its parts, by ascending size
        self._subproblem_cache: dict[tuple[int, bool], SubProblem] = {}
        for target in targets:
            self._subproblems[target.sub] = [self._subproblem(part, target) for part in graph.parts(target)]

    def priced(self, costs: list[float]) -> Prices:
        """Other costs of the arcs, for `prices`."""
        return Prices(self.graph, costs, self._demand_of)

    def _subproblem(self, sub: int, target: Target) -> SubProblem:
        """As a part of larger subs, a sub ends in its store; as a query, it is delivered."""
        key = (sub, sub == target.sub and sub in self._goals)
        if key not in self._subproblem_cache:
            self._subproblem_cache[key] = _make_subproblem(self.graph, sub, self._goals[sub] if key[1] else None)
        return self._subproblem_cache[key]

    # ---- inserting ------------------------------------------------------------------------------------------
    def insert(self, target: Target, noise: float = 0.0) -> None:
        """Put a query into the plan. `noise` perturbs the costs that the dynamic program compares, by up to that share.

        Where the query's own steps need different layouts of a new store, they vote, and the query is inserted again under the layout that
        wins.
        """
        before, settled = dict(self.layout), dict[int, int]()
        while True:
            self._require(self._goals[target.sub], self._find_routes(target, noise))
            if not self.settles_layouts:
                return
            undecided = self._steps_into_undecided_stores(target)
            votes: dict[int, dict[int, float]] = {}
            for arc in undecided:
                vote = votes.setdefault(arc.store, {})
                for i in arc.layouts:
                    vote[i] = vote.get(i, 0.0) + arc.cost + 1e-9
            for store, vote in votes.items():
                costs = self.graph.stores[store].costs
                settled[store] = self.layout[store] = min((costs[i] - weight, i) for i, weight in vote.items())[1]
            if all(self.layout[arc.store] in arc.layouts for arc in undecided):
                break
            self.remove(target)
            self.layout.assign({**before, **settled})  # removing the query has unset them
        for store in settled:
            if store not in self.users:
                self._unset_layout(store)

    def _steps_into_undecided_stores(self, target: Target) -> list[Arc]:
        """The plan's steps inside the target that need a certain layout of a store which has none yet."""
        into = (self.into.get(node) for problem in self._subproblems[target.sub] for node in problem.nodes)
        arcs = (self.graph.arcs[at] for at in into if at is not None)
        return [arc for arc in arcs if arc.layouts and self.single_layout[arc.store] and arc.store not in self.layout]

    def adopt(self, into: Mapping[int, int]) -> None:
        """Take over the arcs of a given plan; queries that it does not answer are inserted."""
        self._reset()
        missing = []
        for target in self.targets:
            goals = self._goals[target.sub]
            if all(goal in into for goal in goals):
                self._require(goals, Routes(dict(into), []))
            else:
                missing.append(target)
        if self.settles_layouts:
            allowed: dict[int, set[int]] = {}
            for at in self.into.values():
                arc = self.graph.arcs[at]
                if arc.layouts and self.single_layout[arc.store]:
                    allowed[arc.store] = allowed.get(arc.store, set(arc.layouts)) & set(arc.layouts)
            if not all(allowed.values()):  # the given plan needs several layouts of a store that may have only one: it cannot be used
                self._reset()
                allowed, missing = {}, list(self.targets)
            self.layout.replace({store: min(layouts) for store, layouts in allowed.items()})
        for target in missing:
            self.insert(target)

    # ---- the dynamic program --------------------------------------------------------------------------------
    def _find_routes(self, target: Target, noise: float) -> Routes:
        """The cheapest arcs for the target, everything already paid for being free."""
        rnd, arcs_into, into, mirs, price = self.random.random, self.prices.arcs_into, self.into, self.mirs, self.hop_price
        dist: dict[int, float] = {}
        routes = Routes(demand_costs=[None] * len(self._demands))
        via, demand_costs = routes.via, routes.demand_costs
        demand_costs[0] = 0.0
        whole: dict[int, float] = {}  # sub → the cost of having it from every one of its relations
        for problem in self._subproblems[target.sub]:
            for node in problem.nodes:
                arcs = arcs_into[node]
                if not arcs or node in into:
                    dist[node] = 0.0
                    continue
                best, chosen = INFINITE, -1
                for at, tail, cost, hop, demand, mir in arcs:
                    cost += dist[tail]
                    if cost >= best:
                        continue
                    layout_cost = demand_costs[demand]
                    if layout_cost is None:
                        layout_cost = demand_costs[demand] = self._demand_cost(*self._demands[demand])
                    cost += layout_cost + hop * price
                    if mir >= 0 and mir not in mirs:
                        cost += whole[mir]
                    if noise:
                        cost *= 1 + noise * rnd()
                    if cost < best:
                        best, chosen = cost, at
                dist[node] = best
                via[node] = chosen
            if problem.ends:
                whole[problem.sub] = self._cost_of_whole(problem, dist, whole, routes)
        return routes

    def _layout_cost(self, at: int, routes: Routes) -> float:
        """What it costs that the arc has a layout that it needs."""
        demand = self._demand_of[at]
        cost = routes.demand_costs[demand]
        if cost is None:
            cost = routes.demand_costs[demand] = self._demand_cost(*self._demands[demand])
        return cost

    def _demand_cost(self, store: int, layouts: tuple[int, ...]) -> float:
        """What it costs that the store has one of the layouts. Its cheapest copy is not counted: it is paid for in any case."""
        costs = self.graph.stores[store].costs
        if self.single_layout[store]:
            layout = self.layout.get(store)
            if layout is None:
                return min(costs[i] for i in layouts) - min(costs)
            return 0.0 if layout in layouts else INFINITE
        copies = self.copies
        for i in layouts:
            if (store, i) in copies:
                return 0.0
        return min(costs[i] for i in layouts) - (0.0 if store in self.users else min(costs))

    def _cost_of_whole(self, problem: SubProblem, dist: dict[int, float], whole: dict[int, float], routes: Routes) -> float:
        """The cost of having a sub from all its relations: each on its own route, or all over one split, both halves kept as MIRs."""
        into, arcs, costs = self.into, self.graph.arcs, self.prices.costs
        best = sum(dist[end] for end in problem.ends if end not in into)
        if problem.size < 3:
            return best + problem.store_cost
        for a, b, by_origin in problem.splits:
            cost = (0.0 if a in self.mirs else whole.get(a, 0.0)) + (0.0 if b in self.mirs else whole.get(b, 0.0))
            if cost >= best:
                continue
            chosen: list[int] = []
            for variants in by_origin:
                step, last, _ = variants[0]
                if arcs[step if last < 0 else last].head in into:
                    continue
                least, cheapest = INFINITE, (-1, -1)
                for step, last, half_end in variants:
                    arc = arcs[step]
                    variant_cost = costs[step] + arc.hop * self.hop_price + self._layout_cost(step, routes)
                    if variant_cost >= least:
                        continue
                    if last >= 0:
                        end_arc = arcs[last]
                        variant_cost += costs[last] + end_arc.hop * self.hop_price + self._layout_cost(last, routes)
                    if half_end != arc.tail and (half_end < 0 or self._node_before(half_end, routes) != arc.tail):
                        variant_cost += dist[arc.tail]
                    if variant_cost < least:
                        least, cheapest = variant_cost, (step, last)
                cost += least
                if cost >= best:
                    break
                chosen += [at for at in cheapest if at >= 0]
            else:
                if cost < best:
                    best = cost
                    routes.splits[problem.sub] = (a, b, chosen)
        return best + problem.store_cost

    def _node_before(self, end: int, routes: Routes) -> int:
        """Where the rows of a MIR are before they are fed into its store: the tail of the arc that leads to the end."""
        at = self.into.get(end)
        if at is None:
            split = routes.splits.get(self.graph.nodes[end].sub)
            at = next((arc for arc in (split[2] if split else ()) if self.graph.arcs[arc].head == end), routes.via[end])
        return self.graph.arcs[at].tail


def _make_subproblem(graph: Graph, sub_id: int, goals: list[int] | None) -> SubProblem:
    """`goals`: where the sub ends, if it is a query's; None if it is a part of larger ones."""
    sub = graph.lattice.subs[sub_id]
    nodes = graph.nodes_of(sub_id)
    if goals is None:  # a query that is a part of larger ones may have hulls, which are no parts of these
        nodes = [node for node in nodes if not _is_checked(graph, node)]
    ends = goals if goals is not None else graph.feeders(sub_id) if graph.has_store(sub_id) else []
    end_of_origin = {graph.nodes[end].origin: end for end in ends}
    splits = []
    if ends and sub.size > 2 and graph.mirs:
        variants: dict[tuple[int, int], dict[object, list[tuple[int, int, int]]]] = {}  # split → origin → variants
        for node in nodes:
            origin = graph.nodes[node].origin
            for step in graph.into[node]:
                arc = graph.arcs[step]
                if arc.probes < 0:
                    continue
                half = graph.nodes[arc.tail].sub
                end = end_of_origin[origin]
                last_arcs = [-1] if end == node else [e for e in graph.out[node] if graph.arcs[e].head == end]
                half_end = -1
                if graph.lattice.subs[half].size > 1:
                    if not graph.has_store(half):
                        continue
                    half_end = next(f for f in graph.feeders(half) if graph.nodes[f].origin == origin)
                variants.setdefault((min(half, arc.probes), max(half, arc.probes)), {}).setdefault(origin, []).extend(
                    (step, last, half_end) for last in last_arcs
                )
        subs = graph.lattice.subs
        splits = [
            (a, b, list(by_origin.values()))
            for (a, b), by_origin in variants.items()
            if len(by_origin) == len(sub.origins) and subs[a].origins and subs[b].origins
        ]
    store_cost = min(graph.store_of(sub).costs) if ends and goals is None else 0.0
    return SubProblem(sub_id, sub.size, nodes, ends, store_cost, splits)


def _is_checked(graph: Graph, node: int) -> bool:
    """Whether rows of a hull may become those of the node."""
    own = graph.nodes[node]
    return own.placement == DELIVERED and any(graph.nodes[graph.arcs[at].tail].sub != own.sub for at in graph.into[node])
