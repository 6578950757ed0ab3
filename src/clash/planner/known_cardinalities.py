"""Known sizes of joins, as correction factors on what rates and selectivities estimate.

A key of streams stands for the join of one relation of each, whatever its predicates but without filters and residuals. A key of
predicates stands for the joins that have exactly these equalities. Filters and residuals in such a key must be present in the join; where
several keys differ in them only, the one with the most of them applies, and further filters of the join multiply its size as usual.

A factor is relative to the factors of the known joins inside it, small ones first. So a known join is estimated at its known size, and
larger joins inherit the correction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, permutations, product

from clash.model.expressions import Call, Col, Expr, relations
from clash.model.query import EqualityClass, SubJoin
from clash.model.relation import Relation
from clash.model.statistics import by_predicates, closed, column_text, equality_sides, is_equality

Classes = frozenset[frozenset[str]]


@dataclass(frozen=True)
class _KnownSize:
    """One entry of `Statistics.sizes`, its key parsed."""

    key: tuple[str, ...]
    size: float
    names: tuple[str, ...]
    """The relations as the key calls them (`S`, `S#2`), sorted."""
    streams: tuple[str, ...]
    """The stream of each of them, sorted, with repetitions."""
    classes: Classes | None
    """The equivalence classes of attributes; None where the key names streams only."""
    predicates: frozenset[str]
    """The filters and residuals, in normal form."""


class KnownSizes:
    """Matches sub-joins against all known sizes."""

    def __init__(self, sizes: Mapping[tuple[str, ...], float], estimate: Callable[[SubJoin], float]) -> None:
        """`estimate`: rows of a sub-join by rates and selectivities alone."""
        self._estimate = estimate
        self._factors: dict[tuple[tuple[str, ...], SubJoin], float] = {}
        by_streams: dict[tuple[str, ...], list[_KnownSize]] = {}
        for key, size in sizes.items():
            known_size = _parse_key(key, size)
            by_streams.setdefault(known_size.streams, []).append(known_size)
        # Small sets of streams first; of one set, the most specific keys first.
        order = sorted(by_streams.items(), key=lambda item: (len(item[0]), item[0]))
        self._groups = [
            (frozenset(streams), streams, sorted(group, key=lambda k: (k.classes is None, -len(k.predicates), k.key)))
            for streams, group in order
        ]

    def factor(self, join: SubJoin) -> float:
        """The factor by which the estimate of the join must be multiplied."""
        by_stream: dict[str, list[Relation]] = {}
        for relation in join.relations:
            by_stream.setdefault(relation.stream, []).append(relation)
        result = 1.0
        for distinct, streams, group in self._groups:
            if len(streams) > len(join.relations) or not distinct <= by_stream.keys():
                continue
            for chosen in _choices(streams, by_stream):
                match = self._match(join, chosen, group)
                if match is not None:
                    result *= self._factor_of(*match)
                    if match[0].classes is None:  # a key that names streams applies once, however often the streams occur
                        break
        return result

    def _match(self, join: SubJoin, chosen: tuple[Relation, ...], group: list[_KnownSize]) -> tuple[_KnownSize, SubJoin] | None:
        """The first known size that applies to the join of the chosen relations, and the join (without other filters) that it measures."""
        inside = frozenset(chosen)
        inner_classes: frozenset[EqualityClass] = frozenset(
            part for equal in join.classes if len(part := frozenset(a for a in equal if a.relation in inside)) > 1
        )
        for known_size in group:
            if known_size.classes is None:
                return known_size, replace(join.sub(chosen), filters=frozenset(), residuals=frozenset())
            for names in _namings(known_size, chosen):
                if (
                    frozenset(frozenset(column_text(names[a.relation], a.column) for a in equal) for equal in inner_classes)
                    != known_size.classes
                ):
                    continue
                predicates = (*join.filters, *join.residuals) if known_size.predicates else ()
                texts = {_text(e, names): e for e in predicates if relations(e) <= inside}
                if known_size.predicates <= texts.keys():
                    measured = {texts[text] for text in known_size.predicates}
                    whole = join.sub(chosen)
                    return known_size, replace(whole, filters=whole.filters & measured, residuals=whole.residuals & measured)
        return None

    def _factor_of(self, known_size: _KnownSize, join: SubJoin) -> float:
        """Of one join: queries may join the streams of a key by different predicates, and each of these joins has the known size."""
        key = known_size.key, join
        factor = self._factors.get(key)
        if factor is None:
            self._factors[key] = 1.0  # neutral while the factors of the smaller known joins inside are computed
            estimate = self._estimate(join) * self.factor(join)
            factor = self._factors[key] = known_size.size / estimate if estimate > 0 else 1.0
        return factor


def _parse_key(key: tuple[str, ...], size: float) -> _KnownSize:
    if not by_predicates(key):
        return _KnownSize(key, size, key, key, None, frozenset())
    pairs = [sides for part in key if (sides := equality_sides(part)) is not None]
    classes = frozenset(frozenset(group) for group in closed(pairs))
    names = tuple(sorted({member.partition(".")[0] for group in classes for member in group}))
    streams = tuple(sorted(name.partition("#")[0] for name in names))
    return _KnownSize(key, size, names, streams, classes, frozenset(part for part in key if not is_equality(part)))


def _choices(streams: tuple[str, ...], by_stream: Mapping[str, list[Relation]]) -> Iterator[tuple[Relation, ...]]:
    """All ways to choose, of each stream, as many relations as the key has."""
    counts = {stream: streams.count(stream) for stream in streams}
    if all(len(by_stream[stream]) == count for stream, count in counts.items()):
        yield tuple(relation for stream in counts for relation in by_stream[stream])
        return
    if any(len(by_stream[stream]) < count for stream, count in counts.items()):
        return
    for parts in product(*(combinations(sorted(by_stream[stream]), count) for stream, count in counts.items())):
        yield tuple(relation for part in parts for relation in part)


def _namings(known_size: _KnownSize, chosen: tuple[Relation, ...]) -> Iterator[dict[Relation, str]]:
    """All ways to assign the key's names to the chosen relations; several only where a stream occurs more than once."""
    if len(set(known_size.streams)) == len(known_size.streams):
        names = {name.partition("#")[0]: name for name in known_size.names}
        yield {relation: names[relation.stream] for relation in chosen}
        return
    for order in permutations(sorted(chosen)):
        if all(relation.stream == name.partition("#")[0] for relation, name in zip(order, known_size.names, strict=True)):
            yield dict(zip(order, known_size.names, strict=True))


def _text(expr: Expr, names: Mapping[Relation, str]) -> str:
    """The normal form of a predicate, with relations named as in the key."""
    if isinstance(expr, Col):
        return f"{names[expr.relation]}.{expr.column}"
    if isinstance(expr, Call):
        return f"{expr.op}({', '.join(_text(arg, names) for arg in expr.args)})"
    return str(expr)
