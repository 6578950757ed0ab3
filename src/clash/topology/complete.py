"""From a topology to a physical plan: one pass after the other works out what tasks need beyond it.

The passes: `key_types` (in which type each lookup compares), `access_paths` and `copies` (what containers hold), `stream_channels` and
`step_channels` (which edges share a block), `ingest` and `entries` (what becomes of raw tuples), `steps` (the probe rules, complete).
"""

from __future__ import annotations

from collections.abc import Iterable

from clash.model.block_columns import ARRIVAL, DEADLINE, EARLIEST, EVENT_TIME, LATEST, UNBOUNDED_WINDOW, part_event_time
from clash.model.canonical_text import expression_key
from clash.model.expressions import Call, Expr, columns
from clash.model.layout import Layout
from clash.model.query import Query, SubJoin
from clash.model.relation import Attribute, Relation
from clash.model.stream import Stream
from clash.plan.collection_spec import build_collection_spec
from clash.plan.physical import (
    AccessPath,
    Channel,
    EdgeFilter,
    IndexedColumn,
    OriginEntry,
    PhysicalPlan,
    ProbeStep,
    Refinement,
    StoreCopy,
    StreamIngest,
    TypedColumn,
)
from clash.plan.topology import ProbeRule, Store, Topology
from clash.topology.channels import SPECIAL, Outgoing, step_channels, stream_channels
from clash.topology.columns import output_attributes
from clash.topology.key_types import AttributeTypes, typed_keys


def complete(topology: Topology) -> PhysicalPlan:
    """The physical plan of a topology; equal topologies give equal plans."""
    types = AttributeTypes(topology)
    steps = tuple(_step(topology, types, rule) for rule in topology.rules if isinstance(rule, ProbeRule))
    filters = _edge_filters(topology, types)
    return PhysicalPlan(
        topology=topology,
        copies=tuple(_copy(topology, types, store, at, layout) for store in topology.stores for at, layout in enumerate(store.layouts)),
        ingest=tuple(_ingest(topology, types, stream.name, filters) for stream in topology.arriving),
        entries=_entries(topology),
        steps=steps,
        results={query.name: _result_columns(query) for query in topology.queries},
        readers=_readers(topology),
        statistics=build_collection_spec(topology.queries, {stream.name: stream for stream in topology.streams}),
    )


def _result_columns(query: Query) -> tuple[TypedColumn, ...]:
    """The columns of the rows that a query's join gives."""
    return tuple(TypedColumn(output.name, output.expression.type) for output in query.outputs)


# ---- stores ------------------------------------------------------------------------------------------------------


def _copy(topology: Topology, types: AttributeTypes, store: Store, number: int, layout: Layout) -> StoreCopy:
    table = store.stream if store.stream in topology.tables else None
    special = [ARRIVAL] if table is None else []
    part_times: tuple[str, ...] = ()
    if table is not None:
        pass  # its rows have neither arrival nor event time
    elif store.join is None:
        special.append(EVENT_TIME)
        part_times = (EVENT_TIME,)
    elif topology.timed:
        part_times = tuple(part_event_time(relation) for relation in sorted(store.join.relations))
        special += [LATEST, DEADLINE, *part_times]
    if store.join is not None and topology.starts:
        special.append(EARLIEST)
    attributes = [TypedColumn(str(attribute), types.of(attribute)) for attribute in store.columns]
    return StoreCopy(
        store=store.id,
        number=number,
        layout=layout,
        columns=(*(TypedColumn(name, SPECIAL) for name in special), *attributes),
        paths=_access_paths(topology, types, store, layout),
        part_times=part_times,
        is_base=store.join is None,
        partition_column=_partition_column(store, layout),
        table=table,
    )


def _access_paths(topology: Topology, types: AttributeTypes, store: Store, layout: Layout) -> tuple[AccessPath, ...]:
    paths: dict[str, AccessPath] = {}
    for rule in topology.rules:
        if isinstance(rule, ProbeRule) and rule.store == store.id and topology.edge[rule.edge].layout == layout and rule.keys:
            path = _access_path(store, types, rule)
            paths[path.name] = path
    return tuple(paths.values())


def _access_path(store: Store, types: AttributeTypes, rule: ProbeRule) -> AccessPath:
    indexed = sorted(IndexedColumn(_as_stored(store, key.stored), key.type) for key in typed_keys(types, rule))
    return AccessPath(", ".join(f"{attribute} {kind}" for attribute, kind in indexed), tuple(indexed))


def _as_stored(store: Store, attribute: Attribute) -> Attribute:
    """The attribute in the store, where tuples of a stream have no role yet."""
    return attribute if store.join is not None else Attribute(Relation(str(store.stream)), attribute.column)


def _partition_column(store: Store, layout: Layout) -> Attribute | None:
    if layout.kind != "hash" or layout.column is None:
        return None
    if store.join is None:
        return Attribute(Relation(str(store.stream)), layout.column)
    if layout.relation is None:
        raise AssertionError(f"{store.id} is partitioned by a column without a relation")
    return Attribute(layout.relation, layout.column)


# ---- ingest ------------------------------------------------------------------------------------------------------


def _edge_filters(topology: Topology, types: AttributeTypes) -> dict[str, EdgeFilter]:
    """By edge label, or by the label of an origin whose tuples are results by themselves."""
    filters: dict[str, EdgeFilter] = {}
    for origin in topology.origins:
        conditions = (*sorted(origin.start.filters, key=str), *_equalities(types, origin.start.classes))
        if conditions:
            filters |= dict.fromkeys((origin.label, *origin.out), EdgeFilter(conditions, ()))
    for edge in topology.edges:
        if edge.carries is None:
            row_filters = topology.store[edge.store].row_filters
            if not any(not keep.filters and not keep.keys for keep in row_filters):
                filters[edge.label] = EdgeFilter((), row_filters)
    return filters


def _equalities(types: AttributeTypes, classes: Iterable[Iterable[Attribute]]) -> tuple[Expr, ...]:
    """Equivalence classes inside one tuple, as expressions."""
    equalities: list[Expr] = []
    for first, *others in sorted(sorted(equal) for equal in classes):
        equalities += [Call("=", (types.column(first), types.column(other)), "boolean") for other in others]
    return tuple(equalities)


def _ingest(topology: Topology, types: AttributeTypes, stream: str, filters: dict[str, EdgeFilter]) -> StreamIngest:
    channels = tuple(stream_channels(topology, types, stream, filters))
    labels = [label for channel in channels for label in channel.edges]
    own = {label: filters[label] for label in labels if label in filters}
    declared = types.streams[stream]
    names = _ingest_columns(declared, channels, own.values())
    evaluated = tuple((name, expression) for name, expression in declared.evaluated if name in names)
    names |= {column.column for _, expression in evaluated for column in columns(expression)}
    read = [TypedColumn(name, kind) for name, kind, *_ in (*declared.columns, *declared.computed) if name in names]
    # Rows of which no column is read count all the same, as in a CROSS JOIN; a record batch without columns would have none.
    return StreamIngest(stream, tuple(read or [TypedColumn(*declared.columns[0])]), channels, own, evaluated)


def _ingest_columns(declared: Stream, channels: Iterable[Channel], filters: Iterable[EdgeFilter]) -> set[str]:
    names = {declared.time} if declared.time is not None else set()
    for channel in channels:
        names |= {name.removeprefix(f"{declared.name}.") for name, _ in channel.columns if name.startswith(f"{declared.name}.")}
    for edge_filter in filters:
        names |= {column.column for condition in edge_filter.conditions for column in columns(condition)}
        names |= {key for row_filter in edge_filter.row_filters for key in row_filter.keys}
    return names


def _entries(topology: Topology) -> dict[str, OriginEntry]:
    entries: dict[str, OriginEntry] = {}
    for origin in topology.origins:
        window = dict(origin.start.windows)[origin.relation]
        micros = UNBOUNDED_WINDOW if window is None else window
        for label in origin.out:
            entries[label] = OriginEntry(origin.relation, micros, topology.edge[label].columns, ())
        if origin.emits:
            attributes = output_attributes(topology, origin.emits, origin.start)
            entries[origin.label] = OriginEntry(origin.relation, micros, attributes, origin.emits)
    return entries


# ---- steps -------------------------------------------------------------------------------------------------------


def _step(topology: Topology, types: AttributeTypes, rule: ProbeRule) -> ProbeStep:
    edge, store = topology.edge[rule.edge], topology.store[rule.store]
    keys = sorted(typed_keys(types, rule), key=lambda key: (_as_stored(store, key.stored), key.type))
    outgoing = [topology.edge[label] for label in (*rule.out, *rule.feeds)]
    local = tuple(e.label for e in outgoing if e.stays and e.position.round == rule.position.round)
    carried = {a for e in outgoing for a in e.columns} | set(output_attributes(topology, rule.emits, rule.bound))
    added = tuple(sorted(rule.adds.relations))
    part_times = _part_times(topology, rule)
    window = dict(rule.adds.windows)[added[0]] if store.join is None else 0
    leaving = Outgoing(part_times, tuple(e for e in outgoing if e.label not in local))
    return ProbeStep(
        edge=rule.edge,
        store=rule.store,
        copy=store.layouts.index(edge.layout),
        keys=tuple(keys),
        path=_access_path(store, types, rule).name if keys else None,
        adds=added,
        number=added[0].number if store.join is None else 0,
        window=UNBOUNDED_WINDOW if window is None else window,
        stored_conditions=(*rule.filters, *_equalities(types, rule.equal)),
        residuals=rule.residuals,
        since=rule.since,
        before=rule.before,
        left=tuple(sorted(str(a) for a in carried if a.relation not in rule.adds.relations)),
        right=tuple(sorted(a for a in carried if a.relation in rule.adds.relations)),
        part_times=part_times,
        emits=rule.emits,
        local=local,
        channels=tuple(step_channels(topology, types, leaving)),
        broadcast=edge.address.kind == "all",
        own_rows_only=(edge.address.kind == "all" and edge.layout.kind == "hash") or bool(edge.address.hot),
        spread=edge.address if edge.address.kind == "key" and edge.address.hot else None,
        refinements=tuple(refinement for name in rule.emits if (refinement := _refinement(topology.query[name], rule.bound)) is not None),
    )


def _refinement(query: Query, bound: SubJoin) -> Refinement | None:
    """What a row of `bound` must pass to answer the query; None where every row does."""
    conditions = tuple(sorted(query.beyond(bound), key=expression_key))
    windows = tuple(sorted(query.shorter_windows(bound).items()))
    return Refinement(query.name, conditions, windows) if conditions or windows else None


def _part_times(topology: Topology, rule: ProbeRule) -> tuple[Relation, ...]:
    """The relations whose event times the results carry on: parts of intermediate results that are stored here or
    further down, and those that a query has a shorter window for."""
    if not topology.timed:
        return ()
    relations: set[Relation] = set()
    for name in rule.emits:
        relations |= topology.query[name].shorter_windows(rule.bound).keys()
    for label in rule.feeds:
        store = topology.store[topology.edge[label].store]
        relations |= store.join.relations if store.join is not None else frozenset()
    for label in rule.out:
        child = topology.rule[topology.edge[label].store, label]
        if isinstance(child, ProbeRule):
            relations |= set(_part_times(topology, child))
    return tuple(sorted(relations & rule.bound.relations))


def _readers(topology: Topology) -> dict[str, tuple[str, ...]]:
    readers = {origin.label: origin.emits for origin in topology.origins}
    for edge in topology.edges:
        rule = topology.rule[edge.store, edge.label]
        join = rule.bound if isinstance(rule, ProbeRule) else topology.store[edge.store].join
        if join is None:
            names = [q.name for q in topology.queries if any(r.stream == edge.source.name for r in q.join.relations)]
        else:
            names = [query.name for query in topology.queries if query.refines(join)]
        readers[edge.label] = tuple(names)
    return readers
