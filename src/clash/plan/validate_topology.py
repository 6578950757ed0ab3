"""What makes a topology valid: everything that a rule reads arrives at its store, in time and on the right worker.

The checks read only the finished topology and repeat none of the passes that made it, so a mistake of a pass is not made twice.
"""

from __future__ import annotations

from collections import Counter

from clash.model.expressions import Expr, columns
from clash.model.query import Query
from clash.model.relation import Attribute, Relation
from clash.plan.errors import PlanError
from clash.plan.topology import FIRST, Edge, ProbeRule, Store, StoreRule, Topology


def validate_topology(topology: Topology) -> None:
    """Raises `PlanError`, saying what is wrong, at the first edge or rule that would miss a tuple or a column."""
    if (
        len(topology.edge) != len(topology.edges)
        or len(topology.rule) != len(topology.rules)
        or len(topology.store) != len(topology.stores)
    ):
        raise PlanError("two stores, edges or rules of one name")
    if {(e.store, e.label) for e in topology.edges} != set(topology.rule):
        raise PlanError("edges and rules do not match")
    queries = {query.name: query for query in topology.queries}
    # With bounds on arrivals, several branches may answer a query from one relation, each for other rows.
    has_branches = any(isinstance(rule, ProbeRule) and (rule.since or rule.before) for rule in topology.rules)
    results: Counter[tuple[str, Relation]] = Counter()
    for origin in topology.origins:
        for name in origin.emits:
            results[name, origin.relation] += 1
            if queries[name].join != origin.start:
                raise PlanError(f"{origin.label} answers {name} too early")
        for label in origin.out:
            _validate_source(topology.edge[label], "origin", origin.label)
    for rule in topology.rules:
        edge, store = topology.edge[rule.edge], topology.store[rule.store]
        _validate_edge(topology, edge, store)
        if isinstance(rule, StoreRule):
            _validate_fill(edge, store)
            continue
        _validate_probe(topology, rule, edge, store, queries)
        for name in rule.emits:
            results[name, rule.origin] += 1
    for query in topology.queries:
        for relation in query.streams:
            if results[query.name, relation] != 1 and (not has_branches or not results[query.name, relation]):
                raise PlanError(f"{query.name} is answered {results[query.name, relation]} times from {relation}")
    last = max((edge.position for edge in topology.edges), default=FIRST)
    if last.round != topology.rounds or (topology.workers == 1 and last.round != 1):
        raise PlanError(f"{topology.rounds} rounds, but the last edge is at {last}")


def _validate_edge(topology: Topology, edge: Edge, store: Store) -> None:
    if edge.layout not in store.layouts:
        raise PlanError(f"{edge.label} wants {store.id}[{edge.layout}], which is not kept")
    if edge.source.kind == "edge":
        previous = topology.edge[edge.source.name]
        if edge.position < previous.position:
            raise PlanError(f"{edge.label} goes back in time, from {previous.position} to {edge.position}")
        if not edge.stays and edge.position.round == previous.position.round:
            raise PlanError(f"{edge.label} crosses the network within round {edge.position.round}")
    if edge.layout.hot and store.stream in topology.tables:
        raise PlanError(f"{edge.label} wants {store.id}[{edge.layout}], but rows of a table have no arrival to be spread by")
    if edge.address.hot != edge.layout.hot and edge.address.kind in ("key", "home") and edge.layout.kind == "hash":
        raise PlanError(f"{edge.label} is sent by other hot keys than {store.id}[{edge.layout}] spreads")
    key = edge.address.attribute
    if key is not None and key not in edge.columns and not (edge.carries is None and key.column == _time_column(topology, store)):
        raise PlanError(f"{edge.label} is addressed by {key}, which does not travel")


def _validate_fill(edge: Edge, store: Store) -> None:
    if edge.position > store.fill or (store.join is None and edge.position != FIRST):
        raise PlanError(f"{edge.label} fills {store.id} at {edge.position}, after {store.fill}")
    if set(edge.columns) != set(store.columns) or edge.carries != store.join:
        raise PlanError(f"{edge.label} brings {store.id} other rows than it keeps")


def _validate_probe(topology: Topology, rule: ProbeRule, edge: Edge, store: Store, queries: dict[str, Query]) -> None:
    name = f"{rule.edge} into {store.id}"
    if rule.position != edge.position or rule.position < store.fill:
        raise PlanError(f"{name} probes at {rule.position}; the store is filled at {store.fill}")
    if edge.carries is None or rule.bound.relations != edge.carries.relations | rule.adds.relations:
        raise PlanError(f"{name} binds other relations than it carries and adds")
    arriving = set(edge.columns)
    stored = set(store.columns)
    if store.stream is not None:
        relation, time = min(rule.adds.relations), _time_column(topology, store)
        stored = {Attribute(relation, a.column) for a in store.columns} | ({Attribute(relation, time)} if time is not None else set())
    if tuple(sorted(_as_stored(store, {key.stored for key in rule.keys}))) not in store.access:
        raise PlanError(f"{name} looks up by columns that are no access path")
    read = {key.stored for key in rule.keys} | _attributes_in(rule.filters) | {a for equal in rule.equal for a in equal}
    _require(name, stored, read)
    _require(name, arriving, {key.bound for key in rule.keys})
    available = arriving | stored
    _require(name, available, _attributes_in(rule.residuals))
    for label in (*rule.out, *rule.feeds):
        out = topology.edge[label]
        _validate_source(out, "edge", rule.edge)
        if out.carries != rule.bound:
            raise PlanError(f"{label} carries something else than {rule.edge} makes")
        _require(label, available, set(out.columns))
    for query in rule.emits:
        answered = queries[query]
        if not answered.join.is_within(rule.bound):
            raise PlanError(f"{name} answers {query}, but does not find all of it")
        expressions = (*(output.expression for output in answered.outputs), *answered.beyond(rule.bound))
        _require(name, available, _attributes_in(expressions))


def _time_column(topology: Topology, store: Store) -> str | None:
    """The column with the event time, which every stored tuple has."""
    return next((stream.time for stream in topology.streams if stream.name == store.stream), None)


def _as_stored(store: Store, attributes: set[Attribute]) -> set[Attribute]:
    """The attributes in the store, where tuples of a stream have no role yet."""
    return attributes if store.stream is None else {Attribute(Relation(store.stream), a.column) for a in attributes}


def _attributes_in(expressions: tuple[Expr, ...]) -> set[Attribute]:
    return {Attribute(column.relation, column.column) for expression in expressions for column in columns(expression)}


def _require(name: str, available: set[Attribute], needed: set[Attribute]) -> None:
    missing = sorted(needed - available)
    if missing:
        raise PlanError(f"{name} lacks {', '.join(map(str, missing))}")


def _validate_source(edge: Edge, kind: str, name: str) -> None:
    if edge.source != (kind, name):
        raise PlanError(f"{edge.label} leaves {edge.source.name}, not {name}")
