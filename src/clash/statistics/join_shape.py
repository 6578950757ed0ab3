"""A sub-join as the estimators read it: per equality class the key of each relation, per relation its predicates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clash.model.expressions import relations
from clash.model.query import SubJoin
from clash.model.relation import Relation
from clash.model.stream import Stream
from clash.plan.collection_spec import CollectionSpec, equality_in_tuple, without_alias
from clash.statistics.stream_view import StreamView

DEFAULT_PASSING_SHARE = 1 / 3  # of tuples that pass a predicate that was never evaluated
MIN_PASSING_ROWS = 30  # of a sample, to trust it for several predicates together


@dataclass(frozen=True)
class JoinShape:
    """A sub-join without windows and residuals."""

    relations: tuple[Relation, ...]
    classes: tuple[Mapping[Relation, str], ...]
    """For each equality class of at least two relations: relation → name of its key."""
    predicates: Mapping[Relation, tuple[str, ...]]
    """Texts of the predicates on single tuples."""

    def joining_classes(self, bound: frozenset[Relation], relation: Relation) -> list[int]:
        """The numbers of the classes that join the relation with one that is bound."""
        return [c for c, keys in enumerate(self.classes) if relation in keys and not bound.isdisjoint(keys)]

    def connected(self, subset: frozenset[Relation]) -> bool:
        """Whether the classes connect all relations of the subset."""
        if not subset:
            return False
        first = min(subset)
        reached, pending = {first}, [first]
        while pending:
            relation = pending.pop()
            for keys in self.classes:
                if relation in keys:
                    neighbours = [r for r in keys if r in subset and r not in reached]
                    reached |= set(neighbours)
                    pending += neighbours
        return len(reached) == len(subset)

    def sub(self, subset: frozenset[Relation]) -> JoinShape:
        """The shape of the join of a subset of the relations."""
        classes = ({r: key for r, key in keys.items() if r in subset} for keys in self.classes)
        return JoinShape(
            tuple(r for r in self.relations if r in subset),
            tuple(keys for keys in classes if len(keys) > 1),
            {r: texts for r, texts in self.predicates.items() if r in subset},
        )


def shape_of(join: SubJoin, spec: CollectionSpec, streams: Mapping[str, Stream]) -> JoinShape | None:
    """The shape of a sub-join; None where one of its keys is not collected."""
    classes = []
    predicates: dict[Relation, list[str]] = {}
    for equal in join.classes:
        keys: dict[Relation, str] = {}
        for attribute in sorted(equal):
            key = spec.key(attribute.relation.stream, attribute.column)
            if key is None:
                return None
            if attribute.relation in keys:
                first_column = keys[attribute.relation].split()[0]
                equality = equality_in_tuple(attribute.relation.stream, first_column, attribute.column, streams)
                predicates.setdefault(attribute.relation, []).append(str(equality))
            else:
                keys[attribute.relation] = str(key)
        if len(keys) > 1:
            classes.append(keys)
    for filter_ in join.filters:
        if len(read := relations(filter_)) == 1:
            predicates.setdefault(next(iter(read)), []).append(str(without_alias(filter_)))
    ordered = sorted(classes, key=lambda keys: sorted(map(str, keys)))
    return JoinShape(tuple(sorted(join.relations)), tuple(ordered), {r: tuple(sorted(texts)) for r, texts in predicates.items()})


def passing_share(view: StreamView, predicates: tuple[str, ...]) -> float:
    """The share of a stream's tuples for which all predicates hold: by the sample, which shows how they correlate, or as if independent."""
    product = 1.0
    for text in predicates:
        share = view.passing_share(text)
        product *= DEFAULT_PASSING_SHARE if share is None else share
    if len(predicates) > 1 and None in view.samples:
        sample = view.samples[None]
        passing = sample.passing(predicates)
        if passing.sample.rows >= MIN_PASSING_ROWS:
            return float(passing.weights.sum() / sample.weights.sum())
    return product
