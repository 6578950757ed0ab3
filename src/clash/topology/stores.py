"""What a store keeps, for how long, and by which columns it is looked up.

Invariant: a row outside `keeps`, a column outside `columns` or a row past `horizons` can be part of no result of a live query
to come. For base stores all live queries on the stream count; for a MIR all that contain it.
"""

from __future__ import annotations

from collections.abc import Iterable

from clash.model.canonical_text import expression_key
from clash.model.expressions import Call, Col, Expr
from clash.model.layout import Layout
from clash.model.query import Query
from clash.model.relation import Attribute, Relation
from clash.plan.logical import StoreKey
from clash.plan.store_names import store_id
from clash.plan.topology import Position, RowFilter, Store
from clash.topology.columns import kept_columns
from clash.topology.equality import Streams, linking
from clash.topology.trees import Node


def readers(key: StoreKey, queries: Iterable[Query]) -> list[Query]:
    """The queries that a store is kept for; one of a single relation reads no store."""
    mine = [q for q in queries if key.owner in (None, q.name) and len(q.join.relations) > 1]
    if key.join is not None:
        return [q for q in mine if q.contains(key.join)]
    return [q for q in mine if any(r.stream == key.stream for r in q.join.relations)]


def describe(
    key: StoreKey, layouts: tuple[Layout, ...], queries: list[Query], nodes: list[Node], fill: Position, streams: Streams
) -> Store:
    """`queries` are its readers, `nodes` all steps of the forest."""
    return Store(
        id=store_id(key),
        stream=key.stream,
        join=key.join,
        owner=key.owner,
        layouts=layouts,
        columns=kept_columns(key, layouts, queries, streams),
        row_filters=_row_filters(key, queries, streams),
        access=_access(key, nodes),
        horizons=_horizons(key, queries, streams),
        fill=fill,
    )


def _row_filters(key: StoreKey, queries: list[Query], streams: Streams) -> tuple[RowFilter, ...]:
    everything = RowFilter((), ())
    if key.join is not None or streams[str(key.stream)].keep == "all":
        return (everything,)
    found: dict[RowFilter, None] = {}
    for query in queries:
        for relation in sorted(r for r in query.join.relations if r.stream == key.stream):
            part = query.join.sub([relation])
            filters = tuple(sorted({as_stored(f) for f in part.filters}, key=expression_key))
            keys = tuple(sorted({a.column for equal in query.join.classes for a in equal if a.relation == relation}))
            found[RowFilter(filters, keys)] = None
    # what asks for more than another one lets no further row in
    return tuple(f for f in found if not any(o != f and set(o.filters) <= set(f.filters) and set(o.keys) <= set(f.keys) for o in found))


def as_stored(expression: Expr) -> Expr:
    """The expression over a stored row, which has no role yet: relation 0 of its stream."""
    if isinstance(expression, Col):
        return Col(Relation(expression.relation.stream), expression.column, expression.type)
    if isinstance(expression, Call):
        return Call(expression.op, tuple(as_stored(arg) for arg in expression.args), expression.type)
    return expression


def _access(key: StoreKey, nodes: list[Node]) -> tuple[tuple[Attribute, ...], ...]:
    paths = set()
    for node in nodes:
        if node.store == key and node.parent is not None and node.adds is not None:
            stored = {stored for _, stored, _ in linking(node.bound, node.parent.bound, node.adds)}
            paths.add(tuple(sorted(as_column(key, attribute) for attribute in stored)))
    return tuple(sorted(paths))


def as_column(key: StoreKey, attribute: Attribute) -> Attribute:
    """The stored column that an attribute of the query reads."""
    return attribute if key.join is not None else Attribute(Relation(str(key.stream)), attribute.column)


def _horizons(key: StoreKey, queries: list[Query], streams: Streams) -> tuple[tuple[Relation, int | None], ...]:
    spans: dict[Relation, list[int | None]] = {}
    if key.join is None and streams[str(key.stream)].keep == "all":
        spans[Relation(str(key.stream))] = [streams[str(key.stream)].window]
    for query in queries:
        inside = key.join.relations if key.join is not None else {r for r in query.join.relations if r.stream == key.stream}
        for (k, j), span in query.reach().items():
            if k in inside and k != j and (key.join is None or j not in inside):
                spans.setdefault(k if key.join is not None else Relation(k.stream), []).append(span)
    found: list[tuple[Relation, int | None]] = []
    for relation, asked in sorted(spans.items()):
        bounded = [span for span in asked if span is not None]
        found.append((relation, max(bounded) if len(bounded) == len(asked) else None))
    return tuple(found)
