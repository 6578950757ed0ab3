"""A topology as JSON text and back, without loss: `from_json(to_json(t)) == t`.

Equal topologies give equal text. A sub-join is written once and named by its number elsewhere, because many edges and
rules carry the same one. The version is checked first, so that a checkpoint of another release is refused by name.
"""

from __future__ import annotations

import json
from typing import Any

from clash.errors import OptionError
from clash.model import expressions
from clash.model.layout import Layout
from clash.model.query import SubJoin
from clash.model.relation import Attribute, Relation
from clash.plan.topology import Address, Edge, Key, Origin, Position, ProbeRule, RowFilter, Rule, Source, Store, StoreRule, Topology
from clash.plan.json_codecs import attribute_from_json, attribute_to_json, join_from_json, join_to_json, query_from_json, query_to_json, stream_from_json, stream_to_json

FORMAT, VERSION = "clash topology", 2


class _Joins(dict[SubJoin, int]):
    """Numbers sub-joins as they are met."""

    def __missing__(self, join: SubJoin) -> int:
        self[join] = len(self)
        return self[join]


def to_json(topology: Topology, indent: int | None = None) -> str:
    joins = _Joins()
    body = {
        "format": FORMAT,
        "version": VERSION,
        "workers": topology.workers,
        "rounds": topology.rounds,
        "streams": [stream_to_json(s) for s in topology.streams],
        "queries": [query_to_json(q) for q in topology.queries],
        "stores": [_store(s, joins) for s in topology.stores],
        "origins": [[o.label, [*o.relation], joins[o.start], o.owner, [*o.out], [*o.emits], o.replay, o.since] for o in topology.origins],
        "edges": [_edge(e, joins) for e in topology.edges],
        "rules": [_rule(r, joins) for r in topology.rules],
        "starts": [[*start] for start in topology.starts],
    }
    body["joins"] = [join_to_json(join) for join in joins]
    return json.dumps(body, indent=indent, ensure_ascii=False)


def from_json(text: str) -> Topology:
    try:
        data = json.loads(text)
        if data["format"] != FORMAT or data["version"] != VERSION:
            raise OptionError("a topology of another version", f"{data['format']} {data['version']}", f"this is {FORMAT} {VERSION}")
        return _read(data)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise OptionError("not a topology", f"{type(error).__name__}: {error}", "give text written by topology.to_json") from None


def _read(data: dict[str, Any]) -> Topology:
    joins = [join_from_json(join) for join in data["joins"]]
    return Topology(
        data["workers"],
        data["rounds"],
        tuple(stream_from_json(s) for s in data["streams"]),
        tuple(query_from_json(q) for q in data["queries"]),
        tuple(_read_store(s, joins) for s in data["stores"]),
        tuple(
            Origin(label, Relation(*r), joins[at], owner, tuple(out), tuple(emits), replay, since)
            for label, r, at, owner, out, emits, replay, since in data["origins"]
        ),
        tuple(_read_edge(e, joins) for e in data["edges"]),
        tuple(_read_rule(r, joins) for r in data["rules"]),
        tuple((query, start) for query, start in data["starts"]),
    )


def _store(store: Store, joins: _Joins) -> dict[str, Any]:
    return {
        "id": store.id,
        "stream": store.stream,
        "join": None if store.join is None else joins[store.join],
        "owner": store.owner,
        "layouts": [layout.to_json() for layout in store.layouts],
        "columns": _attributes(store.columns),
        "keeps": [[_expressions(f.filters), [*f.keys]] for f in store.keeps],
        "access": [_attributes(path) for path in store.access],
        "horizons": [[*relation, span] for relation, span in store.horizons],
        "fill": [*store.fill],
    }


def _read_store(data: dict[str, Any], joins: list[SubJoin]) -> Store:
    return Store(
        data["id"],
        data["stream"],
        None if data["join"] is None else joins[data["join"]],
        data["owner"],
        tuple(Layout.from_json(layout) for layout in data["layouts"]),
        _read_attributes(data["columns"]),
        tuple(RowFilter(_read_expressions(filters), tuple(keys)) for filters, keys in data["keeps"]),
        tuple(_read_attributes(path) for path in data["access"]),
        tuple((Relation(stream, number), span) for stream, number, span in data["horizons"]),
        Position(*data["fill"]),
    )


def _edge(edge: Edge, joins: _Joins) -> dict[str, Any]:
    key = edge.address.attribute
    return {
        "label": edge.label,
        "source": [*edge.source],
        "store": edge.store,
        "layout": edge.layout.to_json(),
        "carries": None if edge.carries is None else joins[edge.carries],
        "address": [edge.address.kind, None if key is None else attribute_to_json(key)],
        "stays": edge.stays,
        "columns": _attributes(edge.columns),
        "position": [*edge.position],
    }


def _read_edge(data: dict[str, Any], joins: list[SubJoin]) -> Edge:
    kind, key = data["address"]
    return Edge(
        data["label"],
        Source(*data["source"]),
        data["store"],
        Layout.from_json(data["layout"]),
        None if data["carries"] is None else joins[data["carries"]],
        Address(kind, None if key is None else attribute_from_json(key)),
        data["stays"],
        _read_attributes(data["columns"]),
        Position(*data["position"]),
    )


def _rule(rule: Rule, joins: _Joins) -> dict[str, Any]:
    at: dict[str, Any] = {"store": rule.store, "edge": rule.edge, "position": [*rule.position]}
    if isinstance(rule, StoreRule):
        return {"rule": "store", **at}
    return {
        "rule": "probe",
        **at,
        "origin": [*rule.origin],
        "adds": joins[rule.adds],
        "bound": joins[rule.bound],
        "keys": [[attribute_to_json(bound), attribute_to_json(stored), exact] for bound, stored, exact in rule.keys],
        "filters": _expressions(rule.filters),
        "equal": [_attributes(equal) for equal in rule.equal],
        "residuals": _expressions(rule.residuals),
        "out": [*rule.out],
        "feeds": [*rule.feeds],
        "emits": [*rule.emits],
        "bounds": [rule.since, rule.before],
    }


def _read_rule(data: dict[str, Any], joins: list[SubJoin]) -> Rule:
    if data["rule"] == "store":
        return StoreRule(data["store"], data["edge"], Position(*data["position"]))
    return ProbeRule(
        data["store"],
        data["edge"],
        Relation(*data["origin"]),
        joins[data["adds"]],
        joins[data["bound"]],
        tuple(Key(attribute_from_json(bound), attribute_from_json(stored), exact) for bound, stored, exact in data["keys"]),
        _read_expressions(data["filters"]),
        tuple(_read_attributes(equal) for equal in data["equal"]),
        _read_expressions(data["residuals"]),
        tuple(data["out"]),
        tuple(data["feeds"]),
        tuple(data["emits"]),
        Position(*data["position"]),
        *data["bounds"],
    )


def _attributes(attributes: tuple[Attribute, ...]) -> list[Any]:
    return [attribute_to_json(attribute) for attribute in attributes]


def _read_attributes(data: list[Any]) -> tuple[Attribute, ...]:
    return tuple(attribute_from_json(attribute) for attribute in data)


def _expressions(all_: tuple[expressions.Expr, ...]) -> list[Any]:
    return [expressions.to_json(expression) for expression in all_]


def _read_expressions(data: list[Any]) -> tuple[expressions.Expr, ...]:
    return tuple(expressions.from_json(expression) for expression in data)
