"""Pass: what the predicates imply for event times, τ_a ≤ τ_b + d, from residuals and from equal time columns."""

from __future__ import annotations

from itertools import permutations

from clash.model.expressions import Call, Col
from clash.model.relation import Relation
from clash.sql.draft import QueryDraft
from clash.sql.time_bands import as_band


def derive_time_bounds(draft: QueryDraft) -> None:
    """Sets `time_bounds`. `<` gives the same bound as `<=`: one microsecond less retained does not justify a case of its own."""
    scope = draft.scope
    bounds: set[tuple[Relation, Relation, int]] = set()

    def is_time(col: Col) -> bool:
        return scope.alias_of(col.relation).stream.time == col.column

    for expr in draft.predicates.residuals:
        if not isinstance(expr, Call) or expr.op not in ("<", "<=", "="):
            continue
        band = as_band(expr.op, *expr.args)
        if band is not None and is_time(band.a) and is_time(band.b) and band.a.relation != band.b.relation:
            bounds.add((band.a.relation, band.b.relation, band.micros + band.slack))
            if expr.op == "=":
                bounds.add((band.b.relation, band.a.relation, -band.micros + band.slack))
    for group in draft.predicates.classes:
        times = [col for col in map(scope.col, group) if is_time(col)]
        bounds |= {(a.relation, b.relation, 0) for a, b in permutations(times, 2) if a.type == b.type}
    draft.time_bounds = frozenset(bounds)
