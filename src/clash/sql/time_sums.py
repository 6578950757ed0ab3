"""`+` and `-`, of numbers and of times.

An interval of months is no value of its own: it is a literal beside a date or timestamp. As in Spark, days beside a date give a date, and
any other interval makes the date a timestamp.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from clash.model.coercion import INTERVAL, TIMES, VOID
from clash.model.expressions import Expr, Lit
from clash.model.types import UNKNOWN
from clash.sql import literals
from clash.sql.functions import typed
from clash.sql.implicit_casts import cast_expression
from clash.sql.result_types import MismatchError

_DAYS = {"+": "date_add", "-": "date_sub"}


def time_sum(op: str, first: exp.Expression, second: exp.Expression, convert: Callable[[exp.Expression], Expr]) -> Expr:
    """`first op second`; `convert` gives the expressions of both."""
    months = literals.months(second)
    if months is not None and literals.months(first) is None:
        return _plus_months(convert(first), months if op == "+" else -months)
    months = literals.months(first) if months is None and op == "+" else None
    if months is not None:
        return _plus_months(convert(second), months)
    left, right = convert(first), convert(second)
    if left.type == "date" and right.type != "date":
        return _plus_date(op, left, right, second)
    if right.type == "date" and left.type != "date" and op == "+":
        return _plus_date(op, right, left, first)
    return typed(op, (left, right))


def _plus_months(value: Expr, months: int) -> Expr:
    if value.type == INTERVAL:
        raise MismatchError(
            "an INTERVAL has months and days", "", "add them one after the other: R.ts + INTERVAL 1 MONTH + INTERVAL 5 DAYS"
        )
    if value.type not in ("date", *TIMES, VOID, UNKNOWN):
        raise MismatchError("months go with dates and timestamps", f"this is {value.type}", "CAST it to date or timestamp")
    return typed("add_months", (value, Lit(months, "int")))


def _plus_date(op: str, day: Expr, other: Expr, node: exp.Expression) -> Expr:
    """A date and something else, which `node` stands for."""
    if other.type == VOID:
        raise MismatchError("NULL beside a date has no certain type", "", "write CAST(NULL AS int), or leave it out")
    if other.type != INTERVAL:
        return typed(_DAYS[op], (day, other))
    if literals.has_days_only(node) and isinstance(other, Lit) and isinstance(other.value, int):
        return typed(_DAYS[op], (day, Lit(other.value // literals.DAY, "int")))
    return typed(op, (cast_expression(day, "timestamp"), other))
