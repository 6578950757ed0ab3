"""Which expressions can fail, as Spark's do in ANSI mode: those that overflow, divide by zero, or cast what has no value of the type."""

from __future__ import annotations

from clash.model.expressions import Call, Expr
from clash.model.types import family

_FAILING = {
    "+", "-", "*", "/", "%", "neg", "abs", "round", "floor", "ceil", "cast", "substring", "div", "pmod", "repeat", "add_months",
    "make_date", "timestamp_seconds", "timestamp_millis",
}  # fmt: skip
_NUMERIC_RANK = {"tinyint": 1, "smallint": 2, "int": 3, "bigint": 4, "float": 5, "double": 6}


def can_fail(expr: Expr) -> bool:
    """Whether the evaluation of the expression raises for some values."""
    if not isinstance(expr, Call):
        return False
    if expr.op in _FAILING and not _cannot_fail(expr):
        return True
    return any(can_fail(arg) for arg in expr.args)


def _cannot_fail(call: Call) -> bool:
    """Casts that lose nothing but precision, and arithmetic on floating-point numbers, which does not overflow."""
    if call.op == "cast":
        source = call.args[0].type
        return call.type == "string" or (source in _NUMERIC_RANK and _NUMERIC_RANK.get(call.type, 0) >= _NUMERIC_RANK[source])
    return family(call.type) == "floating" and call.op in ("+", "-", "*", "neg", "abs", "round")
