"""Known sizes of joins, as factors on what rates and selectivities say.

A key of streams means the join of one relation of each, whatever its predicates but without filters and residuals; a key of
predicates means the joins that have exactly these equalities. Filters and residuals in such a key must be there; where several
keys differ in them only, the one with the most of them counts; further filters come on top. A factor is relative to the factors of
the known joins inside it, small ones first, so a known join comes out with its size and larger ones inherit what it tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, permutations, product

from clash.model.expressions import Call, Col, Expr, relations
from clash.model.query import EqualityClass, SubJoin
from clash.model.relation import Relation
from clash.model.statistics import by_predicates, closed, is_equality

Classes = frozenset[frozenset[str]]


@dataclass(frozen=True)
class _Known:
    """`names` are relations as the key calls them, sorted; `streams` those of each. `classes` is None where the key names streams."""

    key: tuple[str, ...]
    size: float
    names: tuple[str, ...]
    streams: tuple[str, ...]
    classes: Classes | None
    predicates: frozenset[str]


class KnownSizes:
    def __init__(self, sizes: Mapping[tuple[str, ...], float], independent: Callable[[SubJoin], float]) -> None:
        """`independent`: rows of a sub-join by rates and selectivities alone."""
        self._independent = independent
        self._factors: dict[tuple[str, ...], float] = {}
        groups: dict[tuple[str, ...], list[_Known]] = {}
        for key, size in sizes.items():
            known = _read(key, size)
            groups.setdefault(known.streams, []).append(known)
        # by streams, small sets first; of one set the keys that ask for most come first
        order = sorted(groups.items(), key=lambda item: (len(item[0]), item[0]))
        self._groups = [
            (frozenset(streams), streams, sorted(all_, key=lambda k: (k.classes is None, -len(k.predicates), k.key)))
            for streams, all_ in order
        ]

    def factor(self, join: SubJoin) -> float:
        """What to multiply the independent estimate of the join with."""
        by_stream: dict[str, list[Relation]] = {}
        for relation in join.relations:
            by_stream.setdefault(relation.stream, []).append(relation)
        result = 1.0
        for needed, streams, group in self._groups:
            if len(streams) > len(join.relations) or not needed <= by_stream.keys():
                continue
            for chosen in _choices(streams, by_stream):
                found = self._match(join, chosen, group)
                if found is not None:
                    result *= self._factor_of(*found)
                    if found[0].classes is None:  # the streams alone are named: once, however often they are there
                        break
        return result

    def _match(self, join: SubJoin, chosen: tuple[Relation, ...], group: list[_Known]) -> tuple[_Known, SubJoin] | None:
        """The first known size that the join of the chosen relations has, and the plain join that it is the size of."""
        inside = frozenset(chosen)
        cut: frozenset[EqualityClass] = frozenset(
            part for equal in join.classes if len(part := frozenset(a for a in equal if a.relation in inside)) > 1
        )
        for known in group:
            if known.classes is None:
                return known, replace(join.sub(chosen), filters=frozenset(), residuals=frozenset())
            for names in _namings(known, chosen):
                if frozenset(frozenset(f"{names[a.relation]}.{a.column}" for a in equal) for equal in cut) != known.classes:
                    continue
                texts = {_text(e, names): e for e in (*join.filters, *join.residuals) if relations(e) <= inside} if known.predicates else {}
                if known.predicates <= texts.keys():
                    kept = {texts[text] for text in known.predicates}
                    whole = join.sub(chosen)
                    return known, replace(whole, filters=whole.filters & kept, residuals=whole.residuals & kept)
        return None

    def _factor_of(self, known: _Known, part: SubJoin) -> float:
        found = self._factors.get(known.key)
        if found is None:
            self._factors[known.key] = 1.0  # its own does not count here
            estimate = self._independent(part) * self.factor(part)
            found = self._factors[known.key] = known.size / estimate if estimate > 0 else 1.0
        return found


def _read(key: tuple[str, ...], size: float) -> _Known:
    if not by_predicates(key):
        return _Known(key, size, key, key, None, frozenset())
    pairs = [part.split(" = ") for part in key if is_equality(part)]
    classes = frozenset(frozenset(group) for group in closed((left, right) for left, right in pairs))
    names = tuple(sorted({member.partition(".")[0] for group in classes for member in group}))
    streams = tuple(sorted(name.partition("#")[0] for name in names))
    return _Known(key, size, names, streams, classes, frozenset(part for part in key if not is_equality(part)))


def _choices(streams: tuple[str, ...], by_stream: Mapping[str, list[Relation]]) -> Iterator[tuple[Relation, ...]]:
    """One set of relations per way to take as many of each stream as the key has."""
    wanted = {stream: streams.count(stream) for stream in streams}
    if all(len(by_stream[stream]) == count for stream, count in wanted.items()):
        yield tuple(relation for stream in wanted for relation in by_stream[stream])
        return
    if any(len(by_stream[stream]) < count for stream, count in wanted.items()):
        return
    for some in product(*(combinations(sorted(by_stream[stream]), count) for stream, count in wanted.items())):
        yield tuple(relation for part in some for relation in part)


def _namings(known: _Known, chosen: tuple[Relation, ...]) -> Iterator[dict[Relation, str]]:
    """The ways to call the chosen relations as the key does."""
    if len(set(known.streams)) == len(known.streams):
        names = {name.partition("#")[0]: name for name in known.names}
        yield {relation: names[relation.stream] for relation in chosen}
        return
    for order in permutations(sorted(chosen)):
        if all(relation.stream == name.partition("#")[0] for relation, name in zip(order, known.names, strict=True)):
            yield dict(zip(order, known.names, strict=True))


def _text(expr: Expr, names: Mapping[Relation, str]) -> str:
    """The normal form of a predicate, with relations called as in the key."""
    if isinstance(expr, Col):
        return f"{names[expr.relation]}.{expr.column}"
    if isinstance(expr, Call):
        return f"{expr.op}({', '.join(_text(arg, names) for arg in expr.args)})"
    return str(expr)
