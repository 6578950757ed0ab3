"""How many results the probes of the engine have found.

A probe by a tuple of one origin finds the partners that arrived before it; the sum over all origins counts each combination once. Per
sub-join and origin it is recorded how many results so many tuples of the origin had. The newest epoch counts in full, the one before half.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from clash.model.query import SubJoin
from clash.model.relation import Relation
from clash.model.statistics import column_text, written

MAX_EPOCHS = 2  # that are retained
DECAY = 0.5  # weight of an epoch relative to the next one


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """What the probe on an edge does: rows of `before` meet `added` and become `bound`."""

    origin: Relation
    """The relation whose tuples have become the rows that probe."""
    before: SubJoin
    added: SubJoin
    bound: SubJoin
    group: str = ""
    """Edges of one group with the same origin and `bound` each find a part of the results (one in a store, one in what was stored before
    it); edges of different groups find the same results, once each."""


def size_key(join: SubJoin) -> tuple[str, ...]:
    """The name of a sub-join in `Statistics.sizes`."""
    equalities = written([column_text(attribute.relation, attribute.column) for attribute in equal] for equal in join.classes)
    return (*equalities, *sorted(str(e) for e in (*join.filters, *join.residuals)))


def _join_name(join: SubJoin) -> str:
    """The predicates and windows of a sub-join as one text."""
    windows = sorted(f"{relation} {window}" for relation, window in join.windows)
    return " & ".join([*size_key(join), *windows])


@dataclass(frozen=True)
class ProbeCounts:
    """Tuples of an origin and the results that they found, summed over epochs."""

    tuples: float = 0.0
    results: float = 0.0


@dataclass
class ProbeFeedback:
    """Probe counts of the last epochs."""

    epochs: list[dict[tuple[str, str], ProbeCounts]] = field(default_factory=list)
    """Newest last; by name of the sub-join and origin."""

    def add(self, tuples: Mapping[str, float], matches: Mapping[str, tuple[float, float]], steps: Mapping[str, ProbeStep]) -> None:
        """One more epoch: tuples per stream, and per edge label its step and the rows that went into its probe and came out."""
        groups: dict[tuple[str, str, str], float] = {}
        streams: dict[str, str] = {}
        for label, (_, results) in matches.items():
            if (step := steps.get(label)) is not None:
                origin = str(step.origin)
                group = _join_name(step.bound), origin, step.group
                groups[group] = groups.get(group, 0.0) + results
                streams[origin] = step.origin.stream
        counts: dict[tuple[str, str], ProbeCounts] = {}
        for (join, origin, _), summed in groups.items():
            before = counts.get((join, origin), ProbeCounts())
            counts[join, origin] = ProbeCounts(tuples.get(streams[origin], 0.0), max(before.results, summed))
        self.epochs = [*self.epochs, counts][-MAX_EPOCHS:]

    def of(self, join: SubJoin) -> dict[str, ProbeCounts]:
        """The counts of a sub-join by origin; newer epochs weigh more."""
        name, sums = _join_name(join), dict[str, ProbeCounts]()
        for age, epoch in enumerate(reversed(self.epochs)):
            weight: float = DECAY**age
            for origin in map(str, join.relations):
                counts = epoch.get((name, origin))
                if counts is not None:
                    before = sums.get(origin, ProbeCounts())
                    sums[origin] = ProbeCounts(before.tuples + weight * counts.tuples, before.results + weight * counts.results)
        return sums
