"""What real probes found.

A probe by a tuple of one origin finds the partners that came before it; the sum over all origins counts each combination once. Per
sub-join and origin it is known how many results so many tuples of the origin gave. The newest epoch counts in full, the one before half.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clash.model.query import SubJoin
from clash.model.relation import Relation
from clash.model.statistics import written

KEPT = 2  # epochs
DECAY = 0.5  # of an epoch beside the next one


@dataclass(frozen=True, slots=True)
class Probed:
    """What an edge's probe does: rows of `before`, which tuples of `origin` have become, meet `added` and become `bound`.

    Edges of one `group` with the same origin and result each find a part of the results (a store, and what was before it); edges of
    different groups find the same ones, once each.
    """

    origin: Relation
    before: SubJoin
    added: SubJoin
    bound: SubJoin
    group: str = ""


def size_key(join: SubJoin) -> tuple[str, ...]:
    """The sub-join as `Statistics.sizes` names it."""
    equalities = written([str(attribute) for attribute in equal] for equal in join.classes)
    return (*equalities, *sorted(str(e) for e in (*join.filters, *join.residuals)))


def name(join: SubJoin) -> str:
    """The sub-join with its windows, as one text."""
    windows = sorted(f"{relation} {window}" for relation, window in join.windows)
    return " & ".join([*size_key(join), *windows])


@dataclass(frozen=True)
class Found:
    """`results` of `tuples` of an origin, summed over epochs."""

    tuples: float = 0.0
    results: float = 0.0


@dataclass
class Probes:
    """`epochs`, newest last: sub-join and origin → what was found."""

    epochs: list[dict[tuple[str, str], Found]] = field(default_factory=list)

    def add(self, tuples: Mapping[str, float], matches: Mapping[str, tuple[int, int]], probed: Mapping[str, Probed]) -> None:
        groups: dict[tuple[str, str, str], float] = {}
        streams: dict[str, str] = {}
        for label, (_, found_rows) in matches.items():
            if (what := probed.get(label)) is not None:
                key = name(what.bound), str(what.origin), what.group
                groups[key] = groups.get(key, 0.0) + found_rows
                streams[key[1]] = what.origin.stream
        found: dict[tuple[str, str], Found] = {}
        for (join, origin, _), results in groups.items():
            held = found.get((join, origin), Found())
            found[join, origin] = Found(tuples.get(streams[origin], 0.0), max(held.results, results))
        self.epochs = [*self.epochs, found][-KEPT:]

    def of(self, join: SubJoin) -> dict[str, Found]:
        """By origin; newer epochs count more."""
        text, found = name(join), dict[str, Found]()
        for age, epoch in enumerate(reversed(self.epochs)):
            for origin in map(str, join.relations):
                one = epoch.get((text, origin))
                if one is not None:
                    held = found.get(origin, Found())
                    weight: float = DECAY**age
                    found[origin] = Found(held.tuples + weight * one.tuples, held.results + weight * one.results)
        return found

    def to_json(self) -> list[Any]:
        return [[[*key, one.tuples, one.results] for key, one in epoch.items()] for epoch in self.epochs]

    @staticmethod
    def from_json(data: list[Any]) -> Probes:
        return Probes([{(join, origin): Found(*one) for join, origin, *one in epoch} for epoch in data])
