"""One normal form for all spellings of an expression, so that equal predicates of different queries compare equal.

Every rule holds in three-valued logic: NOT goes over comparisons, AND and OR, but never through `<=>` or IS NULL's argument.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable
from typing import Any

from clash.model.expressions import Call, Expr, Lit, to_json
from clash.model.coercion import INTERVAL
from clash.sql.time_bands import band, written

_SWAPPED = {">": "<", ">=": "<="}
_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<", "isnull": "isnotnull", "isnotnull": "isnull"}
_SYMMETRIC = {"=", "<>", "<=>", "+", "*"}
_FOLDED: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le}  # fmt: skip
_FOLDABLE = ("int", "bigint", "boolean", "string")  # others are held as text, or may be NaN
TRUE, FALSE = Lit(True, "boolean"), Lit(False, "boolean")


def order(expr: Expr) -> tuple[int, str]:
    """Columns, then calls, then literals; the JSON text makes it total and independent of the process."""
    return (2 if isinstance(expr, Lit) else 1 if isinstance(expr, Call) else 0), json.dumps(to_json(expr))


def normalise(expr: Expr) -> Expr:
    """Bottom-up; recursion is bounded because the front end bounds the nesting of what it reads."""
    if not isinstance(expr, Call):
        return expr
    args = tuple(normalise(arg) for arg in expr.args)
    op = expr.op
    if op == "not":
        return _negated(args[0])
    if op in ("and", "or"):
        return _connected(op, args)
    if op in _SWAPPED:
        op, args = _SWAPPED[op], args[::-1]
    if op in ("=", "<>", "<", "<="):
        return _comparison(op, args[0], args[1])
    if op in _SYMMETRIC and expr.type != INTERVAL:
        args = tuple(sorted(args, key=order))
    if op in ("-", "+", "neg"):
        return _sum(op, args, expr.type)
    if op == "concat":
        args = _joined(args)
        return args[0] if len(args) == 1 and args[0].type == "string" else Call(op, args, expr.type)
    return Call(op, args, expr.type)


def conjuncts(exprs: Iterable[Expr]) -> list[Expr]:
    """What AND of all of them says, cut into its parts."""
    whole = _connected("and", exprs)
    return list(whole.args) if isinstance(whole, Call) and whole.op == "and" else [whole]


def _comparison(op: str, left: Expr, right: Expr) -> Expr:
    found = band(op, left, right)
    if found:
        return written(op, *found)
    if op in _SYMMETRIC:
        left, right = sorted((left, right), key=order)
    literals = isinstance(left, Lit) and isinstance(right, Lit) and None not in (left.value, right.value)
    if literals and left.type == right.type and left.type in _FOLDABLE:
        assert isinstance(left, Lit)
        assert isinstance(right, Lit)
        return Lit(_FOLDED[op](left.value, right.value), "boolean")
    return Call(op, (left, right), "boolean")


def _sum(op: str, args: tuple[Expr, ...], kind: str) -> Expr:
    """Constant intervals are added up, and subtracting one is adding its negative."""
    values = [a.value for a in args if isinstance(a, Lit) and a.type == INTERVAL and isinstance(a.value, int)]
    if kind == INTERVAL and len(values) == len(args):
        if op == "neg":
            return Lit(-values[0], INTERVAL)
        return Lit(values[0] + values[1] if op == "+" else values[0] - values[1], INTERVAL)
    if op == "-" and len(values) == 1 and args[1].type == INTERVAL:
        op, args = "+", (args[0], Lit(-values[0], INTERVAL))
    if op == "+" and args[0].type == INTERVAL and args[1].type != INTERVAL:
        args = args[::-1]
    inner = args[0]
    if op == "+" and isinstance(args[1], Lit) and len(values) == 1 and isinstance(inner, Call) and inner.op == "+":
        moved = inner.args[1]
        if isinstance(moved, Lit) and moved.type == INTERVAL and isinstance(moved.value, int):
            args = (inner.args[0], Lit(moved.value + values[0], INTERVAL))
    return Call(op, args, kind)


def _negated(inner: Expr) -> Expr:
    if isinstance(inner, Lit):
        return inner if inner.value is None else Lit(not inner.value, "boolean")
    if isinstance(inner, Call):
        if inner.op == "not":
            return inner.args[0]
        if inner.op in _NEGATED:
            return normalise(Call(_NEGATED[inner.op], inner.args, "boolean"))
        if inner.op in ("and", "or"):
            return _connected("or" if inner.op == "and" else "and", tuple(_negated(a) for a in inner.args))
    return Call("not", (inner,), "boolean")


def _connected(op: str, args: Iterable[Expr]) -> Expr:
    """AND or OR: flat, without repeats, sorted; `x = 1 OR x = 2` is an `in`; what all branches of an OR share goes before it."""
    zero, one = (FALSE, TRUE) if op == "and" else (TRUE, FALSE)
    flat: dict[Expr, None] = {}
    for arg in args:
        flat.update(dict.fromkeys(arg.args if isinstance(arg, Call) and arg.op == op else (arg,)))
    flat.pop(one, None)
    if zero in flat:
        return zero
    parts = _gathered(op, list(flat))
    if op == "or" and len(parts) > 1:
        branches = [p.args if isinstance(p, Call) and p.op == "and" else (p,) for p in parts]
        shared = set(branches[0]).intersection(*branches[1:])
        if shared:
            rest = [_connected("and", (e for e in branch if e not in shared)) for branch in branches]
            return _connected("and", (*shared, _connected("or", rest)))
    if not parts:
        return one
    return parts[0] if len(parts) == 1 else Call(op, tuple(sorted(parts, key=order)), "boolean")


def _gathered(op: str, parts: list[Expr]) -> list[Expr]:
    """`=` of one expression with several literals of one type to `in`; under AND the same with `<>` and NOT IN."""
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
    for (expr, _), found in lists.items():
        literals = sorted(found, key=order)
        if len(literals) == 1:
            rest.append(Call("=" if op == "or" else "<>", (expr, literals[0]), "boolean"))
        else:
            member = Call("in", (expr, *literals), "boolean")
            rest.append(member if op == "or" else Call("not", (member,), "boolean"))
    return rest


def _joined(args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """CONCAT is flat, and literals side by side are one."""
    out: list[Expr] = []
    for arg in (a for outer in args for a in (outer.args if isinstance(outer, Call) and outer.op == "concat" else (outer,))):
        last = out[-1] if out else None
        if isinstance(arg, Lit) and isinstance(last, Lit) and isinstance(arg.value, str) and isinstance(last.value, str):
            out[-1] = Lit(last.value + arg.value, "string")
        else:
            out.append(arg)
    return tuple(out)
