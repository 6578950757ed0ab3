"""Comparisons of two timestamps that may be moved by constants: `R.ts - INTERVAL 5 SECONDS <= S.ts`.

All spellings of one such band become `a <= b + d`, so that they are equal between queries and `bounds` can read them.
"""

from __future__ import annotations

from clash.model.expressions import Call, Col, Expr, Lit
from clash.model.types import UNKNOWN
from clash.model.coercion import INTERVAL, TIMES

Linear = tuple[dict[Col, int], int]  # how often each column counts, and microseconds on top
_TURNED = {"=": "=", "<>": "<>"}


def linear(expr: Expr) -> Linear | None:
    """`expr` as a sum of timestamp columns and microseconds; None if it is something else."""
    if isinstance(expr, Col):
        return ({expr: 1}, 0) if expr.type in (*TIMES, UNKNOWN) else None
    if isinstance(expr, Lit):
        return ({}, expr.value) if expr.type == INTERVAL and isinstance(expr.value, int) else None
    if expr.op == "neg":
        inner = linear(expr.args[0])
        return None if inner is None else _add(({}, 0), inner, -1)
    if expr.op in ("+", "-") and expr.type in (*TIMES, INTERVAL, UNKNOWN):
        left, right = linear(expr.args[0]), linear(expr.args[1])
        return None if left is None or right is None else _add(left, right, 1 if expr.op == "+" else -1)
    return None


def _add(a: Linear, b: Linear, sign: int) -> Linear:
    total = dict(a[0])
    for col, count in b[0].items():
        total[col] = total.get(col, 0) + sign * count
    return {c: n for c, n in total.items() if n}, a[1] + sign * b[1]


def band(op: str, left: Expr, right: Expr) -> tuple[Col, Col, int] | None:
    """(a, b, d) if `left op right` says `a op b + d`; for the symmetric `=` and `<>` the smaller column is a."""
    sides = linear(left), linear(right)
    if sides[0] is None or sides[1] is None:
        return None
    counts, micros = _add(sides[0], sides[1], -1)
    if sorted(counts.values()) != [-1, 1]:
        return None
    a, b = (next(c for c, n in counts.items() if n == sign) for sign in (1, -1))
    if a.type != b.type:
        return None  # a date, or a timestamp with and one without zone: not a constant apart
    moved = any(isinstance(side, Call) for side in (left, right))
    if a.type == UNKNOWN and not (moved and _has_interval(left, right)):
        return None  # nothing says that these are timestamps
    if op in _TURNED and (b.relation, b.column) < (a.relation, a.column):
        a, b, micros = b, a, -micros
    return a, b, -micros


def _has_interval(*exprs: Expr) -> bool:
    return any((isinstance(e, Lit) and e.type == INTERVAL) or (isinstance(e, Call) and _has_interval(*e.args)) for e in exprs)


def written(op: str, a: Col, b: Col, micros: int) -> Call:
    moved: Expr = b if micros == 0 else Call("+", (b, Lit(micros, INTERVAL)), b.type)
    return Call(op, (a, moved), "boolean")
