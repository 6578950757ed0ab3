"""Sub-joins, queries and streams as JSON; sets are written in one order, so that equal values give equal text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from clash.model.expressions import Expr, from_json, to_json
from clash.model.query import Output, Query, SubJoin
from clash.model.relation import Attribute, Relation
from clash.model.stream import Stream


def expressions_to_json(expressions: Iterable[Expr]) -> list[Any]:
    """In the order of their text: a set of expressions has none of its own."""
    return sorted((to_json(e) for e in expressions), key=json.dumps)


def attribute_to_json(attribute: Attribute) -> list[Any]:
    return [*attribute.relation, attribute.column]


def attribute_from_json(data: list[Any]) -> Attribute:
    return Attribute(Relation(data[0], data[1]), data[2])


def join_to_json(join: SubJoin) -> dict[str, Any]:
    return {
        "relations": [[*r] for r in sorted(join.relations)],
        "classes": sorted([attribute_to_json(a) for a in sorted(c)] for c in join.classes),
        "filters": expressions_to_json(join.filters),
        "residuals": expressions_to_json(join.residuals),
        "windows": [[*r, w] for r, w in sorted(join.windows, key=lambda w: (w[0], w[1] is None, w[1] or 0))],
    }


def join_from_json(data: dict[str, Any]) -> SubJoin:
    return SubJoin(
        frozenset(Relation(*r) for r in data["relations"]),
        frozenset(frozenset(attribute_from_json(a) for a in c) for c in data["classes"]),
        frozenset(from_json(e) for e in data["filters"]),
        frozenset(from_json(e) for e in data["residuals"]),
        frozenset((Relation(stream, number), window) for stream, number, window in data["windows"]),
    )


def query_to_json(query: Query) -> dict[str, Any]:
    return {
        "name": query.name,
        "text": query.text,
        "join": join_to_json(query.join),
        "aliases": [[name, *relation] for name, relation in query.aliases],
        "outputs": [[output.name, to_json(output.expression)] for output in query.outputs],
        "links": sorted([[*r] for r in sorted(link)] for link in query.links),
        "bounds": sorted([*a, *b, most] for a, b, most in query.bounds),
    }


def query_from_json(data: dict[str, Any]) -> Query:
    return Query(
        data["name"],
        data["text"],
        join_from_json(data["join"]),
        tuple((name, Relation(stream, number)) for name, stream, number in data["aliases"]),
        tuple(Output(name, from_json(expression)) for name, expression in data["outputs"]),
        frozenset(frozenset(Relation(*r) for r in link) for link in data["links"]),
        frozenset((Relation(a, i), Relation(b, j), most) for a, i, b, j, most in data["bounds"]),
    )


def stream_to_json(stream: Stream) -> dict[str, Any]:
    return {
        "name": stream.name,
        "columns": [[*column] for column in stream.columns],
        "time": stream.time,
        "window": stream.window,
        "lateness": stream.lateness,
        "idle": stream.idle,
        "keep": stream.keep,
    }


def stream_from_json(data: dict[str, Any]) -> Stream:
    return Stream(
        data["name"],
        tuple((name, kind) for name, kind in data["columns"]),
        data["time"],
        data["window"],
        data["lateness"],
        data["idle"],
        data["keep"],
    )
