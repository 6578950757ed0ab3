"""The heuristic: ruin and recreate over shared plans.

A plan is one arc into every needed node, counted by how many need it. Removing a query lets go of what only it needed;
putting it back is dynamic programming over its part of the lattice, where everything that is already paid for is free. A store
without a layout takes the one that its first query votes for; moves that force another layout on a store are the
outer search, orders by dynamic programming the inner one. The number of moves is fixed, so the answer is the same every time
unless the clock cuts it off.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from clash.planner.graph import Arc, Graph
from clash.planner.lattice import Target
from clash.planner.solution import Solution, count_rounds, finish

INFINITE = math.inf


@dataclass(slots=True)
class _Level:
    """A sub's nodes, tails before heads; its ends (what having it from every relation means); and by split
    the ways over it: per origin, a step, the arc from there to the end (−1 where the step's head is the end) and the end
    of the origin's own half (−1 where that is the origin alone)."""

    sub: int
    size: int
    nodes: list[int]
    ends: list[int]
    keep: float  # what keeping it as a MIR costs at least
    splits: list[tuple[int, int, list[list[tuple[int, int, int]]]]]


@dataclass(slots=True)
class _Routes:
    """What the dynamic program found: the best arc into each node alone, and per sub the arcs of the best split."""

    via: dict[int, int] = field(default_factory=dict)
    fit: list[float | None] = field(default_factory=list)  # per demand for layouts: what meeting it costs
    trees: dict[int, tuple[int, int, list[int]]] = field(default_factory=dict)


class _Saved(NamedTuple):
    """A plan to come back to."""

    into: dict[int, int]
    need: dict[int, int]
    mirs: dict[int, int]
    layout: dict[int, int]
    copies: dict[tuple[int, int], int]
    users: dict[int, int]
    served: dict[int, int]
    cost: float


class Search:
    def __init__(self, graph: Graph, targets: list[Target], seed: int = 0) -> None:
        self.graph, self.targets, self.random = graph, targets, random.Random(seed)
        self.free = graph.model.free_copies
        self.alone = [store.alone for store in graph.stores]
        self.settles = any(self.alone)
        self._goals = {target.sub: graph.goals(target) for target in targets}
        self._size = [sub.size for sub in graph.lattice.subs]
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
        self._probing: dict[int, set[int]] = {}  # MIR → the nodes that probing it leads to
        for arc in graph.arcs:
            if arc.probes >= 0 and self._size[arc.probes] > 1:
                self._probing.setdefault(arc.probes, set()).add(arc.head)
        self._by_cost = [sorted(ways, key=lambda at: graph.arcs[at].cost) for ways in graph.into]
        self.hop_price = 0.0  # what the dynamic program counts per hop: rounds are one number for all, so this is a guess
        self._reset()
        self._prepare()

    def _way(self, at: int) -> tuple[int, int, float, int, int, int]:
        """What the dynamic program reads of an arc: itself, tail, cost, hop, demand, and the MIR it probes."""
        arc = self.graph.arcs[at]
        mir = arc.probes if arc.probes >= 0 and self._size[arc.probes] > 1 else -1
        return at, arc.tail, arc.cost, arc.hop, self._demand[at], mir

    def _prepare(self) -> None:
        """What the moves choose from: queries by stream, stores with a choice of layouts, sub-joins of several queries."""
        graph, subs = self.graph, self.graph.lattice.subs
        shared: dict[int, list[Target]] = {}
        levels: dict[tuple[int, bool], _Level] = {}
        self._levels: dict[int, list[_Level]] = {}
        self._by_stream: dict[str, list[Target]] = {}
        self._streams: dict[int, list[str]] = {}
        for target in self.targets:
            parts = graph.parts(target)
            for at in parts:
                if (at, at == target.sub) not in levels:
                    levels[at, at == target.sub] = _level(graph, at, target)
                if subs[at].size > 1 and at != target.sub:
                    shared.setdefault(at, []).append(target)
            self._levels[target.sub] = [levels[at, at == target.sub] for at in parts]
            self._streams[target.sub] = sorted({r.stream for r in subs[target.sub].relations})
            for stream in self._streams[target.sub]:
                self._by_stream.setdefault(stream, []).append(target)
        self._base_stores = [s.id for s in graph.stores if s.stream in self._by_stream]
        self._choices = []
        if graph.model.layouts == "one" and not self.free:
            self._choices = [(at, self._by_stream[str(graph.stores[at].stream)]) for at in self._base_stores
                             if len(graph.stores[at].layouts) > 1]  # fmt: skip
        self._shared = []
        for at, group in shared.items():
            if len(group) > 1 and graph.has_store(at) and at not in self._goals:  # a query inside others has goals of its own
                pin = Target(at, [at], [], True)
                self._goals[at] = graph.feeders(at)
                self._levels[at] = [levels[part, False] for part in graph.parts(pin)]
                self._shared.append((pin, group))

    def _reset(self) -> None:
        self.into: dict[int, int] = {}
        self.need: dict[int, int] = {}  # node → how many steps, feeds and queries need it
        self.mirs: dict[int, int] = {}  # sub → how many arcs probe its store
        self.layout: dict[int, int] = {}  # store → its layout, where it has one at a time
        self.copies: dict[tuple[int, int], int] = {}  # (store, layout) → users, where it may have several
        self.users: dict[int, int] = {}  # store → arcs that need a certain layout of it
        self.served: dict[int, int] = {}  # arc → the layout it was given
        self.cost_of_arcs = 0.0
        self._news: list[int] = []  # nodes that are new since `rewire` last looked
        self._new_mirs: list[int] = []

    # ---- keeping count --------------------------------------------------------------------------------------
    def _take(self, at: int) -> None:
        """Use an arc. Its tail, its layout and, for a MIR, all feeders are needed once more."""
        graph = self.graph
        arc = graph.arcs[at]
        self.into[arc.head] = at
        self._news.append(arc.head)
        self.cost_of_arcs += arc.cost
        if arc.layouts and not self.free:
            self.users[arc.store] = self.users.get(arc.store, 0) + 1
            if not self.alone[arc.store]:
                layout = self._cheapest(arc.store, arc.layouts)
                self.served[at] = layout
                self.copies[arc.store, layout] = self.copies.get((arc.store, layout), 0) + 1

    def _cheapest(self, store: int, layouts: tuple[int, ...]) -> int:
        held = [i for i in layouts if (store, i) in self.copies]
        costs = self.graph.stores[store].costs
        return min(held or layouts, key=lambda i: (costs[i], i))

    def _drop(self, at: int) -> None:
        arc = self.graph.arcs[at]
        del self.into[arc.head]
        self.cost_of_arcs -= arc.cost
        if arc.layouts and not self.free:
            self.users[arc.store] -= 1
            if not self.users[arc.store]:
                del self.users[arc.store]
                self.layout.pop(arc.store, None)
            if not self.alone[arc.store]:
                key = (arc.store, self.served.pop(at))
                self.copies[key] -= 1
                if not self.copies[key]:
                    del self.copies[key]

    def _release(self, node: int) -> None:
        graph, todo = self.graph, [node]
        while todo:
            node = todo.pop()
            if not graph.into[node]:
                continue
            self.need[node] -= 1
            if self.need[node]:
                continue
            del self.need[node]
            at = self.into[node]
            arc = graph.arcs[at]
            self._drop(at)
            todo.append(arc.tail)
            if arc.probes >= 0 and self._size[arc.probes] > 1:
                self.mirs[arc.probes] -= 1
                if not self.mirs[arc.probes]:
                    del self.mirs[arc.probes]
                    todo += graph.feeders(arc.probes)

    def _hold(self, goals: list[int], routes: _Routes) -> None:
        """Need the goals. A sub that is wanted from all its relations takes the split that was found for it, if any."""
        graph, via, todo = self.graph, routes.via, list(goals)
        self._prefer(graph.nodes[goals[0]].sub, routes)
        while todo:
            node = todo.pop()
            if not graph.into[node]:
                continue
            held = self.need.get(node, 0)
            self.need[node] = held + 1
            if held:
                continue
            at = via[node]
            arc = graph.arcs[at]
            self._take(at)
            todo.append(arc.tail)
            if arc.probes >= 0 and self._size[arc.probes] > 1:
                users = self.mirs.get(arc.probes, 0)
                self.mirs[arc.probes] = users + 1
                if not users:
                    self._new_mirs.append(arc.probes)
                    feeders = graph.feeders(arc.probes)
                    self._prefer(arc.probes, routes)
                    todo += feeders

    def _prefer(self, sub: int, routes: _Routes) -> None:
        """Over the whole tree at once: a half that is kept must be reached over its own split, not over a lone route."""
        tree = routes.trees.get(sub)
        if tree is None:
            return
        a, b, picks = tree
        for at in picks:
            routes.via[self.graph.arcs[at].head] = at
        for half in (a, b):
            if half not in self.mirs:
                self._prefer(half, routes)

    def remove(self, target: Target) -> None:
        for goal in self._goals[target.sub]:
            self._release(goal)

    # ---- putting a query back -------------------------------------------------------------------------------
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

    def _route(self, target: Target, noise: float) -> _Routes:
        """The cheapest arcs for the target, everything already paid for being free."""
        rnd, ways_of, into, mirs, price = self.random.random, self._ways, self.into, self.mirs, self.hop_price
        dist: dict[int, float] = {}
        routes = _Routes(fit=[None] * len(self._demands))
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

    def _fit(self, at: int, routes: _Routes) -> float:
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

    def _whole(self, level: _Level, dist: dict[int, float], whole: dict[int, float], routes: _Routes) -> float:
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

    def _home(self, end: int, routes: _Routes) -> int:
        """Where rows are before they are fed: the tail of the arc that leads to the end."""
        at = self.into.get(end)
        if at is None:
            tree = routes.trees.get(self.graph.nodes[end].sub)
            at = next((pick for pick in (tree[2] if tree else ()) if self.graph.arcs[pick].head == end), routes.via[end])
        return self.graph.arcs[at].tail

    def rewire(self) -> None:
        """Let nodes take their cheapest arc among those that need nothing new. Only what came since the last time can have made an
        arc ready: new nodes, what they lead to, and what probes new MIRs."""
        graph, arcs, into = self.graph, self.graph.arcs, self.into
        while self._news:
            heads = {node for node in self._news if node in into}
            heads |= {arcs[at].head for node in heads for at in graph.out[node] if arcs[at].head in into}
            heads |= {head for mir in self._new_mirs for head in self._probing.get(mir, ()) if head in into}
            self._news, self._new_mirs = [], []
            for node in sorted(heads):
                at = into.get(node)
                if at is None:
                    continue
                cost = arcs[at].cost - 1e-9
                for other in self._by_cost[node]:
                    if arcs[other].cost >= cost:
                        break
                    if self._ready(other):
                        self._swap(at, other)
                        break

    def _ready(self, at: int) -> bool:
        arc = self.graph.arcs[at]
        if arc.tail not in self.into and not self.graph.is_root(arc.tail):
            return False
        if arc.probes >= 0 and self._size[arc.probes] > 1 and arc.probes not in self.mirs:
            return False
        if not arc.layouts or self.free:
            return True
        if self.alone[arc.store]:
            return self.layout.get(arc.store) in arc.layouts
        return any((arc.store, i) in self.copies for i in arc.layouts)

    def _swap(self, old: int, new: int) -> None:
        graph = self.graph
        before, after = graph.arcs[old], graph.arcs[new]
        layout = self.layout.get(after.store)
        self._drop(old)
        self._take(new)
        if layout is not None:  # the old arc may have been the only one that held it
            self.layout[after.store] = layout
        if not graph.is_root(after.tail):
            self.need[after.tail] += 1
        if after.probes in self.mirs:
            self.mirs[after.probes] += 1
        self._release(before.tail)
        if before.probes in self.mirs:
            self.mirs[before.probes] -= 1
            if not self.mirs[before.probes]:
                del self.mirs[before.probes]
                for feeder in graph.feeders(before.probes):
                    self._release(feeder)

    # ---- searching ------------------------------------------------------------------------------------------
    def cost(self) -> float:
        """What `solution` would cost, from the counts."""
        model = self.graph.model
        cost = self.cost_of_arcs
        if not model.full:
            return cost
        copies: dict[int, float] = {}
        for store, i in self.copies:
            copies[store] = copies.get(store, 0.0) + self.graph.stores[store].costs[i]
        for at in (*self._base_stores, *(self.graph.store_of(self.graph.lattice.subs[mir]).id for mir in self.mirs)):
            costs = self.graph.stores[at].costs
            if at in self.layout:
                cost += costs[self.layout[at]]
            else:
                cost += copies.get(at) or min(costs)
        return cost + (model.round_cost * count_rounds(self.graph, self.into) if model.round_cost else 0.0)

    def solution(self) -> Solution:
        wanted = {store: [layout] for store, layout in self.layout.items()}
        return finish(self.graph, [goal for target in self.targets for goal in self._goals[target.sub]], self.into, wanted)

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
        elif kind < 0.65 and self._shared:
            pin, group = rng.choice(self._shared)
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

    def _save(self) -> _Saved:
        into, need, mirs, layout = dict(self.into), dict(self.need), dict(self.mirs), dict(self.layout)
        return _Saved(into, need, mirs, layout, dict(self.copies), dict(self.users), dict(self.served), self.cost_of_arcs)

    def _restore(self, saved: _Saved) -> None:
        self.into, self.need, self.mirs, self.layout = dict(saved.into), dict(saved.need), dict(saved.mirs), dict(saved.layout)
        self.copies, self.users, self.served = dict(saved.copies), dict(saved.users), dict(saved.served)
        self.cost_of_arcs = saved.cost
        self._news, self._new_mirs = [], []

    def adopt(self, into: Mapping[int, int]) -> None:
        """Take over the arcs of a known plan; queries that it does not answer are put in."""
        self._reset()
        new = []
        for target in self.targets:
            goals = self._goals[target.sub]
            if all(goal in into for goal in goals):
                self._hold(goals, _Routes(dict(into), []))
            else:
                new.append(target)
        if self.settles:
            allowed: dict[int, set[int]] = {}
            for at in self.into.values():
                arc = self.graph.arcs[at]
                if arc.layouts and self.alone[arc.store]:
                    allowed[arc.store] = allowed.get(arc.store, set(arc.layouts)) & set(arc.layouts)
            self.layout = {store: min(layouts) for store, layouts in allowed.items()}
        for target in new:
            self.recreate(target)


def _level(graph: Graph, at: int, target: Target) -> _Level:
    """Everything the dynamic program needs to know of a sub."""
    sub = graph.lattice.subs[at]
    nodes = graph.nodes_of(at)
    ends = graph.goals(target) if at == target.sub else graph.feeders(at) if graph.has_store(at) else []
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
    keep = min(graph.store_of(sub).costs) if ends and at != target.sub else 0.0
    return _Level(at, sub.size, nodes, ends, keep, splits)
