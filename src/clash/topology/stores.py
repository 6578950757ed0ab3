"""Which rows and columns a store retains, for how long, and by which columns its rows are looked up.

Invariant: a row that no row filter retains, a column outside `columns`, or a row past its horizons can be part of no future result of a
live query. For a base store all live queries on the stream count; for the store of a MIR, all of whose results its rows can be parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from clash.model.canonical_text import expression_key
from clash.model.query import Query
from clash.model.relation import Attribute, Relation
from clash.plan.collection_spec import without_alias
from clash.plan.logical import StoreKey
from clash.plan.store_names import store_id
from clash.plan.topology import FIRST, Position, RowFilter, Store
from clash.topology.columns import stored_columns
from clash.topology.equality import Streams, links_between
from clash.topology.partitioning import Layouts
from clash.topology.trees import Node


def readers(key: StoreKey, queries: Iterable[Query]) -> list[Query]:
    """The queries that a store is kept for. A query of a single stream reads no store of it: nothing that arrives later joins it."""
    owners = [q for q in queries if key.owner in (None, q.name)]
    if key.join is not None:
        return [q for q in owners if q.refines(key.join)]
    return [q for q in owners if any(r.stream == key.stream for r in (q.join.relations if len(q.streams) > 1 else q.tables))]


def describe_stores(
    layouts: Layouts, queries: Iterable[Query], nodes: Iterable[Node], fills: Mapping[StoreKey, Position], streams: Streams
) -> dict[StoreKey, Store]:
    """The stores of a plan; `nodes` are all steps of its trees, `fills` the positions from which intermediate stores have their rows."""
    queries, nodes = list(queries), list(nodes)
    stores = {}
    for key, store_layouts in layouts.items():
        reading = readers(key, queries)
        stores[key] = Store(
            id=store_id(key),
            stream=key.stream,
            join=key.join,
            owner=key.owner,
            layouts=store_layouts,
            columns=stored_columns(key, store_layouts, reading, streams),
            row_filters=_row_filters(key, reading, streams),
            access=_access_paths(key, nodes),
            horizons=_horizons(key, reading, streams),
            fill=fills.get(key, FIRST),
        )
    return stores


def _row_filters(key: StoreKey, queries: list[Query], streams: Streams) -> tuple[RowFilter, ...]:
    retain_all = RowFilter((), ())
    if key.join is not None or streams[str(key.stream)].keep == "all":
        return (retain_all,)
    row_filters: dict[RowFilter, None] = {}
    for query in queries:
        for relation in sorted(r for r in query.join.relations if r.stream == key.stream):
            part = query.join.sub([relation])
            filters = tuple(sorted({without_alias(f) for f in part.filters}, key=expression_key))
            keys = tuple(sorted({a.column for equal in query.join.classes for a in equal if a.relation == relation}))
            row_filters[RowFilter(filters, keys)] = None
    return tuple(f for f in row_filters if not any(other != f and _is_weaker(other, f) for other in row_filters))


def _is_weaker(weaker: RowFilter, stronger: RowFilter) -> bool:
    """Whether the first retains every row that the second retains, because its conditions are a subset."""
    return set(weaker.filters) <= set(stronger.filters) and set(weaker.keys) <= set(stronger.keys)


def _access_paths(key: StoreKey, nodes: list[Node]) -> tuple[tuple[Attribute, ...], ...]:
    paths = set()
    for node in nodes:
        if node.store == key and node.parent is not None and node.adds is not None:
            links = links_between(node.bound, node.parent.bound, node.adds)
            paths.add(tuple(sorted({_stored_attribute(key, link.added) for link in links})))
    return tuple(sorted(paths))


def _stored_attribute(key: StoreKey, attribute: Attribute) -> Attribute:
    """The stored column that an attribute of a query reads; rows of a base store have relation 0 of their stream."""
    return attribute if key.join is not None else Attribute(Relation(str(key.stream)), attribute.column)


def _horizons(key: StoreKey, queries: list[Query], streams: Streams) -> tuple[tuple[Relation, int | None], ...]:
    """Per part of a row, the longest span for which some query can still join it with a tuple outside the store; see `Store.horizons`."""
    spans: dict[Relation, list[int | None]] = {}
    if key.join is None and streams[str(key.stream)].keep == "all":
        spans[Relation(str(key.stream))] = [streams[str(key.stream)].window]
    for query in queries:
        inside = key.join.relations if key.join is not None else {r for r in query.join.relations if r.stream == key.stream}
        for (k, j), span in query.reach().items():
            if k in inside and k != j and (key.join is None or j not in inside):
                spans.setdefault(k if key.join is not None else Relation(k.stream), []).append(span)
    return tuple((relation, _longest(relation_spans)) for relation, relation_spans in sorted(spans.items()))


def _longest(spans: list[int | None]) -> int | None:
    """The largest span; None, which is unbounded, if one of them is."""
    bounded = [span for span in spans if span is not None]
    return max(bounded) if len(bounded) == len(spans) else None
