"""A sub-join the way estimates look at it: per class the key of each relation, per relation its predicates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clash.model.expressions import relations
from clash.model.query import SubJoin
from clash.model.relation import Relation
from clash.model.stream import Stream
from clash.statistics.stream_view import View
from clash.statistics.collection_spec import Wanted, as_stream, same_tuple

UNKNOWN = 1 / 3  # the share of tuples that pass a predicate nobody looked at
ENOUGH = 30  # sampled rows that pass, to trust a sample of several predicates together


@dataclass(frozen=True)
class Shape:
    """`classes`: relation → name of its key, for each class of at least two relations."""

    relations: tuple[Relation, ...]
    classes: tuple[Mapping[Relation, str], ...]
    predicates: Mapping[Relation, tuple[str, ...]]

    def near(self, bound: frozenset[Relation], relation: Relation) -> list[int]:
        """The classes that join the relation with what is bound."""
        return [c for c, keys in enumerate(self.classes) if relation in keys and not bound.isdisjoint(keys)]

    def connected(self, some: frozenset[Relation]) -> bool:
        if not some:
            return False
        seen, todo = {min(some)}, [min(some)]
        while todo:
            at = todo.pop()
            for keys in self.classes:
                if at in keys:
                    more = [r for r in keys if r in some and r not in seen]
                    seen |= set(more)
                    todo += more
        return len(seen) == len(some)

    def sub(self, some: frozenset[Relation]) -> Shape:
        cut = ({r: key for r, key in keys.items() if r in some} for keys in self.classes)
        return Shape(
            tuple(r for r in self.relations if r in some),
            tuple(keys for keys in cut if len(keys) > 1),
            {r: texts for r, texts in self.predicates.items() if r in some},
        )


def shape_of(join: SubJoin, wanted: Wanted, streams: Mapping[str, Stream]) -> Shape | None:
    """None where a key of it is not gathered."""
    classes = []
    predicates: dict[Relation, list[str]] = {}
    for equal in join.classes:
        keys: dict[Relation, str] = {}
        for attribute in sorted(equal):
            key = wanted.key(attribute.relation.stream, attribute.column)
            if key is None:
                return None
            if attribute.relation in keys:
                first = keys[attribute.relation].split()[0]
                inner = same_tuple(attribute.relation.stream, first, attribute.column, streams)
                predicates.setdefault(attribute.relation, []).append(str(inner))
            else:
                keys[attribute.relation] = str(key)
        if len(keys) > 1:
            classes.append(keys)
    for filter_ in join.filters:
        if len(of := relations(filter_)) == 1:
            predicates.setdefault(next(iter(of)), []).append(str(as_stream(filter_)))
    ordered = sorted(classes, key=lambda keys: sorted(map(str, keys)))
    return Shape(tuple(sorted(join.relations)), tuple(ordered), {r: tuple(sorted(texts)) for r, texts in predicates.items()})


def passing(view: View, predicates: tuple[str, ...]) -> float:
    """The share of a stream's tuples for which all predicates hold."""
    shares = [UNKNOWN if (share := view.share(text)) is None else share for text in predicates]
    product = 1.0
    for share in shares:
        product *= share
    if len(predicates) > 1 and None in view.samples:  # together, not one by one
        whole = view.samples[None]
        part = whole.passing(predicates)
        if part.sample.rows >= ENOUGH:
            return float(part.weights.sum() / whole.weights.sum())
    return product
