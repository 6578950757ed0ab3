"""One normal form for equivalent expressions, so that the same predicate in different queries compares equal.

Every rule holds in three-valued logic: NOT is pushed into comparisons, AND and OR, but never into `<=>` or the argument of IS NULL. The
form has no `>`, `>=` or NOT over a comparison; AND and OR are flat, sorted and without repeats; constant comparisons are folded;
comparisons of one expression with several literals are an `in`.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable
from typing import Any

from clash.model.coercion import INTERVAL
from clash.model.expressions import Call, Col, Expr, Lit
from clash.model.projection import is_by_spark
from clash.sql.time_bands import as_band, band_expression

_SWAPPED = {">": "<", ">=": "<="}
_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<", "isnull": "isnotnull", "isnotnull": "isnull"}
_SYMMETRIC = {"=", "<>", "<=>", "+", "*"}
_FOLDED: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le}  # fmt: skip
_DAY = 86_400_000_000  # microseconds
_FOLDABLE = ("int", "bigint", "boolean", "string")  # literals of other types are represented as text, or may be NaN
TRUE, FALSE = Lit(True, "boolean"), Lit(False, "boolean")


def normalise(expr: Expr) -> Expr:
    """The normal form of an expression, bottom-up. The recursion is bounded because `convert` bounds the depth of expressions.

    >>> a, five = Lit("a", "string"), Lit(5, "int")
    >>> str(normalise(Call("not", (Call("<=", (Call("length", (a,), "int"), five), "boolean"),), "boolean")))
    "<(5, length('a'))"
    """
    if not isinstance(expr, Call) or is_by_spark(expr):
        return expr
    args = tuple(normalise(arg) for arg in expr.args)
    op = expr.op
    if op == "not":
        return _negate(args[0])
    if op in ("and", "or"):
        return _connect(op, args)
    if op in _SWAPPED:
        op, args = _SWAPPED[op], args[::-1]
    if op in ("=", "<>", "<", "<="):
        return _comparison(op, args[0], args[1])
    if op in _SYMMETRIC and expr.type != INTERVAL:
        args = tuple(sorted(args, key=_sort_key))
    if op in ("-", "+", "neg"):
        return _sum(op, args, expr.type)
    if op == "concat":
        args = _flatten_concat(args)
        return args[0] if len(args) == 1 and args[0].type == "string" else Call(op, args, expr.type)
    return Call(op, args, expr.type)


def conjuncts(exprs: Iterable[Expr]) -> list[Expr]:
    """The conjuncts of the conjunction of expressions in normal form; a single TRUE if nothing remains."""
    conjunction = _connect("and", exprs)
    return list(conjunction.args) if isinstance(conjunction, Call) and conjunction.op == "and" else [conjunction]


def _sort_key(expr: Expr) -> tuple[int, str]:
    """Columns, then calls, then literals. The text makes the order total, and the same in every process and version."""
    return (2 if isinstance(expr, Lit) else 1 if isinstance(expr, Call) else 0), json.dumps(_as_lists(expr))


def _as_lists(expr: Expr) -> list[Any]:
    if isinstance(expr, Col):
        return ["col", expr.relation.stream, expr.relation.number, expr.column, expr.type]
    if isinstance(expr, Lit):
        return ["lit", expr.value, expr.type]
    return ["call", expr.op, [_as_lists(arg) for arg in expr.args], expr.type]


def _comparison(op: str, left: Expr, right: Expr) -> Expr:
    """A comparison: a time band in its own form, symmetric operators sorted, literals folded."""
    band = as_band(op, left, right)
    normal = band_expression(op, band) if band else None
    if normal is not None:
        return normal
    if op in _SYMMETRIC:
        left, right = sorted((left, right), key=_sort_key)
    literals = isinstance(left, Lit) and isinstance(right, Lit) and None not in (left.value, right.value)
    if literals and left.type == right.type and left.type in _FOLDABLE:
        assert isinstance(left, Lit)
        assert isinstance(right, Lit)
        return Lit(_FOLDED[op](left.value, right.value), "boolean")
    return Call(op, (left, right), "boolean")


def _sum(op: str, args: tuple[Expr, ...], kind: str) -> Expr:
    """Sums with intervals: constant intervals are added up, and stand on the right of a `+`."""
    values = [value for value in map(_constant, args) if value is not None]
    if kind == INTERVAL and len(values) == len(args):
        if op == "neg":
            return Lit(-values[0], INTERVAL)
        return Lit(values[0] + values[1] if op == "+" else values[0] - values[1], INTERVAL)
    if op == "-" and len(values) == 1 and args[1].type == INTERVAL:
        op, args = "+", (args[0], Lit(-values[0], INTERVAL))
    if op == "+" and args[0].type == INTERVAL and args[1].type != INTERVAL:
        args = args[::-1]
    inner, outer = args[0], _constant(args[1]) if op == "+" else None
    if outer is not None and isinstance(inner, Call) and inner.op == "+":
        offset = _constant(inner.args[1])
        # a day of a timestamp is one of the calendar: only less than a day in all is elapsed time, which adds up
        if offset is not None and (kind in (INTERVAL, "timestamp_ntz") or max(abs(offset), abs(outer), abs(offset + outer)) < _DAY):
            args = (inner.args[0], Lit(offset + outer, INTERVAL))
    return Call(op, args, kind)


def _constant(expr: Expr) -> int | None:
    """The microseconds of a constant interval; None for any other expression."""
    return expr.value if isinstance(expr, Lit) and expr.type == INTERVAL and isinstance(expr.value, int) else None


def _negate(inner: Expr) -> Expr:
    """NOT of an expression in normal form; by De Morgan's laws over AND and OR, which hold in three-valued logic."""
    if isinstance(inner, Lit):
        return inner if inner.value is None else Lit(not inner.value, "boolean")
    if isinstance(inner, Call):
        if inner.op == "not":
            return inner.args[0]
        if inner.op in _NEGATED:
            return normalise(Call(_NEGATED[inner.op], inner.args, "boolean"))
        if inner.op in ("and", "or"):
            return _connect("or" if inner.op == "and" else "and", tuple(_negate(a) for a in inner.args))
    return Call("not", (inner,), "boolean")


def _connect(op: str, args: Iterable[Expr]) -> Expr:
    """AND or OR of expressions in normal form: flat, without repeats, sorted.

    `x = 1 OR x = 2` becomes an `in`. Conjuncts common to all branches of an OR are factored out, which can expose the equality that joins.
    """
    absorbing, neutral = (FALSE, TRUE) if op == "and" else (TRUE, FALSE)
    flat: dict[Expr, None] = {}
    for arg in args:
        flat.update(dict.fromkeys(arg.args if isinstance(arg, Call) and arg.op == op else (arg,)))
    flat.pop(neutral, None)
    if absorbing in flat:
        return absorbing
    parts = _merge_lists(op, list(flat))
    if op == "or" and len(parts) > 1:
        branches = [p.args if isinstance(p, Call) and p.op == "and" else (p,) for p in parts]
        common = set(branches[0]).intersection(*branches[1:])
        if common:
            rest = [_connect("and", (e for e in branch if e not in common)) for branch in branches]
            return _connect("and", (*common, _connect("or", rest)))
    if not parts:
        return neutral
    return parts[0] if len(parts) == 1 else Call(op, tuple(sorted(parts, key=_sort_key)), "boolean")


def _merge_lists(op: str, parts: list[Expr]) -> list[Expr]:
    """Under OR, merges `=` and `in` of one expression with literals of one type to one `in`; under AND, `<>` and NOT `in` likewise."""
    lists: dict[tuple[Expr, str], dict[Lit, None]] = {}
    rest: list[Expr] = []
    for part in parts:
        inner, equal = part, "=" if op == "or" else "<>"
        if op == "and" and isinstance(part, Call) and part.op == "not":
            inner, equal = part.args[0], "in"
        if isinstance(inner, Call) and inner.op in (equal, "in" if op == "or" else equal):
            literals = [a for a in inner.args[1:] if isinstance(a, Lit) and a.value is not None]
            if len(literals) == len(inner.args) - 1:
                lists.setdefault((inner.args[0], literals[0].type), {}).update(dict.fromkeys(literals))
                continue
        rest.append(part)
    for (expr, _), values in lists.items():
        literals = sorted(values, key=_sort_key)
        if len(literals) == 1:
            rest.append(Call("=" if op == "or" else "<>", (expr, literals[0]), "boolean"))
        else:
            member = Call("in", (expr, *literals), "boolean")
            rest.append(member if op == "or" else Call("not", (member,), "boolean"))
    return rest


def _flatten_concat(args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The arguments of CONCAT, with nested calls inlined and adjacent literals merged."""
    merged: list[Expr] = []
    for arg in (a for outer in args for a in (outer.args if isinstance(outer, Call) and outer.op == "concat" else (outer,))):
        last = merged[-1] if merged else None
        if isinstance(arg, Lit) and isinstance(last, Lit) and isinstance(arg.value, str) and isinstance(last.value, str):
            merged[-1] = Lit(last.value + arg.value, "string")
        else:
            merged.append(arg)
    return tuple(merged)
