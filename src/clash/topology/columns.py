"""Which columns are kept and which travel: what some live query still needs, nothing else.

Invariant: what a rule reads is in what arrives on its edge or in its store's columns, and what it sends on is in either.
A base store keeps all that any live query names of its stream, filters included, because each query's filter is applied on its
own edge. A MIR's rows have passed theirs: it keeps keys to the outside, open residuals and outputs, for every live query
that contains it, whether today's plan uses it there or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from clash.model.expressions import Expr, columns
from clash.model.layout import Layout
from clash.model.query import Query, SubJoin
from clash.model.relation import Attribute, Relation
from clash.plan.logical import StoreKey
from clash.plan.topology import Address, Topology
from clash.topology.equality import Streams, linking
from clash.topology.placement import Placement, layout_attribute
from clash.topology.trees import Node

Needs = dict[Node, frozenset[Attribute]]


def used(*expressions: Expr) -> set[Attribute]:
    return {Attribute(column.relation, column.column) for expression in expressions for column in columns(expression)}


def outputs(query: Query) -> set[Attribute]:
    return used(*(output.expression for output in query.outputs))


def output_attributes(topology: Topology, queries: Iterable[str]) -> tuple[Attribute, ...]:
    """The attributes that the results of these queries are computed from."""
    return tuple(sorted({a for query in topology.queries if query.name in queries for a in outputs(query)}))


def kept_columns(key: StoreKey, layouts: tuple[Layout, ...], queries: Iterable[Query], streams: Streams) -> tuple[Attribute, ...]:
    """What the store keeps; `queries` are those that read it."""
    if key.join is not None:
        found = {attribute for query in queries for attribute in _open(query, key.join)}
        found |= {a for a in (layout_attribute(layout, key.join) for layout in layouts) if a is not None}
        return tuple(sorted(found))
    stream = streams[str(key.stream)]
    if stream.keep == "all":
        names = {name for name, _ in stream.columns}
    else:
        names = {column for query in queries for relation, column in named(query) if relation.stream == key.stream}
        names |= {layout.column for layout in layouts if layout.column is not None}
    return tuple(Attribute(Relation(stream.name), name) for name in sorted(names - {stream.time}))


def travelling(
    roots: Iterable[Node], spots: Mapping[Node, Placement], kept: Mapping[StoreKey, tuple[Attribute, ...]], queries: Mapping[str, Query]
) -> Needs:
    """Per node, what must arrive on the edge into it: children first, because a parent brings what they need."""
    needs: Needs = {}
    for root in roots:
        for node in reversed(list(root.walk())):
            after = {a for name in node.emits for a in outputs(queries[name])}
            after |= {a for key in node.feeds for a in kept[key]}
            after |= {a for child in node.children.values() for a in needs[child]}
            if node.parent is None or node.adds is None:
                needs[node] = frozenset(after)
                continue
            before = node.parent.bound
            after |= used(*new_residuals(node.parent.bound, node.adds, node.bound))
            after |= {bound for bound, _, _ in linking(node.bound, before, node.adds)}
            after |= _key(spots[node].address)
            needs[node] = frozenset(a for a in after if a.relation in before.relations)
    return needs


def new_residuals(before: SubJoin, adds: SubJoin, bound: SubJoin) -> frozenset[Expr]:
    """The residuals that this step can check and nothing before it could."""
    return bound.residuals - before.residuals - adds.residuals


def _key(address: Address | None) -> set[Attribute]:
    return set() if address is None or address.attribute is None else {address.attribute}


def named(query: Query) -> set[Attribute]:
    """All that the query names."""
    join = query.join
    return {a for equal in join.classes for a in equal} | used(*join.filters, *join.residuals) | outputs(query)


def _open(query: Query, part: SubJoin) -> set[Attribute]:
    """What the query needs of a MIR's rows. One member stands for a class: the smallest, as in the rules that look it up."""
    found = used(*(query.join.residuals - part.residuals)) | outputs(query)
    for equal in query.join.classes:
        inside = [a for a in equal if a.relation in part.relations]
        if inside and len(inside) < len(equal):
            found.add(min(inside))
    return {a for a in found if a.relation in part.relations}
