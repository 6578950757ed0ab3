"""A query, and the sub-joins by which queries share.

Invariant: two sub-joins are one (one MIR, one step) iff relations, equivalence classes, filters, residuals and
windows on them are equal. Classes are closed over the whole query *before* they are cut down to a sub-join.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from clash.model.expressions import Expr, relations
from clash.model.relation import Attribute, Relation

EqualityClass = frozenset[Attribute]


@dataclass(frozen=True, slots=True)
class SubJoin:
    """`windows` are (relation, microseconds or None for unbounded)."""

    relations: frozenset[Relation]
    classes: frozenset[EqualityClass]
    filters: frozenset[Expr]
    residuals: frozenset[Expr]
    windows: frozenset[tuple[Relation, int | None]]

    def sub(self, keep: Iterable[Relation]) -> SubJoin:
        """What of this join concerns `keep` alone."""
        keep = frozenset(keep)
        cut = (frozenset(a for a in c if a.relation in keep) for c in self.classes)
        return SubJoin(
            keep,
            frozenset(c for c in cut if len(c) > 1),
            frozenset(f for f in self.filters if relations(f) <= keep),
            frozenset(r for r in self.residuals if relations(r) <= keep),
            frozenset(w for w in self.windows if w[0] in keep),
        )

    def __str__(self) -> str:
        return " ⋈ ".join(str(r) for r in sorted(self.relations))


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the result."""

    name: str
    expression: Expr


@dataclass(frozen=True, slots=True)
class Query:
    """`aliases` are in the order of the text. `links` are the pairs that may be joined without an equality (`CROSS JOIN`).

    `bounds` are what residuals say of event times: (a, b, d) means τ_a ≤ τ_b + d microseconds.
    """

    name: str
    text: str
    join: SubJoin
    aliases: tuple[tuple[str, Relation], ...]
    outputs: tuple[Output, ...]
    links: frozenset[frozenset[Relation]] = frozenset()
    bounds: frozenset[tuple[Relation, Relation, int]] = frozenset()

    def contains(self, part: SubJoin) -> bool:
        return part.relations <= self.join.relations and self.join.sub(part.relations) == part

    def reach(self) -> dict[tuple[Relation, Relation], int | None]:
        """D[k, j]: the largest τ_j − τ_k that a result allows, by shortest paths; None where nothing bounds it."""
        rels = sorted(self.join.relations)
        reach: dict[tuple[Relation, Relation], int | None] = {}
        for k, window in self.join.windows:
            for j in rels:
                reach[k, j] = 0 if j == k else window
        for a, b, most in self.bounds:
            held = reach[b, a]
            reach[b, a] = most if held is None else min(held, most)
        for m, k, j in itertools.product(rels, rels, rels):
            first, second, held = reach[k, m], reach[m, j], reach[k, j]
            if first is not None and second is not None and (held is None or first + second < held):
                reach[k, j] = first + second
        return reach
