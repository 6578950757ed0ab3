"""Comparisons with Spark's order: NaN equals NaN and is larger than every number, -0.0 equals 0.0, strings compare by their bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import isnan

import pyarrow as pa
import pyarrow.compute as pc

from clash.expressions.cast import cast_value
from clash.expressions.values import Value
from clash.model.coercion import VOID, common, decimal, digits
from clash.model.expressions import Call, Expr, Lit

_NULL = pa.scalar(None, pa.bool_())


def equal(a: Value, b: Value) -> Value:
    """Spark's `=`; NULL if a side is NULL."""
    ieee_equal = pc.equal(a, b)
    return pc.or_(ieee_equal, pc.and_(pc.is_nan(a), pc.is_nan(b))) if _may_be_nan(a) and _may_be_nan(b) else ieee_equal


def less_equal(a: Value, b: Value) -> Value:
    ieee_less_equal = pc.less_equal(a, b)
    return pc.or_(ieee_less_equal, pc.is_nan(b)) if _may_be_nan(b) else ieee_less_equal


def less(a: Value, b: Value) -> Value:
    return pc.invert(less_equal(b, a)) if _may_be_nan(b) else pc.less(a, b)


def _not_equal(a: Value, b: Value) -> Value:
    return pc.invert(equal(a, b)) if _may_be_nan(a) and _may_be_nan(b) else pc.not_equal(a, b)


def _null_safe_equal(a: Value, b: Value) -> Value:
    """`<=>`: NULL equals NULL and no other value; the result is never NULL."""
    both_null = pc.and_(pc.is_null(a), pc.is_null(b))
    return both_null if pa.types.is_null(a.type) else pc.or_(pc.fill_null(equal(a, b), False), both_null)


def _may_be_nan(value: Value) -> bool:
    if not pa.types.is_floating(value.type):
        return False
    return not isinstance(value, pa.Scalar) or (value.is_valid and isnan(value.as_py()))


def _shared_type(args: tuple[Expr, ...]) -> str:
    """The type to which all arguments are cast; beside decimals an integer literal is a decimal of as many digits, as in Spark."""
    decimals = any(arg.type.startswith("decimal") for arg in args)
    kind = VOID
    for arg in args:
        arg_type = arg.type
        if decimals and isinstance(arg, Lit) and type(arg.value) is int and arg.type in ("tinyint", "smallint", "int", "bigint"):
            arg_type = decimal(*digits(arg.type, arg))
        wider = common(kind, arg_type)
        assert wider is not None, "the SQL front end has checked that the types are comparable"
        kind = wider
    return kind


def _cast_to_shared_type(call: Call, args: list[Value], timezone: str) -> list[Value]:
    kind = _shared_type(call.args)
    return [cast_value(value, arg.type, kind, timezone) for value, arg in zip(args, call.args, strict=True)]


def _comparison(compare: Callable[[Value, Value], Value]) -> Callable[[Call, list[Value], str], Value]:
    """A kernel that compares its two arguments in their shared type."""
    return lambda call, args, timezone: compare(*_cast_to_shared_type(call, args, timezone))


def _in(call: Call, args: list[Value], timezone: str) -> Value:
    """IN: true if a choice equals the value; otherwise NULL if the value or a choice is NULL."""
    value, *choices = _cast_to_shared_type(call, args, timezone)
    if isinstance(value, pa.Scalar) or not all(isinstance(choice, pa.Scalar) for choice in choices):
        return reduce(pc.or_kleene, [equal(value, choice) for choice in choices])
    value_set = pa.concat_arrays([pa.repeat(choice, 1) for choice in choices])
    if pa.types.is_floating(value.type):
        value = pc.add(value, pa.scalar(0.0, value.type))  # -0.0 becomes 0.0, here and in the set
        value_set = pc.add(value_set, pa.scalar(0.0, value_set.type))
    contained = pc.is_in(value, value_set=value_set, skip_nulls=True)
    if value_set.null_count:
        return pc.if_else(contained, contained, _NULL)
    return pc.if_else(pc.is_valid(value), contained, _NULL) if value.null_count else contained


def _extreme(better: Callable[[Value, Value], Value]) -> Callable[[Call, list[Value], str], Value]:
    """GREATEST or LEAST: the first of the best values; NULLs are skipped."""

    def extreme(call: Call, args: list[Value], timezone: str) -> Value:
        best, *others = [cast_value(value, arg.type, call.type, timezone) for value, arg in zip(args, call.args, strict=True)]
        for other in others:
            best = pc.if_else(pc.or_(pc.fill_null(better(other, best), False), pc.is_null(best)), other, best)
        return best

    return extreme


def _is_null(call: Call, args: list[Value], timezone: str) -> Value:
    return pc.is_null(args[0])


def _is_valid(call: Call, args: list[Value], timezone: str) -> Value:
    return pc.is_valid(args[0])


def _not(call: Call, args: list[Value], timezone: str) -> Value:
    return pc.invert(args[0])


KERNELS = {
    "=": _comparison(equal),
    "<>": _comparison(_not_equal),
    "<": _comparison(less),
    "<=": _comparison(less_equal),
    ">": _comparison(lambda a, b: less(b, a)),
    ">=": _comparison(lambda a, b: less_equal(b, a)),
    "<=>": _comparison(_null_safe_equal),
    "in": _in,
    "greatest": _extreme(lambda a, b: less(b, a)),
    "least": _extreme(less),
    "isnull": _is_null,
    "isnotnull": _is_valid,
    "not": _not,
}
