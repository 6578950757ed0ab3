"""Time bands: comparisons of two timestamps, each possibly offset by a constant, such as `R.ts - INTERVAL 5 SECONDS <= S.ts`.

All spellings of one band become `a <= b + d`, so that they are equal between queries and `time_bounds` can read them.

In a time zone that changes its clock, as in Spark, a whole day in an interval is a day of the calendar, and the difference of two
timestamps is one of local times. No elapsed time equals them, so they have no such form: they stay as they are written. They still bound
the time that elapses, less tightly, by `slack`. A timestamp without time zone has no such days.
"""

from __future__ import annotations

from dataclasses import dataclass

from clash.model.coercion import INTERVAL, TIMES
from clash.model.expressions import Call, Col, Expr, Lit
from clash.model.types import UNKNOWN

_SYMMETRIC = ("=", "<>")
_DAY = 86_400_000_000  # microseconds
OFFSET_RANGE = 26 * 3_600_000_000
"""No zone's offset from UTC has ever differed by more between two moments, which is what local and elapsed time can differ by."""


@dataclass(frozen=True, slots=True)
class LinearSum:
    """Timestamp columns times coefficients, plus a constant in microseconds; elapsed time is off from it by `slack` at most."""

    columns: dict[Col, int]
    micros: int
    slack: int = 0

    def plus(self, other: LinearSum, sign: int, slack: int = 0) -> LinearSum:
        """self + sign · other, without columns whose coefficient is 0."""
        total = dict(self.columns)
        for col, count in other.columns.items():
            total[col] = total.get(col, 0) + sign * count
        left = {col: count for col, count in total.items() if count}
        return LinearSum(left, self.micros + sign * other.micros, self.slack + other.slack + slack)


@dataclass(frozen=True, slots=True)
class Band:
    """`a op b + micros`; with a `slack`, only up to this many microseconds."""

    a: Col
    b: Col
    micros: int
    slack: int


def as_linear_sum(expr: Expr) -> LinearSum | None:
    """`expr` as a sum of timestamp columns and microseconds; None if it has another form."""
    if isinstance(expr, Col):
        return LinearSum({expr: 1}, 0) if expr.type in (*TIMES, UNKNOWN) else None
    if isinstance(expr, Lit):
        return LinearSum({}, expr.value) if expr.type == INTERVAL and isinstance(expr.value, int) else None
    if expr.op == "neg":
        inner = as_linear_sum(expr.args[0])
        return None if inner is None else LinearSum({}, 0).plus(inner, -1)
    if expr.op in ("+", "-") and expr.type in (*TIMES, INTERVAL, UNKNOWN):
        left, right = as_linear_sum(expr.args[0]), as_linear_sum(expr.args[1])
        if left is None or right is None:
            return None
        return left.plus(right, 1 if expr.op == "+" else -1, OFFSET_RANGE if _depends_on_zone(expr, left, right) else 0)
    return None


def _depends_on_zone(call: Call, left: LinearSum, right: LinearSum) -> bool:
    """Whether local time enters a sum: a difference of timestamps, or an interval of a day or more, or of unknown length."""
    kinds = [arg.type for arg in call.args]
    if "timestamp" not in kinds and UNKNOWN not in kinds:
        return False
    if INTERVAL not in kinds:
        return True
    interval = left if kinds[0] == INTERVAL else right
    return bool(interval.columns) or abs(interval.micros) >= _DAY


def as_band(op: str, left: Expr, right: Expr) -> Band | None:
    """The band of `left op right`, if it is one; for the symmetric `=` and `<>`, a is the smaller column."""
    sums = as_linear_sum(left), as_linear_sum(right)
    if sums[0] is None or sums[1] is None:
        return None
    difference = sums[0].plus(sums[1], -1)
    if sorted(difference.columns.values()) != [-1, 1]:
        return None
    a, b = (next(col for col, count in difference.columns.items() if count == sign) for sign in (1, -1))
    if a.type != b.type:
        return None  # a timestamp with a time zone and one without do not differ by a constant
    offset = any(isinstance(side, Call) for side in (left, right))
    if a.type == UNKNOWN and not (offset and _has_interval(left, right)):
        return None  # nothing shows that columns of unknown type are timestamps
    micros = -difference.micros
    if op in _SYMMETRIC and (b.relation, b.column) < (a.relation, a.column):
        a, b, micros = b, a, -micros
    return Band(a, b, micros, difference.slack)


def _has_interval(*exprs: Expr) -> bool:
    return any((isinstance(e, Lit) and e.type == INTERVAL) or (isinstance(e, Call) and _has_interval(*e.args)) for e in exprs)


def band_expression(op: str, band: Band) -> Call | None:
    """The normal form `a op b + micros` of a band; None if no expression of this form has exactly its meaning in every time zone."""
    if band.slack or (band.a.type != "timestamp_ntz" and abs(band.micros) >= _DAY):
        return None
    right: Expr = band.b if band.micros == 0 else Call("+", (band.b, Lit(band.micros, INTERVAL)), band.b.type)
    return Call(op, (band.a, right), "boolean")
