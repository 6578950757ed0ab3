"""The compact integer program over the lattice of connected sub-joins.

One variable per shared step, not per probe order: y per arc, one flow per query and origin from the root to the whole query with
flow ≤ y, s per node, m per MIR, z per (store, layout). Its size grows with the sub-joins, the published one's with their
permutations. What makes it tight are disaggregated rows: per query and origin, the flow into a MIR's store is at
most m, and the flow that needs a layout is at most z.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

from clash.planner.graph import DONE, FED, Graph
from clash.planner.lattice import Target
from clash.planner.integer_program import Milp, Values
from clash.planner.solution import Solution, arrivals, finish


class Compact:
    def __init__(self, graph: Graph, targets: list[Target], isolated: Mapping[int, float] | None = None) -> None:
        """`isolated`: per target, a lower bound on what its own steps cost in any plan, for the bound's sake."""
        self.graph, self.targets, self.milp = graph, targets, Milp()
        self.goals = [goal for target in targets for goal in graph.goals(target)]
        self.parts = {target.sub: graph.parts(target) for target in targets}
        self.nodes = sorted({n for parts in self.parts.values() for sub in parts for n in graph.nodes_of(sub)})
        self.y: dict[int, int] = {}
        self.s: dict[int, int] = {}
        self.m: dict[int, int] = {}
        self.z: dict[tuple[int, int], int] = {}
        self.flows: list[tuple[int, dict[int, int]]] = []  # (goal, arc → variable)
        self._variables()
        self._layouts()
        self._balance()
        self._mirs()
        for target in targets:
            for goal in graph.goals(target):
                self._flow(target, goal)
        self.rounds: dict[int, int] = {}
        self.late: list[int] = []
        self.constant = graph.model.round_cost  # the first round is always paid for
        if graph.model.round_cost:
            self._rounds()
        if isolated:
            self._isolated(isolated)

    def _variables(self) -> None:
        graph, milp, model = self.graph, self.milp, self.graph.model
        goals = set(self.goals)
        for node in self.nodes:
            for at in graph.into[node]:
                self.y[at] = milp.var(graph.arcs[at].cost)
            if graph.into[node] and node not in goals:
                self.s[node] = milp.var(whole=False)
        probed = {graph.arcs[at].probes for at in self.y}
        for sub in sorted(probed):
            if sub >= 0 and graph.lattice.subs[sub].size > 1:
                self.m[sub] = milp.var()
        if not model.free_copies:
            singles = {p for parts in self.parts.values() for p in parts}
            for store in graph.stores:
                if (store.stream is not None and singles & set(store.singles)) or store.sub in self.m:
                    for i, cost in enumerate(store.costs):
                        self.z[store.id, i] = milp.var(cost)

    def _layouts(self) -> None:
        """A base store has a layout, with layouts="one" just one; a MIR's store has one if it is kept."""
        graph, milp = self.graph, self.milp
        for store in graph.stores:
            if (store.id, 0) not in self.z:
                continue
            z = [self.z[store.id, i] for i in range(len(store.layouts))]
            if store.sub is None:
                milp.row(z, [1.0] * len(z), 1.0, 1.0 if store.alone else float(len(z)))
            else:
                milp.row([*z, self.m[store.sub]], [1.0] * len(z) + [-1.0], 0.0, 0.0)

    def _needs(self, at: int) -> list[int] | None:
        """The layout variables, one of which the arc needs; None where any layout will do."""
        arc = self.graph.arcs[at]
        if not arc.layouts or self.graph.model.free_copies:
            return None
        return [self.z[arc.store, i] for i in arc.layouts]

    def _balance(self) -> None:
        """Rows leave a node only if they come in; a goal is reached."""
        graph, milp = self.graph, self.milp
        for node in self.nodes:
            if graph.into[node]:
                ways = [self.y[at] for at in graph.into[node]]
                if node in self.s:
                    milp.at_most([self.s[node]], ways)
                else:
                    milp.at_least(ways, 1.0)
            grouped: dict[tuple[int, int, int], list[int]] = {}
            for at in graph.out[node]:
                if at in self.y:
                    arc = graph.arcs[at]
                    # under one layout the arcs of one step exclude each other; under many they may stand side by side
                    alone = -1 if arc.probes >= 0 and graph.stores[arc.store].alone else at
                    grouped.setdefault((arc.probes, graph.nodes[arc.head].sub, alone), []).append(at)
            for (probes, _, _), ways in grouped.items():
                columns = [self.y[at] for at in ways]
                if node in self.s:
                    milp.at_most(columns, [self.s[node]])
                if probes in self.m:
                    milp.at_most(columns, [self.m[probes]])
                for at in ways:
                    needs = self._needs(at)
                    if needs is not None:
                        milp.at_most([self.y[at]], needs)

    def _mirs(self) -> None:
        """A MIR is fed from every input."""
        for sub, m in self.m.items():
            for feeder in self.graph.feeders(sub):
                if feeder in self.s:
                    self.milp.at_most([m], [self.s[feeder]])
        for sub in self.m:
            self._levels(sub)

    def _levels(self, sub: int) -> None:
        """Whatever route feeds a MIR, it crosses every size below it once."""
        graph, milp = self.graph, self.milp
        size = graph.lattice.subs[sub].size
        if size < 3:
            return
        inside = set(graph.parts(Target(sub, [sub], [], True)))
        for feeder in graph.feeders(sub):
            if feeder not in self.s:
                continue
            origin = graph.nodes[feeder].origin
            steps = [
                (graph.lattice.subs[graph.nodes[graph.arcs[at].tail].sub].size, graph.lattice.subs[part].size, self.y[at])
                for part in inside
                for node in graph.nodes_of(part)
                if graph.nodes[node].origin == origin
                for at in graph.into[node]
                if graph.arcs[at].probes >= 0
            ]
            for level in range(1, size - 1):
                cut = [y for low, high, y in steps if low <= level < high]
                milp.at_most([self.s[feeder]], cut)

    def _flow(self, target: Target, goal: int) -> None:
        """One unit from the root to the goal over arcs that are paid for."""
        graph, milp = self.graph, self.milp
        origin = graph.nodes[goal].origin
        flow: dict[int, int] = {}
        mirs: dict[int, list[int]] = {}
        layouts: dict[tuple[int, int, tuple[int, ...]], list[int]] = {}
        into: dict[int, list[int]] = {}
        out: dict[int, list[int]] = {}
        for sub in self.parts[target.sub]:
            for node in graph.nodes_of(sub):
                if graph.nodes[node].origin != origin or (node != goal and graph.nodes[node].place in (FED, DONE)):
                    continue
                for at in graph.into[node]:
                    arc = graph.arcs[at]
                    variable = flow[at] = milp.var(whole=False)
                    milp.at_most([variable], [self.y[at]])
                    into.setdefault(node, []).append(variable)
                    out.setdefault(arc.tail, []).append(variable)
                    if arc.probes in self.m:
                        mirs.setdefault(arc.probes, []).append(variable)
                    if self._needs(at) is not None:
                        layouts.setdefault((arc.store, arc.probes, arc.layouts), []).append(variable)
        for node, ways in into.items():
            if node == goal:
                milp.exactly(ways, 1.0)
            else:
                left = out.get(node, [])
                milp.row([*ways, *left], [1.0] * len(ways) + [-1.0] * len(left), 0.0, 0.0)
        for sub, ways in mirs.items():
            if len(ways) > 1:
                milp.at_most(ways, [self.m[sub]])
        for (store, _, indices), ways in layouts.items():
            if len(ways) > 1:
                milp.at_most(ways, [self.z[store, i] for i in indices])
        self.flows.append((goal, flow))

    def _rounds(self) -> None:
        """`late[i]` says that round i + 2 is needed. An arc that cannot be part of anything quicker needs it outright; what several
        hops add up to is counted along the way."""
        graph, milp = self.graph, self.milp
        far = 2 * max(graph.lattice.subs[target.sub].size for target in self.targets)
        self.late = [milp.var(graph.model.round_cost) for _ in range(far - 1)]
        for earlier, later in itertools.pairwise(self.late):
            milp.at_most([later], [earlier])
        soonest = self._soonest()
        for node in self.nodes:
            if graph.into[node]:
                self.rounds[node] = milp.var(whole=False, most=float(far))
        for node, r in self.rounds.items():
            if graph.nodes[node].place in (FED, DONE):
                milp.row([r, *self.late], [1.0] + [-1.0] * len(self.late), high=1.0)
            for at in graph.into[node]:
                arc, y = graph.arcs[at], self.y[at]
                at_best = soonest[arc.tail] + arc.hop
                feeders = graph.feeders(arc.probes) if arc.probes in self.m else []
                at_best = max([at_best, *(soonest[feeder] for feeder in feeders)])
                if at_best > 1:
                    milp.at_most([y], [self.late[at_best - 2]])
                    milp.row([r, y], [1.0, -float(at_best)], low=0.0)
                if arc.tail in self.rounds:
                    milp.row([r, self.rounds[arc.tail], y], [1.0, -1.0, -float(far)], low=arc.hop - float(far))
                for feeder in feeders:
                    milp.row([r, self.rounds[feeder], y], [1.0, -1.0, -float(far)], low=-float(far))

    def _soonest(self) -> dict[int, int]:
        """The earliest round in which each node can be reached, by any plan."""
        graph = self.graph
        soonest: dict[int, int] = {}
        for node in sorted(self.nodes, key=lambda n: (graph.lattice.subs[graph.nodes[n].sub].size, n)):
            ways = []
            for at in graph.into[node]:
                arc = graph.arcs[at]
                arrive = soonest[arc.tail] + arc.hop
                if arc.probes in self.m:
                    arrive = max(arrive, *(soonest[feeder] for feeder in graph.feeders(arc.probes)))
                ways.append(arrive)
            soonest[node] = min(ways, default=1)
        return soonest

    def _isolated(self, isolated: Mapping[int, float]) -> None:
        """What a query's own part of the plan costs is at least what the query costs alone, broadcasts not counted."""
        graph = self.graph
        for target in self.targets:
            steps = [at for sub in self.parts[target.sub] for node in graph.nodes_of(sub) for at in graph.into[node]]
            if isolated.get(target.sub, 0.0) > 0.0:
                unit = isolated[target.sub]
                self.milp.row([self.y[at] for at in steps], [self._sent(at) / unit for at in steps], low=1 - 1e-9)
            if not graph.model.free_copies:
                self._forced(target, steps)

    def _sent(self, at: int) -> float:
        """The tuples that a step sends, each counted once however many places it goes to."""
        tail = self.graph.lattice.subs[self.graph.nodes[self.graph.arcs[at].tail].sub]
        return tail.rows / tail.size

    def _forced(self, target: Target, steps: list[int]) -> None:
        """A base store under a layout that is of no use to the query forces a broadcast of at least its least traffic."""
        graph = self.graph
        by_store: dict[int, list[int]] = {}
        for at in steps:
            if graph.lattice.subs[graph.arcs[at].probes].size == 1:
                by_store.setdefault(graph.arcs[at].probes, []).append(at)
        for single, into in by_store.items():
            least = min(graph.arcs[at].cost / self._sent(at) for at in into) if all(self._sent(at) > 0 for at in into) else 0.0
            known = [at for at in into if graph.arcs[at].layouts and graph.arcs[at].cost <= self._sent(at) * least * (1 + 1e-9)]
            useful = sorted({i for at in known for i in graph.arcs[at].layouts})
            store = graph.store_of(graph.lattice.subs[single])
            if not useful or len(useful) == len(store.layouts):
                continue
            traffic = self._least_traffic(target, single)
            if traffic > 0.0:
                wide = [at for at in into if at not in set(known)]
                self.milp.row(
                    [*(self.y[at] for at in wide), *(self.z[store.id, i] for i in useful)],
                    [*(self._sent(at) / traffic for at in wide), *(1.0 for _ in useful)],
                    low=1 - 1e-9,
                )

    def _least_traffic(self, target: Target, single: int) -> float:
        """Whatever the plan: the smallest MIR around the relation (or the query) is fed by probes of the relation itself."""
        subs = self.graph.lattice.subs
        relation = subs[single].relations[0]
        tails: dict[object, list[tuple[frozenset[object], float]]] = {}
        for part in self.parts[target.sub]:
            if relation not in subs[part].join.relations:
                continue
            for a, b in subs[part].splits:
                if single in (a, b):
                    other = subs[b if a == single else a]
                    for origin in other.relations:
                        tails.setdefault(origin, []).append((frozenset(other.relations), other.rows / other.size))
        best = 0.0 if len(subs[target.sub].relations) < 2 else math.inf
        for part in self.parts[target.sub]:
            around = subs[part].join.relations
            if relation not in around or len(around) < 2:
                continue
            total = 0.0
            for origin in around - {relation}:
                total += min((sent for inside, sent in tails.get(origin, ()) if inside <= around), default=math.inf)
            best = min(best, total)
        return 0.0 if math.isinf(best) else best

    # ---- to and from a solution -----------------------------------------------------------------------------
    def vector(self, solution: Solution) -> list[float]:
        """The solution as a start for the solver."""
        graph = self.graph
        x = [0.0] * len(self.milp.costs)
        for node, at in solution.into.items():
            x[self.y[at]] = 1.0
            if node in self.s:
                x[self.s[node]] = 1.0
            if graph.arcs[at].probes in self.m:
                x[self.m[graph.arcs[at].probes]] = 1.0
        for store, chosen in solution.layouts.items():
            for i in chosen:
                if (store, i) in self.z:
                    x[self.z[store, i]] = 1.0
        for goal, flow in self.flows:
            node = goal
            while not graph.is_root(node):
                at = solution.into[node]
                x[flow[at]] = 1.0
                node = graph.arcs[at].tail
        if self.rounds:
            for node, at_round in arrivals(graph, solution.into).items():
                if node in self.rounds:
                    x[self.rounds[node]] = at_round
            for i in range(solution.rounds - 1):
                x[self.late[i]] = 1.0
        return x

    def read(self, x: Values) -> Solution:
        """The plan that the solver's values stand for."""
        graph = self.graph
        into: dict[int, int] = {}
        for at, y in self.y.items():
            head = graph.arcs[at].head
            if x[y] > 0.5 and (head not in into or graph.arcs[at].cost < graph.arcs[into[head]].cost):
                into[head] = at
        wanted: dict[int, list[int]] = {}
        for (store, i), z in self.z.items():
            if x[z] > 0.5:
                wanted.setdefault(store, []).append(i)
        return finish(graph, self.goals, into, wanted)
