"""Casts that Spark adds: text beside a date or timestamp, the choices of an IN, a NULL among other values."""

from __future__ import annotations

from clash.model.coercion import TIMES, VOID, common
from clash.model.expressions import Call, Expr, Lit
from clash.sql import literals


def as_time(expr: Expr, other_type: str) -> Expr:
    """A string literal as a date or timestamp, if it is compared with one."""
    if isinstance(expr, Lit) and expr.type == "string" and isinstance(expr.value, str) and other_type in ("date", *TIMES):
        return cast_expression(expr, other_type)
    return expr


def in_one_type(exprs: list[Expr]) -> list[Expr]:
    """The value and the choices of an IN, which Spark compares in the one type of all of them; casts only where pairs have another one."""
    shared: str | None = VOID
    for expr in exprs:
        if not (isinstance(expr, Lit) and expr.type == "string"):
            shared = None if shared is None else common(shared, expr.type)
    if shared is None or shared == VOID:
        return exprs
    exprs = [as_time(expr, shared) for expr in exprs]
    if all(common(exprs[0].type, choice.type) in (shared, None) for choice in exprs[1:]):
        return exprs
    return [cast_expression(expr, shared) for expr in exprs]


def cast_expression(expr: Expr, target: str) -> Expr:
    """CAST, of a literal at once where the result is certain."""
    folded = literals.cast_literal(expr, target) if isinstance(expr, Lit) else None
    return expr if expr.type == target else folded or Call("cast", (expr,), target)


def with_type_of_null(expr: Expr, type_: str) -> Expr:
    """A bare NULL with the type of its context; any other expression as it is."""
    return Lit(None, type_) if isinstance(expr, Lit) and expr.type == VOID else expr
