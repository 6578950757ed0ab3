"""Comparisons: NaN equals itself and is larger than all numbers, -0.0 equals 0.0, text goes by its bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import isnan

import pyarrow as pa
import pyarrow.compute as pc

from clash.expressions.cast import bring
from clash.expressions.values import Value
from clash.model.expressions import Call, Expr, Lit
from clash.model.coercion import VOID, common, decimal, digits

_NULL = pa.scalar(None, pa.bool_())


def equal(a: Value, b: Value) -> Value:
    plain = pc.equal(a, b)
    return pc.or_(plain, pc.and_(pc.is_nan(a), pc.is_nan(b))) if _maybe_nan(a) and _maybe_nan(b) else plain


def less_equal(a: Value, b: Value) -> Value:
    plain = pc.less_equal(a, b)
    return pc.or_(plain, pc.is_nan(b)) if _maybe_nan(b) else plain


def less(a: Value, b: Value) -> Value:
    return pc.invert(less_equal(b, a)) if _maybe_nan(b) else pc.less(a, b)


def _not_equal(a: Value, b: Value) -> Value:
    return pc.invert(equal(a, b)) if _maybe_nan(a) and _maybe_nan(b) else pc.not_equal(a, b)


def _same(a: Value, b: Value) -> Value:
    """`<=>`: NULL is the same as NULL, and never anything else."""
    both = pc.and_(pc.is_null(a), pc.is_null(b))
    return both if pa.types.is_null(a.type) else pc.or_(pc.fill_null(equal(a, b), False), both)


def _maybe_nan(value: Value) -> bool:
    if not pa.types.is_floating(value.type):
        return False
    return not isinstance(value, pa.Scalar) or (value.is_valid and isnan(value.as_py()))


def shared_type(args: tuple[Expr, ...]) -> str:
    """What all are brought to; a literal integer beside decimals is as wide as it is long, as in Spark."""
    decimals = any(arg.type.startswith("decimal") for arg in args)
    kind = VOID
    for arg in args:
        own = arg.type
        if decimals and isinstance(arg, Lit) and type(arg.value) is int and arg.type in ("tinyint", "smallint", "int", "bigint"):
            own = decimal(*digits(arg.type, arg))
        wider = common(kind, own)
        assert wider is not None, "the front end has checked the types"
        kind = wider
    return kind


def _brought(call: Call, args: list[Value], timezone: str) -> list[Value]:
    kind = shared_type(call.args)
    return [bring(value, arg.type, kind, timezone) for value, arg in zip(args, call.args, strict=True)]


def _comparison(compare: Callable[[Value, Value], Value]) -> Callable[[Call, list[Value], str], Value]:
    return lambda call, args, timezone: compare(*_brought(call, args, timezone))


def _within(call: Call, args: list[Value], timezone: str) -> Value:
    """True if found; else NULL if a NULL is among the choices."""
    value, *choices = _brought(call, args, timezone)
    if isinstance(value, pa.Scalar) or not all(isinstance(choice, pa.Scalar) for choice in choices):
        return reduce(pc.or_kleene, [equal(value, choice) for choice in choices])
    found = pa.concat_arrays([pa.repeat(choice, 1) for choice in choices])
    if pa.types.is_floating(value.type):
        value, found = pc.add(value, pa.scalar(0.0, value.type)), pc.add(found, pa.scalar(0.0, found.type))  # -0.0 becomes 0.0
    inside = pc.is_in(value, value_set=found, skip_nulls=True)
    if found.null_count:
        return pc.if_else(inside, inside, _NULL)
    return pc.if_else(pc.is_valid(value), inside, _NULL) if value.null_count else inside


def _extreme(better: Callable[[Value, Value], Value]) -> Callable[[Call, list[Value], str], Value]:
    """The first of the best; NULLs are skipped."""

    def extreme(call: Call, args: list[Value], timezone: str) -> Value:
        best, *others = [bring(value, arg.type, call.type, timezone) for value, arg in zip(args, call.args, strict=True)]
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
    "<=>": _comparison(_same),
    "in": _within,
    "greatest": _extreme(lambda a, b: less(b, a)),
    "least": _extreme(less),
    "isnull": _is_null,
    "isnotnull": _is_valid,
    "not": _not,
}
