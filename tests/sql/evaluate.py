"""A row-at-a-time evaluator of the model's expressions, for tests only: Spark's three-valued logic over Python values."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from clash.model.expressions import Call, Col, Expr, Lit
from clash.model.query import Query
from clash.model.relation import Relation

from .local_time import from_local, plus, to_local

Row = Mapping[str, Any]


def run(query: Query, tables: Mapping[str, Sequence[Row]]) -> Counter[tuple[Any, ...]]:
    """The multiset of results by brute force, without windows."""
    if query.added:
        return sum((run(branch, tables) for branch in query.branches), Counter())
    relations = [relation for _, relation in query.aliases]
    results: Counter[tuple[Any, ...]] = Counter()
    for rows in itertools.product(*(tables[relation.stream] for relation in relations)):
        row = dict(zip(relations, rows, strict=True))
        if _joins(query, row) and all(value(p, row) is True for p in (*query.join.filters, *query.join.residuals)):
            results[tuple(value(output.expression, row) for output in query.outputs)] += 1
    return results


def _joins(query: Query, row: Mapping[Relation, Row]) -> bool:
    for group in query.join.classes:
        values = [row[a.relation][a.column] for a in group]
        if any(v is None for v in values) or len(set(values)) > 1:
            return False
    return True


def value(expr: Expr, row: Mapping[Relation, Row], zone: str | None = None) -> Any:
    """`zone`: of the session; without one, timestamps have no time zone."""
    if isinstance(expr, Col):
        return row[expr.relation][expr.column]
    if isinstance(expr, Lit):
        return _literal(expr, zone)
    return _call(expr, row, zone)


def _literal(lit: Lit, zone: str | None) -> Any:
    if lit.value is None:
        return None
    if lit.type == "interval":
        return timedelta(microseconds=int(lit.value))
    if lit.type.startswith("timestamp"):
        moment = datetime.fromisoformat(str(lit.value))
        return from_local(moment, zone) if zone is not None and lit.type == "timestamp" and moment.tzinfo is None else moment
    if lit.type == "date":
        return date.fromisoformat(str(lit.value))
    return Decimal(str(lit.value)) if lit.type.startswith("decimal") else lit.value


def _call(call: Call, row: Mapping[Relation, Row], zone: str | None) -> Any:
    op = call.op
    if op == "case":
        for condition, result in zip(call.args[:-1:2], call.args[1::2], strict=False):
            if value(condition, row, zone) is True:
                return value(result, row, zone)
        return value(call.args[-1], row, zone)
    args = [value(arg, row, zone) for arg in call.args]
    if op in ("and", "or"):
        decisive = op == "or"
        return decisive if decisive in args else None if None in args else not decisive
    if op == "coalesce":
        return next((a for a in args if a is not None), None)
    if op in ("greatest", "least"):
        values = [a for a in args if a is not None]
        return (max(values) if op == "greatest" else min(values)) if values else None
    if op in ("isnull", "isnotnull"):
        return (args[0] is None) == (op == "isnull")
    if op == "<=>":
        return args[0] == args[1]
    if op == "in":
        assert None not in args[1:]
        return None if args[0] is None else args[0] in args[1:]
    if None in args:
        return None
    kinds = [arg.type for arg in call.args]
    if zone is not None and "timestamp" in kinds and op in ("+", "-", "hour", "cast"):
        return _in_zone(call, args, zone)
    return _STRICT[op](*args)


def _in_zone(call: Call, args: list[Any], zone: str) -> Any:
    """What depends on the session's time zone."""
    if call.op == "hour":
        return to_local(args[0], zone).hour
    if call.op == "cast":
        assert call.type == "date"
        return to_local(args[0], zone).date()
    if call.type == "interval":
        return to_local(args[0], zone) - to_local(args[1], zone)
    moment, interval = args if isinstance(args[0], datetime) else args[::-1]
    return plus(moment, interval if call.op == "+" else -interval, zone)


def _like(text: str, pattern: str) -> bool:
    return re.fullmatch("".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in pattern), text, re.DOTALL) is not None


_STRICT: dict[str, Any] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "%": lambda a, b: int(math.fmod(a, b)),
    "neg": lambda a: -a,
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "not": lambda a: not a,
    "like": _like,
    "abs": abs,
    "lower": str.lower,
    "upper": str.upper,
    "length": len,
    "concat": lambda *parts: "".join(parts),
    "hour": lambda a: a.hour,
    # the casts that are needed: of a timestamp_ntz to a date, and of an integer to a wider one, which UNION ALL adds
    "cast": lambda a: a.date() if isinstance(a, datetime) else a,
    "trim": lambda a: a.strip(" "),
    "substring": lambda a, start, length: a[start - 1 : start - 1 + length],
}
