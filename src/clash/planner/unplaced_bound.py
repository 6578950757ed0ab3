"""A bound under `full` for sets whose program is too large: where the rows of a partial result are is left out of its nodes.

The graph has one node per origin and sub-join. A step into a store under a certain layout costs what it costs at least, wherever its rows
are. What it costs more if they have to be sent is a variable of its own, which is 0 only if they may be on the right worker already: if the
step before, or the origin's own store, has a layout that leaves them there. A second round is needed where partial results are sent; later
rounds are left out. Every plan is a solution of this program that costs no more than the plan, so what the relaxation's duals prove holds
for all plans.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from clash.model.layout import ALL, ONE, Layout
from clash.planner.compact_program import CompactProgram
from clash.planner.deadline import Deadline
from clash.planner.graph import Arc, Graph
from clash.planner.placements import EVERY_WORKER, Placement, matches_layout

TOLERANCES = (1e-2, 1e-3)
MAX_COEFFICIENTS = 2_000_000  # what memory has room for, and the solver time


def unplaced_bound(graph: Graph, unplaced: Graph, deadline: Deadline) -> float:
    """No plan for the queries of `graph` costs less. 0 where nothing is proven at the deadline.

    `unplaced` is one of all plans for these queries, or for some of them: what a plan does for these costs no more than the plan, and
    of the other queries the first steps and base stores are added that these do not have.
    """
    program = unplaced_program(unplaced, is_part=len(unplaced.lattice.targets) < len(graph.lattice.targets))
    bound = -math.inf
    for tolerance in TOLERANCES:
        if deadline.passed or len(program.milp.columns) > MAX_COEFFICIENTS:
            break
        relaxation = program.milp.relax(deadline.left, tolerance, "pdlp")
        if relaxation is not None:
            bound = max(bound, relaxation.bound)
    first_round = graph.model.weights.round if graph.model.workers > 1 else 0.0
    return max(0.0, bound + first_round + _cost_of_rest(graph, unplaced))


def _cost_of_rest(graph: Graph, unplaced: Graph) -> float:
    """First steps and base stores of queries that the graph without placements does not contain."""
    model, subs, found = graph.model, graph.lattice.subs, unplaced.lattice.find
    joined = [target for target in graph.lattice.targets if subs[target.sub].size > 1]
    singles = {part for target in joined for part in target.parts if subs[part].size == 1 and subs[part].origins}
    cost = sum(subs[part].rows * model.weights.probe for part in singles if found(subs[part].join) is None)
    streams = {store.stream for store in unplaced.stores}
    cheapest = Layout("hash") if model.workers > 1 else ONE
    for store in graph.stores:
        if store.stream is not None and store.stream not in streams:
            cost += model.table(cheapest, store.rows) if store.is_table else model.store(cheapest, store.rows, 1, False)
    return cost


def unplaced_program(graph: Graph, is_part: bool = False) -> CompactProgram:
    """The compact program over a graph without placements, with what it costs to send rows. Its cost lacks the first round.

    `is_part`: whether there are other queries. They may have a use for layouts of a MIR that this graph does not know, so what it costs to
    feed one is left out.
    """
    program = CompactProgram(graph, graph.lattice.targets)
    if graph.model.workers > 1:
        second_round = program.milp.var(graph.model.weights.round)
        for at in list(program.y):
            if graph.arcs[at].probes >= 0:
                _add_sent_by_step(program, at, second_round)
        for mir in () if is_part else program.m:
            _add_sent_by_feeders(program, mir, second_round)
    return program


def _add_sent_by_step(program: CompactProgram, at: int, second_round: int) -> None:
    """The step is used only if its rows may be on the right worker, or are sent. Rows that are anywhere can probe a replicated store."""
    graph, milp = program.graph, program.milp
    arc = graph.arcs[at]
    layout = _layouts(graph, arc)[0]  # if there are several, every one makes every row a broadcast
    tail = graph.nodes[arc.tail]
    before, after = graph.lattice.subs[tail.sub], graph.nodes[arc.head].sub
    if layout == ALL:
        return
    is_broadcast = not graph.key_known(layout, tail.sub, arc.probes, after)

    def may_stay(placement: Placement) -> bool:
        return placement == EVERY_WORKER if is_broadcast else graph.stays(placement, layout, tail.sub, arc.probes, after)

    if before.size == 1:
        store = graph.find_store(before)
        own = [] if store is None else list(enumerate(store.layouts))
        staying = [program.z[store.id, i] for i, kept in own if store is not None and may_stay(graph.origin_placement(before, kept))]
    else:
        staying = [program.y[last] for last in graph.into[arc.tail] if _may_leave(program, last, may_stay)]
    copies = graph.model.workers if is_broadcast else 1
    sent = milp.var(before.sends * graph.model.weights.send * copies, integral=False)
    milp.at_most([program.y[at]], [sent, *staying])
    if before.size > 1:
        milp.at_most([sent], [second_round])


def _add_sent_by_feeders(program: CompactProgram, mir: int, second_round: int) -> None:
    """A MIR's store has a layout only if the rows that feed it may be where it keeps them, or are sent."""
    graph, milp = program.graph, program.milp
    sub = graph.lattice.subs[mir]
    store = graph.store_of(sub)
    for feeder in graph.feeders(mir):
        tails = [graph.arcs[at].tail for at in graph.into[feeder]]
        sent = milp.var(sub.sends * graph.model.weights.send, integral=False)
        milp.at_most([sent], [second_round])
        for i, layout in enumerate(store.layouts):
            staying = [
                program.y[last]
                for tail in tails
                for last in graph.into[tail]
                if _may_leave(program, last, partial(matches_layout, layout=layout))
            ]
            milp.at_most([program.z[store.id, i]], [sent, *staying])


def _may_leave(program: CompactProgram, at: int, fits: Callable[[Placement], bool]) -> bool:
    """Whether the step may leave its rows where `fits` says. One into a replicated store leaves them where they were: it may."""
    graph = program.graph
    arc = graph.arcs[at]
    after = graph.nodes[arc.head].sub
    return any(layout == ALL or fits(graph.placement_after(layout, arc.probes, after)) for layout in _layouts(graph, arc))


def _layouts(graph: Graph, arc: Arc) -> list[Layout]:
    """The layouts under which the step works."""
    layouts = graph.stores[arc.store].layouts
    return [layouts[i] for i in arc.layouts] if arc.layouts else layouts
