"""What a query says of its streams' event times: τ_a ≤ τ_b + d, from residuals and from equal time columns."""

from __future__ import annotations

from itertools import permutations

from clash.model.expressions import Call, Col
from clash.model.relation import Relation
from clash.sql.predicates import Predicates
from clash.sql.scope import Scope
from clash.sql.time_bands import band

Bounds = frozenset[tuple[Relation, Relation, int]]


def read_bounds(predicates: Predicates, scope: Scope) -> Bounds:
    """`<` bounds as `<=` does: a microsecond less is not worth a rule of its own."""
    found: set[tuple[Relation, Relation, int]] = set()

    def is_time(col: Col) -> bool:
        return scope.of(col.relation).stream.time == col.column

    for expr in predicates.residuals:
        if not isinstance(expr, Call) or expr.op not in ("<", "<=", "="):
            continue
        told = band(expr.op, *expr.args)
        if told is not None and is_time(told[0]) and is_time(told[1]) and told[0].relation != told[1].relation:
            a, b, micros = told
            found.add((a.relation, b.relation, micros))
            if expr.op == "=":
                found.add((b.relation, a.relation, -micros))
    for group in predicates.classes:
        times = [col for col in map(scope.col, group) if is_time(col)]
        found |= {(a.relation, b.relation, 0) for a, b in permutations(times, 2) if a.type == b.type}
    return frozenset(found)
