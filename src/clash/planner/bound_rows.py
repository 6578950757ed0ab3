"""Valid rows that tighten the relaxation of the compact program, and so its lower bound.

No plan violates them: a query's own part of a plan costs at least what the query costs alone, and a store under a layout that a query has
no use for makes the query broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from clash.model.relation import Relation
from clash.planner.compact_program import CompactProgram
from clash.planner.lattice import Target

_SAFE = 1 - 1e-9  # the right-hand side of rows that are scaled to 1, against rounding


def add_isolated_rows(program: CompactProgram, isolated: Mapping[int, float]) -> None:
    """A query's own steps cost at least what the query costs alone. The program must be one under `probe` costs.

    `isolated`: sub of a target → a lower bound on what its own steps cost in any plan.
    """
    for target in program.targets:
        bound = isolated.get(target.sub, 0.0)
        if bound > 0.0:
            arcs = _arcs(program, target)
            program.milp.row([program.y[at] for at in arcs], [_tuples_sent(program, at) / bound for at in arcs], lower=_SAFE)


def add_broadcast_rows(program: CompactProgram) -> None:
    """A store under a layout of no use to a query makes the query broadcast. The program must be one under `probe` costs."""
    if not program.graph.model.free_copies:
        for target in program.targets:
            _add_broadcast_rows(program, target, _arcs(program, target))


def _arcs(program: CompactProgram, target: Target) -> list[int]:
    """All steps inside the target."""
    graph = program.graph
    return [at for sub in program.parts[target.sub] for node in graph.nodes_of(sub) for at in graph.into[node]]


def _tuples_sent(program: CompactProgram, at: int) -> float:
    """The tuples that a step sends, each counted once however many workers it goes to: isolated bounds do not count broadcasts."""
    graph = program.graph
    tail = graph.lattice.subs[graph.nodes[graph.arcs[at].tail].sub]
    return tail.sends


def _add_broadcast_rows(program: CompactProgram, target: Target, arcs: list[int]) -> None:
    """A base store under a layout that is of no use to the query forces broadcasts of at least the least traffic into that store."""
    graph = program.graph
    by_single: dict[int, list[int]] = {}  # one-relation sub → the steps that probe it
    for at in arcs:
        if graph.lattice.subs[graph.arcs[at].probes].size == 1:
            by_single.setdefault(graph.arcs[at].probes, []).append(at)
    for single, steps in by_single.items():
        sent = {at: _tuples_sent(program, at) for at in steps}
        least = min(graph.arcs[at].cost / sent[at] for at in steps) if all(sent[at] > 0 for at in steps) else 0.0
        targeted = {at for at in steps if graph.arcs[at].layouts and graph.arcs[at].cost <= sent[at] * least * (1 + 1e-9)}
        useful = sorted({i for at in targeted for i in graph.arcs[at].layouts})
        store = graph.store_of(graph.lattice.subs[single])
        if not useful or len(useful) == len(store.layouts):
            continue
        traffic = _least_traffic(program, target, single)
        if traffic > 0.0:
            broadcasts = [at for at in steps if at not in targeted]
            program.milp.row(
                [*(program.y[at] for at in broadcasts), *(program.z[store.id, i] for i in useful)],
                [*(sent[at] / traffic for at in broadcasts), *(1.0 for _ in useful)],
                lower=_SAFE,
            )


def _least_traffic(program: CompactProgram, target: Target, single: int) -> float:
    """The least number of tuples that any plan for the target sends into the store of the one-relation sub.

    Whatever the plan, the smallest MIR around the relation (or the query itself) is fed by probes of the relation's own store.
    """
    subs = program.graph.lattice.subs
    relation = subs[single].relations[0]
    probes: dict[Relation, list[tuple[frozenset[Relation], float]]] = {}  # origin → (relations before the probe, tuples sent)
    for part in program.parts[target.sub]:
        if relation not in subs[part].join.relations:
            continue
        for a, b in subs[part].splits:
            if single in (a, b):
                other = subs[b if a == single else a]
                for origin in other.origins:
                    probes.setdefault(origin, []).append((frozenset(other.relations), other.sends))
    best = 0.0 if len(subs[target.sub].relations) < 2 else math.inf
    for part in program.parts[target.sub]:
        around = subs[part].join.relations
        if relation not in around or len(around) < 2:
            continue
        total = 0.0
        for origin in set(subs[part].origins) - {relation}:
            total += min((sent for inside, sent in probes.get(origin, ()) if inside <= around), default=math.inf)
        best = min(best, total)
    return 0.0 if math.isinf(best) else best
