"""Putting a query into a plan: dynamic programming over its part of the lattice, where everything already paid for is free.

A sub is reached from each origin on its own route, or from all of them over one split whose halves are both kept as MIRs, whichever is
cheaper. A store without a layout takes the one that the query's own steps vote for.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

from clash.planner.plan_state import Counted, Routes
from clash.planner.graph import Arc, Graph
from clash.planner.lattice import Target

INFINITE = math.inf


@dataclass(slots=True)
class Level:
    """A sub's nodes, tails before heads; its ends (what having it from every relation means); and by split
    the ways over it: per origin, a step, the arc from there to the end (−1 where the step's head is the end) and the end
    of the origin's own half (−1 where that is the origin alone)."""

    sub: int
    size: int
    nodes: list[int]
    ends: list[int]
    keep: float  # what keeping it as a MIR costs at least
    splits: list[tuple[int, int, list[list[tuple[int, int, int]]]]]


class Router(Counted):
    def __init__(self, graph: Graph, targets: list[Target], seed: int) -> None:
        super().__init__(graph, targets)
        self.random = random.Random(seed)
        self.hop_price = 0.0  # what the dynamic program counts per hop: rounds are one number for all, so this is a guess
        self._demands: list[tuple[int, tuple[int, ...]]] = [(-1, ())]  # (store, layouts that will do); the first is none at all
        known = {self._demands[0]: 0}
        self._demand: list[int] = []
        for arc in graph.arcs:
            key = (arc.store, arc.layouts) if arc.layouts and not self.free else self._demands[0]
            if key not in known:
                known[key] = len(self._demands)
                self._demands.append(key)
            self._demand.append(known[key])
        self._ways = [[self._way(at) for at in ways] for ways in graph.into]
        self._levels: dict[int, list[Level]] = {}
        self._level_of: dict[tuple[int, bool], Level] = {}
        for target in targets:
            self._levels[target.sub] = [self._level(at, target) for at in graph.parts(target)]

    def _way(self, at: int) -> tuple[int, int, float, int, int, int]:
        """What the dynamic program reads of an arc: itself, tail, cost, hop, demand, and the MIR it probes."""
        arc = self.graph.arcs[at]
        mir = arc.probes if arc.probes >= 0 and self._size[arc.probes] > 1 else -1
        return at, arc.tail, arc.cost, arc.hop, self._demand[at], mir

    def _level(self, at: int, target: Target) -> Level:
        """As a part of larger ones a sub ends in its store, as a query it is delivered."""
        key = (at, at == target.sub and at in self._goals)
        if key not in self._level_of:
            self._level_of[key] = _make_level(self.graph, at, self._goals[at] if key[1] else None)
        return self._level_of[key]

    def recreate(self, target: Target, noise: float = 0.0) -> None:
        """Where the query's own steps want different layouts of a new store, they vote, and the query goes again."""
        before, settled = dict(self.layout), dict[int, int]()
        while True:
            self._hold(self._goals[target.sub], self._route(target, noise))
            if not self.settles:
                return
            fresh = self._fresh(target)
            votes: dict[int, dict[int, float]] = {}
            for arc in fresh:
                vote = votes.setdefault(arc.store, {})
                for i in arc.layouts:
                    vote[i] = vote.get(i, 0.0) + arc.cost + 1e-9
            for store, vote in votes.items():
                costs = self.graph.stores[store].costs
                settled[store] = self.layout[store] = min((costs[i] - worth, i) for i, worth in vote.items())[1]
            if all(self.layout[arc.store] in arc.layouts for arc in fresh):
                break
            self.remove(target)
            self.layout.update({**before, **settled})  # removing let go of them
        for store in settled:
            if store not in self.users:
                self.layout.pop(store, None)

    def _fresh(self, target: Target) -> list[Arc]:
        """The steps inside the target into stores that have no layout yet."""
        held = (self.into.get(node) for level in self._levels[target.sub] for node in level.nodes)
        arcs = (self.graph.arcs[at] for at in held if at is not None)
        return [arc for arc in arcs if arc.layouts and self.alone[arc.store] and arc.store not in self.layout]

    def _route(self, target: Target, noise: float) -> Routes:
        """The cheapest arcs for the target, everything already paid for being free."""
        rnd, ways_of, into, mirs, price = self.random.random, self._ways, self.into, self.mirs, self.hop_price
        dist: dict[int, float] = {}
        routes = Routes(fit=[None] * len(self._demands))
        via, fit = routes.via, routes.fit
        fit[0] = 0.0
        whole: dict[int, float] = {}  # sub → the cost of having it from every one of its relations
        for level in self._levels[target.sub]:
            for node in level.nodes:
                ways = ways_of[node]
                if not ways or node in into:
                    dist[node] = 0.0
                    continue
                best, chosen = INFINITE, -1
                for at, tail, cost, hop, demand, mir in ways:
                    cost += dist[tail]
                    if cost >= best:
                        continue
                    extra = fit[demand]
                    if extra is None:
                        extra = fit[demand] = self._fits(*self._demands[demand])
                    cost += extra + hop * price
                    if mir >= 0 and mir not in mirs:
                        cost += whole[mir]
                    if noise:
                        cost *= 1 + noise * rnd()
                    if cost < best:
                        best, chosen = cost, at
                dist[node] = best
                via[node] = chosen
            if level.ends:
                whole[level.sub] = self._whole(level, dist, whole, routes)
        return routes

    def _fit(self, at: int, routes: Routes) -> float:
        demand = self._demand[at]
        extra = routes.fit[demand]
        if extra is None:
            extra = routes.fit[demand] = self._fits(*self._demands[demand])
        return extra

    def _fits(self, store: int, layouts: tuple[int, ...]) -> float:
        return self._fitting(store, layouts) if self.alone[store] else self._opening(store, layouts)

    def _opening(self, store: int, layouts: tuple[int, ...]) -> float:
        """What it costs that the store has one of the layouts; its first copy, as cheap as can be, is paid for elsewhere."""
        copies = self.copies
        for i in layouts:
            if (store, i) in copies:
                return 0.0
        costs = self.graph.stores[store].costs
        return min(costs[i] for i in layouts) - (0.0 if store in self.users else min(costs))

    def _fitting(self, store: int, layouts: tuple[int, ...]) -> float:
        """The same where a store has one layout only: nothing if it is one of these, no way otherwise."""
        layout = self.layout.get(store)
        if layout is None:
            costs = self.graph.stores[store].costs
            return min(costs[i] for i in layouts) - min(costs)
        return 0.0 if layout in layouts else INFINITE

    def _whole(self, level: Level, dist: dict[int, float], whole: dict[int, float], routes: Routes) -> float:
        """Having a sub from all its relations: each on its own route, or all over one split, both halves kept as MIRs."""
        into, arcs = self.into, self.graph.arcs
        best = sum(dist[end] for end in level.ends if end not in into)
        if level.size < 3:
            return best + level.keep
        for a, b, by_origin in level.splits:
            cost = (0.0 if a in self.mirs else whole.get(a, 0.0)) + (0.0 if b in self.mirs else whole.get(b, 0.0))
            if cost >= best:
                continue
            picks: list[int] = []
            for ways in by_origin:
                step, end, _ = ways[0]
                if arcs[step if end < 0 else end].head in into:
                    continue
                least, pick = INFINITE, (-1, -1)
                for step, end, half in ways:
                    arc = arcs[step]
                    way = arc.cost + arc.hop * self.hop_price + self._fit(step, routes)
                    if way >= least:
                        continue
                    if end >= 0:
                        last = arcs[end]
                        way += last.cost + last.hop * self.hop_price + self._fit(end, routes)
                    if half != arc.tail and (half < 0 or self._home(half, routes) != arc.tail):
                        way += dist[arc.tail]
                    if way < least:
                        least, pick = way, (step, end)
                cost += least
                if cost >= best:
                    break
                picks += [at for at in pick if at >= 0]
            else:
                if cost < best:
                    best = cost
                    routes.trees[level.sub] = (a, b, picks)
        return best + level.keep

    def _home(self, end: int, routes: Routes) -> int:
        """Where rows are before they are fed: the tail of the arc that leads to the end."""
        at = self.into.get(end)
        if at is None:
            tree = routes.trees.get(self.graph.nodes[end].sub)
            at = next((pick for pick in (tree[2] if tree else ()) if self.graph.arcs[pick].head == end), routes.via[end])
        return self.graph.arcs[at].tail

    def adopt(self, into: Mapping[int, int]) -> None:
        """Take over the arcs of a known plan; queries that it does not answer are put in."""
        self._reset()
        new = []
        for target in self.targets:
            goals = self._goals[target.sub]
            if all(goal in into for goal in goals):
                self._hold(goals, Routes(dict(into), []))
            else:
                new.append(target)
        if self.settles:
            allowed: dict[int, set[int]] = {}
            for at in self.into.values():
                arc = self.graph.arcs[at]
                if arc.layouts and self.alone[arc.store]:
                    allowed[arc.store] = allowed.get(arc.store, set(arc.layouts)) & set(arc.layouts)
            if not all(allowed.values()):  # it has several layouts of a store, and may not any more
                self._reset()
                allowed, new = {}, list(self.targets)
            self.layout = {store: min(layouts) for store, layouts in allowed.items()}
        for target in new:
            self.recreate(target)


def _make_level(graph: Graph, at: int, goals: list[int] | None) -> Level:
    """Everything the dynamic program needs to know of a sub."""
    sub = graph.lattice.subs[at]
    nodes = graph.nodes_of(at)
    ends = goals if goals is not None else graph.feeders(at) if graph.has_store(at) else []
    by_end = {graph.nodes[end].origin: end for end in ends}
    splits = []
    if ends and sub.size > 2 and graph.mirs:
        over: dict[tuple[int, int], dict[object, list[tuple[int, int, int]]]] = {}
        for node in nodes:
            origin = graph.nodes[node].origin
            for step in graph.into[node]:
                arc = graph.arcs[step]
                if arc.probes < 0:
                    continue
                half = graph.nodes[arc.tail].sub
                last = [-1] if by_end[origin] == node else [e for e in graph.out[node] if graph.arcs[e].head == by_end[origin]]
                own = -1
                if graph.lattice.subs[half].size > 1:
                    if not graph.has_store(half):
                        continue
                    own = next(f for f in graph.feeders(half) if graph.nodes[f].origin == origin)
                over.setdefault((min(half, arc.probes), max(half, arc.probes)), {}).setdefault(origin, []).extend(
                    (step, end, own) for end in last
                )
        splits = [(a, b, list(by_origin.values())) for (a, b), by_origin in over.items() if len(by_origin) == sub.size]
    keep = min(graph.store_of(sub).costs) if ends and goals is None else 0.0
    return Level(at, sub.size, nodes, ends, keep, splits)
