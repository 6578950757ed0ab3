"""Which columns are stored and which travel: those that some live query still needs, and no others.

Invariant: what a rule reads either arrives on its edge or is a column of its store, and so is what it sends on.

A base store has all columns that any live query names of its stream, those of filters included, because each query's filter is applied on
an edge of its own. The rows of a MIR have passed its filters: it has the keys to relations outside it, the columns of filters and residuals
that are not checked yet, and outputs, for every live query that refines it, whether or not today's plan uses it there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from clash.model.expressions import Expr, columns
from clash.model.layout import Layout
from clash.model.query import Query, SubJoin
from clash.model.relation import Attribute, Relation
from clash.plan.logical import StoreKey
from clash.plan.topology import Address, Store, Topology
from clash.topology.equality import Streams, links_between
from clash.topology.partitioning import partition_attribute
from clash.topology.placement import Placement
from clash.topology.trees import Node

TravellingColumns = dict[Node, frozenset[Attribute]]
"""By node, the attributes that must arrive on the edge into it; at a root, those that its raw tuples must have."""


def attributes_in(*expressions: Expr) -> set[Attribute]:
    """The attributes that the expressions read."""
    return {Attribute(column.relation, column.column) for expression in expressions for column in columns(expression)}


def query_attributes(query: Query) -> set[Attribute]:
    """All attributes that the query names: in equalities, filters, residuals and outputs."""
    return join_attributes(query.join) | _outputs(query)


def join_attributes(join: SubJoin) -> set[Attribute]:
    """The attributes that decide which rows the join has."""
    return {a for equal in join.classes for a in equal} | attributes_in(*join.filters, *join.residuals)


def output_attributes(topology: Topology, queries: Iterable[str], bound: SubJoin) -> tuple[Attribute, ...]:
    """The attributes that the results of these queries are computed from, and that decide which rows of `bound` are results."""
    return tuple(sorted({a for name in queries for a in _read_of(topology.query[name], bound)}))


def stored_columns(key: StoreKey, layouts: tuple[Layout, ...], queries: Iterable[Query], streams: Streams) -> tuple[Attribute, ...]:
    """The columns of a store; `queries` are those that read it."""
    if key.join is not None:
        attributes = {attribute for query in queries for attribute in _needed_of_mir(query, key.join)}
        attributes |= {a for a in (partition_attribute(layout, key.join) for layout in layouts) if a is not None}
        return tuple(sorted(attributes))
    stream = streams[str(key.stream)]
    if stream.keep == "all":
        names = {name for name, _ in stream.all_columns}
    else:
        names = {column for query in queries for relation, column in query_attributes(query) if relation.stream == key.stream}
        names |= {layout.column for layout in layouts if layout.column is not None}
    return tuple(Attribute(Relation(stream.name), name) for name in sorted(names - {stream.time}))


def travelling_columns(
    roots: Iterable[Node], placements: Mapping[Node, Placement], stores: Mapping[StoreKey, Store], queries: Iterable[Query]
) -> TravellingColumns:
    """What must arrive at each node; children come first, because a parent passes on what they need."""
    by_name = {query.name: query for query in queries}
    travelling: TravellingColumns = {}
    for root in roots:
        for node in reversed(list(root.walk())):
            needed = {a for name in node.emits for a in _read_of(by_name[name], node.bound)}
            needed |= {a for key in node.feeds for a in stores[key].columns}
            needed |= {a for child in node.children.values() for a in travelling[child]}
            if node.parent is None or node.adds is None:
                travelling[node] = frozenset(needed)
                continue
            before = node.parent.bound
            needed |= attributes_in(*new_residuals(before, node.adds, node.bound))
            needed |= {link.bound for link in links_between(node.bound, before, node.adds)}
            needed |= _address_attribute(placements[node].address)
            travelling[node] = frozenset(a for a in needed if a.relation in before.relations)
    return travelling


def new_residuals(before: SubJoin, adds: SubJoin, bound: SubJoin) -> frozenset[Expr]:
    """The residuals that a step can check and that nothing before it could."""
    return bound.residuals - before.residuals - adds.residuals


def _read_of(query: Query, bound: SubJoin) -> set[Attribute]:
    """What is read of complete rows: for the outputs, and where `bound` is weaker than the query's join, to find the query's rows."""
    return _outputs(query) | attributes_in(*query.beyond(bound))


def _outputs(query: Query) -> set[Attribute]:
    return attributes_in(*(output.expression for output in query.outputs))


def _address_attribute(address: Address | None) -> set[Attribute]:
    return set() if address is None or address.attribute is None else {address.attribute}


def _needed_of_mir(query: Query, part: SubJoin) -> set[Attribute]:
    """What the query needs of the rows of the MIR `part`.

    The smallest member of an equality class inside the MIR stands for the others, as it does in the rules that look rows up.
    """
    needed = attributes_in(*(query.join.residuals - part.residuals), *(query.join.filters - part.filters)) | _outputs(query)
    for equal in query.join.classes:
        inside = [a for a in equal if a.relation in part.relations]
        if inside and len(inside) < len(equal):
            needed.add(min(inside))
    return {a for a in needed if a.relation in part.relations}
