"""Time bands: comparisons of two timestamps, each possibly offset by a constant, such as `R.ts - INTERVAL 5 SECONDS <= S.ts`.

All spellings of one band become `a <= b + d`, so that they are equal between queries and `time_bounds` can read them.
"""

from __future__ import annotations

from clash.model.coercion import INTERVAL, TIMES
from clash.model.expressions import Call, Col, Expr, Lit
from clash.model.types import UNKNOWN

LinearSum = tuple[dict[Col, int], int]  # the coefficient of each column, and a constant in microseconds
_SYMMETRIC = ("=", "<>")


def as_linear_sum(expr: Expr) -> LinearSum | None:
    """`expr` as a sum of timestamp columns and microseconds; None if it has another form."""
    if isinstance(expr, Col):
        return ({expr: 1}, 0) if expr.type in (*TIMES, UNKNOWN) else None
    if isinstance(expr, Lit):
        return ({}, expr.value) if expr.type == INTERVAL and isinstance(expr.value, int) else None
    if expr.op == "neg":
        inner = as_linear_sum(expr.args[0])
        return None if inner is None else _add(({}, 0), inner, -1)
    if expr.op in ("+", "-") and expr.type in (*TIMES, INTERVAL, UNKNOWN):
        left, right = as_linear_sum(expr.args[0]), as_linear_sum(expr.args[1])
        return None if left is None or right is None else _add(left, right, 1 if expr.op == "+" else -1)
    return None


def _add(a: LinearSum, b: LinearSum, sign: int) -> LinearSum:
    """a + sign · b, without columns whose coefficient is 0."""
    total = dict(a[0])
    for col, count in b[0].items():
        total[col] = total.get(col, 0) + sign * count
    return {col: count for col, count in total.items() if count}, a[1] + sign * b[1]


def as_band(op: str, left: Expr, right: Expr) -> tuple[Col, Col, int] | None:
    """(a, b, d) if `left op right` means `a op b + d`; for the symmetric `=` and `<>`, a is the smaller column."""
    sums = as_linear_sum(left), as_linear_sum(right)
    if sums[0] is None or sums[1] is None:
        return None
    counts, micros = _add(sums[0], sums[1], -1)
    if sorted(counts.values()) != [-1, 1]:
        return None
    a, b = (next(col for col, count in counts.items() if count == sign) for sign in (1, -1))
    if a.type != b.type:
        return None  # a timestamp with a time zone and one without do not differ by a constant
    offset = any(isinstance(side, Call) for side in (left, right))
    if a.type == UNKNOWN and not (offset and _has_interval(left, right)):
        return None  # nothing shows that columns of unknown type are timestamps
    if op in _SYMMETRIC and (b.relation, b.column) < (a.relation, a.column):
        a, b, micros = b, a, -micros
    return a, b, -micros


def _has_interval(*exprs: Expr) -> bool:
    return any((isinstance(e, Lit) and e.type == INTERVAL) or (isinstance(e, Call) and _has_interval(*e.args)) for e in exprs)


def band_expression(op: str, a: Col, b: Col, micros: int) -> Call:
    """The normal form `a op b + micros` of a band."""
    right: Expr = b if micros == 0 else Call("+", (b, Lit(micros, INTERVAL)), b.type)
    return Call(op, (a, right), "boolean")
