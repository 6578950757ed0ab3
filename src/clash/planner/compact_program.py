"""The compact integer program over the lattice of connected sub-joins.

It has one variable per shared step, not per probe order: y per arc, one flow per query and origin from the root to the whole query with
flow ≤ y, s per node, m per MIR, z per (store, layout). Its size grows with the number of sub-joins, that of the published program with
their permutations. Disaggregated rows make it tight: per query and origin, the flow into a MIR's store is at most m, and the flow that
needs a layout is at most z. `bound_rows` tightens it further.
"""

from __future__ import annotations

import itertools

from clash.planner.graph import Graph
from clash.planner.integer_program import Milp, Values
from clash.planner.lattice import Target
from clash.planner.placements import DELIVERED, FED
from clash.planner.solution import Solution, arrival_rounds, finish


class CompactProgram:
    """The program for some targets of a graph. The dictionaries map things of the graph to the indices of their variables."""

    def __init__(self, graph: Graph, targets: list[Target]) -> None:
        self.graph, self.targets, self.milp = graph, targets, Milp()
        self.goals = [goal for target in targets for goal in graph.goals(target)]
        self.parts = {target.sub: graph.parts(target) for target in targets}
        self.nodes = sorted({n for parts in self.parts.values() for sub in parts for n in graph.nodes_of(sub)})
        halves = {half for parts in self.parts.values() for sub in parts for pair in graph.lattice.subs[sub].splits for half in pair}
        whole = {target.sub for target in targets} - halves - {hull for target in targets for hull in target.hulls}
        # Goals, and nodes from which steps lead nowhere but to a goal. All of them are reached by the flow to that goal, so none has an s.
        self.final = {*self.goals, *(n for n in self.nodes if graph.nodes[n].sub in whole)}
        self.y: dict[int, int] = {}  # arc → is it used?
        self.s: dict[int, int] = {}  # node that is not final → is it reached?
        self.m: dict[int, int] = {}  # sub → is it kept as a MIR?
        self.z: dict[tuple[int, int], int] = {}  # (store, layout) → is there such a copy?
        self.flows: list[tuple[int, dict[int, int]]] = []  # (goal, arc → its flow)
        self._add_variables()
        self._add_layouts()
        self._add_reachability()
        self._add_mirs()
        for target in targets:
            for goal in graph.goals(target):
                self._add_flow(target, goal)
        self.rounds: dict[int, int] = {}  # node → the round in which it is reached
        self.extra_rounds: list[int] = []  # i → is round i + 2 needed?
        self.constant = graph.model.round_cost  # what the objective leaves out: the first round is always paid for
        if graph.model.round_cost:
            self._add_rounds()

    def _add_variables(self) -> None:
        graph, milp, model = self.graph, self.milp, self.graph.model
        for node in self.nodes:
            for at in graph.into[node]:
                self.y[at] = milp.var(graph.arcs[at].cost)
            if graph.into[node] and node not in self.final:
                self.s[node] = milp.var(integral=False)
        for mir in sorted({graph.arcs[at].mir for at in self.y} - {-1}):
            self.m[mir] = milp.var()
        if not model.free_copies:
            singles = {p for parts in self.parts.values() for p in parts}
            for store in graph.stores:
                if (store.stream is not None and singles & set(store.singles)) or store.sub in self.m:
                    for i, cost in enumerate(store.costs):
                        self.z[store.id, i] = milp.var(cost)

    def _add_layouts(self) -> None:
        """A base store has at least one layout, with layouts="one" exactly one; a MIR's store has one if the MIR is kept."""
        graph, milp = self.graph, self.milp
        for store in graph.stores:
            if (store.id, 0) not in self.z:
                continue
            z = [self.z[store.id, i] for i in range(len(store.layouts))]
            if store.sub is None:
                milp.row(z, [1.0] * len(z), 1.0, 1.0 if store.single_layout else float(len(z)))
            else:
                milp.row([*z, self.m[store.sub]], [1.0] * len(z) + [-1.0], 0.0, 0.0)

    def _layouts_needed(self, at: int) -> list[int] | None:
        """The layout variables of which the arc needs one; None where it works under any layout."""
        arc = self.graph.arcs[at]
        if not arc.layouts or self.graph.model.free_copies:
            return None
        return [self.z[arc.store, i] for i in arc.layouts]

    def _add_reachability(self) -> None:
        """An arc is used only if its tail is reached and its store is there; a node is reached only over an arc.

        Arcs into final nodes are left out: they are flows, whose rows say the same.
        """
        graph, milp = self.graph, self.milp
        for node in self.nodes:
            if node in self.s:
                milp.at_most([self.s[node]], [self.y[at] for at in graph.into[node]])
            steps: dict[tuple[int, int, int], list[int]] = {}
            for at in graph.out[node]:
                if at in self.y and graph.arcs[at].head not in self.final:
                    arc = graph.arcs[at]
                    # Under a single layout the arcs of one step exclude each other; under several they may be used side by side.
                    alternative = -1 if arc.probes >= 0 and graph.stores[arc.store].single_layout else at
                    steps.setdefault((arc.probes, graph.nodes[arc.head].sub, alternative), []).append(at)
            for (probes, _, _), arcs in steps.items():
                columns = [self.y[at] for at in arcs]
                if node in self.s:
                    milp.at_most(columns, [self.s[node]])
                if probes in self.m:
                    milp.at_most(columns, [self.m[probes]])
                for at in arcs:
                    layouts = self._layouts_needed(at)
                    if layouts is not None:
                        milp.at_most([self.y[at]], layouts)

    def _add_mirs(self) -> None:
        """A MIR is fed from every one of its relations."""
        for sub, m in self.m.items():
            for feeder in self.graph.feeders(sub):
                if feeder in self.s:
                    self.milp.at_most([m], [self.s[feeder]])
        for sub in self.m:
            self._add_level_cuts(sub)

    def _add_level_cuts(self, sub: int) -> None:
        """Whatever route feeds a MIR, it passes from at most `level` relations to more of them once, for every level below its size."""
        graph, milp = self.graph, self.milp
        size = graph.lattice.subs[sub].size
        if size < 3:
            return
        inside = set(graph.parts(Target.of_sub(sub)))
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
                cut = [y for size_before, size_after, y in steps if size_before <= level < size_after]
                milp.at_most([self.s[feeder]], cut)

    def _add_flow(self, target: Target, goal: int) -> None:
        """One unit from the root to the goal over arcs that are used.

        An arc into a final node of the target is used by whatever this flow uses, so that one variable is both. Flows to goals of other
        queries that contain this one have their own.
        """
        graph, milp = self.graph, self.milp
        origin = graph.nodes[goal].origin
        flow: dict[int, int] = {}
        by_mir: dict[int, list[int]] = {}
        by_layouts: dict[tuple[int, int, tuple[int, ...]], list[int]] = {}
        into: dict[int, list[int]] = {}
        out: dict[int, list[int]] = {}
        last: set[int] = set()  # variables that no row limits yet
        for sub in self.parts[target.sub]:
            for node in graph.nodes_of(sub):
                if graph.nodes[node].origin != origin or (node != goal and graph.nodes[node].placement in (FED, DELIVERED)):
                    continue
                for at in graph.into[node]:
                    arc = graph.arcs[at]
                    if node in self.final and sub == target.sub:
                        variable = flow[at] = self.y[at]
                        last.add(variable)
                    else:
                        variable = flow[at] = milp.var(integral=False)
                        milp.at_most([variable], [self.y[at]])
                    into.setdefault(node, []).append(variable)
                    out.setdefault(arc.tail, []).append(variable)
                    if arc.probes in self.m:
                        by_mir.setdefault(arc.probes, []).append(variable)
                    if self._layouts_needed(at) is not None:
                        by_layouts.setdefault((arc.store, arc.probes, arc.layouts), []).append(variable)
        for node, flow_in in into.items():
            if node == goal:
                milp.exactly(flow_in, 1.0)
            else:
                flow_out = out.get(node, [])
                milp.row([*flow_in, *flow_out], [1.0] * len(flow_in) + [-1.0] * len(flow_out), 0.0, 0.0)
        for sub, variables in by_mir.items():
            if len(variables) > 1 or variables[0] in last:
                milp.at_most(variables, [self.m[sub]])
        for (store, _, layouts), variables in by_layouts.items():
            if len(variables) > 1 or variables[0] in last:
                milp.at_most(variables, [self.z[store, i] for i in layouts])
        self.flows.append((goal, flow))

    def _add_rounds(self) -> None:
        """A round is paid for if some node is reached in it.

        An arc that no plan can use before a certain round needs that round outright, which is tight; how hops add up along a path is
        counted by big-M rows.
        """
        graph, milp = self.graph, self.milp
        max_rounds = 2 * max(graph.lattice.subs[target.sub].size for target in self.targets)
        self.extra_rounds = [milp.var(graph.model.round_cost) for _ in range(max_rounds - 1)]
        for earlier, later in itertools.pairwise(self.extra_rounds):
            milp.at_most([later], [earlier])
        earliest = self._earliest_rounds()
        big_m = float(max_rounds)
        for node in self.nodes:
            if graph.into[node]:
                self.rounds[node] = milp.var(integral=False, upper=big_m)
        for node, r in self.rounds.items():
            if graph.nodes[node].placement in (FED, DELIVERED):
                milp.row([r, *self.extra_rounds], [1.0] + [-1.0] * len(self.extra_rounds), upper=1.0)
            for at in graph.into[node]:
                arc, y = graph.arcs[at], self.y[at]
                feeders = graph.feeders(arc.probes) if arc.probes in self.m else []
                earliest_use = max([earliest[arc.tail] + arc.hop, *(earliest[feeder] for feeder in feeders)])
                if earliest_use > 1:
                    milp.at_most([y], [self.extra_rounds[earliest_use - 2]])
                    milp.row([r, y], [1.0, -float(earliest_use)], lower=0.0)
                if arc.tail in self.rounds:
                    milp.row([r, self.rounds[arc.tail], y], [1.0, -1.0, -big_m], lower=arc.hop - big_m)
                for feeder in feeders:
                    milp.row([r, self.rounds[feeder], y], [1.0, -1.0, -big_m], lower=-big_m)

    def _earliest_rounds(self) -> dict[int, int]:
        """Node → the earliest round in which any plan can reach it."""
        graph = self.graph
        earliest: dict[int, int] = {}
        for node in sorted(self.nodes, key=lambda n: (graph.lattice.subs[graph.nodes[n].sub].size, n)):
            rounds = []
            for at in graph.into[node]:
                arc = graph.arcs[at]
                arrival = earliest[arc.tail] + arc.hop
                if arc.probes in self.m:
                    arrival = max(arrival, *(earliest[feeder] for feeder in graph.feeders(arc.probes)))
                rounds.append(arrival)
            earliest[node] = min(rounds, default=1)
        return earliest

    # ---- to and from a solution -----------------------------------------------------------------------------
    def vector(self, solution: Solution) -> list[float]:
        """The values of all variables under the solution, as a start for the solver."""
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
            for node, arrival in arrival_rounds(graph, solution.into).items():
                if node in self.rounds:
                    x[self.rounds[node]] = arrival
            for i in range(solution.rounds - 1):
                x[self.extra_rounds[i]] = 1.0
        return x

    def read(self, x: Values) -> Solution:
        """The plan that the solver's values stand for. A node that several used arcs lead to keeps the cheapest."""
        graph = self.graph
        into: dict[int, int] = {}
        for at, y in self.y.items():
            head = graph.arcs[at].head
            if x[y] > 0.5 and (head not in into or graph.arcs[at].cost < graph.arcs[into[head]].cost):
                into[head] = at
        layouts: dict[int, list[int]] = {}
        for (store, i), z in self.z.items():
            if x[z] > 0.5:
                layouts.setdefault(store, []).append(i)
        return finish(graph, self.goals, into, layouts)
