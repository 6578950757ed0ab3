"""Arithmetic: integer overflow and division by zero raise, rounding is half up (away from zero)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.expressions import decimals, doubles
from clash.expressions.arrow_types import arrow_type
from clash.expressions.cast import cast_value
from clash.expressions.temporal import add_interval, local_difference
from clash.expressions.values import Value, as_arrays, as_int64, on_array, to_numpy, with_nulls_of
from clash.model.coercion import INTERVAL, TIMES, decimal, digits
from clash.model.expressions import Call, Lit
from clash.model.types import family

_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_UNCHECKED = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}


def _binary(call: Call, args: list[Value], timezone: str) -> Value:
    kind, op = call.type, call.op
    if kind == INTERVAL or kind in TIMES:
        return _with_times(call, args, timezone)
    if kind.startswith("decimal"):
        left, right = (_as_decimal(call, args, operand, timezone) for operand in (0, 1))
        return decimals.compute(op, left, right, arrow_type(kind))
    if op in "/%":
        return _divide(call, args, timezone)
    a, b = (cast_value(value, arg.type, kind, timezone) for value, arg in zip(args, call.args, strict=True))
    return (_UNCHECKED if family(kind) == "floating" else _CHECKED)[op](a, b)


def _with_times(call: Call, args: list[Value], timezone: str) -> Value:
    """Sums and differences of intervals and timestamps. Those of a timestamp with time zone depend on the session's zone."""
    kind, op, types = call.type, call.op, [arg.type for arg in call.args]
    if "timestamp" not in types:
        return _CHECKED[op](as_int64(args[0]), as_int64(args[1])).view(arrow_type(kind))
    if kind == INTERVAL:
        end, start = as_arrays(*args)
        return local_difference(end, start, timezone).view(arrow_type(kind))
    instants, micros = as_arrays(*args) if types[0] == "timestamp" else as_arrays(*args)[::-1]
    micros = as_int64(micros)
    return add_interval(instants, micros if op == "+" else pc.negate_checked(micros), timezone)


def _as_decimal(call: Call, args: list[Value], operand: int, timezone: str) -> Value:
    """The operand as a decimal; an integer literal becomes one of as many digits as it has, as in Spark."""
    arg = call.args[operand]
    return cast_value(args[operand], arg.type, decimal(*digits(arg.type, arg)), timezone)


def _divide(call: Call, args: list[Value], timezone: str) -> Value:
    """`/` of numbers that are no decimals, which gives a double, and `%`, whose result has the sign of the dividend."""
    kind = "double" if call.op == "/" else call.type
    a, b = (cast_value(value, arg.type, kind, timezone) for value, arg in zip(args, call.args, strict=True))
    zero = pc.equal(b, pa.scalar(0, b.type))
    if pc.any(pc.and_(zero, pc.is_valid(a))).as_py():
        raise decimals.division_by_zero()
    if call.op == "/":
        return pc.divide(a, b)
    left, right = as_arrays(a, b)
    valid = pc.and_(left.is_valid(), right.is_valid())
    with np.errstate(invalid="ignore"):  # the remainder of an infinity is NaN
        remainders = np.fmod(to_numpy(left), np.where(to_numpy(right) == 0, 1, to_numpy(right)))
    return with_nulls_of(remainders, pc.if_else(valid, True, None), arrow_type(kind))


def _negate(call: Call, args: list[Value], timezone: str) -> Value:
    if call.type == INTERVAL:
        return pc.negate_checked(as_int64(args[0])).view(arrow_type(INTERVAL))
    return pc.negate_checked(args[0])


def _absolute(call: Call, args: list[Value], timezone: str) -> Value:
    return pc.abs_checked(args[0])


def _round(call: Call, args: list[Value], timezone: str) -> Value:
    places = call.args[1].value if len(call.args) > 1 and isinstance(call.args[1], Lit) else 0
    assert isinstance(places, int)
    kind, target = call.args[0].type, arrow_type(call.type)
    if kind.startswith("decimal"):
        return on_array(lambda a: _round_decimals(a, places, target), args[0])
    if family(kind) == "floating":
        return on_array(lambda a: doubles.round_half_up(a.cast(pa.float64()), places).cast(target, safe=False), args[0])
    return args[0] if places >= 0 else on_array(lambda a: _round_integers(a, -places, target), args[0])


def _round_decimals(values: pa.Array, places: int, target: pa.DataType) -> pa.Array:
    if places >= 0:
        return decimals.rescale(values, target)
    rounded = decimals.round_half_up(decimals.unscaled_integers(values), values.type.scale - places) * 10**-places
    return decimals.from_unscaled(rounded, values.is_valid() if values.null_count else None, target)


def _round_integers(values: pa.Array, places: int, target: pa.DataType) -> pa.Array:
    """Round integers to a multiple of 10**places. 64 bits hold units up to 10**18; above 10**19 every result is 0."""
    if places > 19:
        return with_nulls_of(np.zeros(len(values), dtype=np.int64), values, target)
    data = to_numpy(values.cast(pa.int64()))
    if places > 18:
        rounded = decimals.round_half_up(data.astype(object), places) * 10**places
        return pa.array(rounded, pa.decimal128(38, 0), mask=values.is_null().to_numpy(zero_copy_only=False)).cast(target)
    unit = 10**places
    remainder = np.fmod(data, unit)
    increment = np.where(np.abs(remainder) >= unit // 2, np.sign(data) * unit, 0)
    return pc.add_checked(with_nulls_of(data - remainder, values, pa.int64()), pa.array(increment)).cast(target)


def _to_integer(kernel: Callable[[Any], Any]) -> Callable[[Call, list[Value], str], Value]:
    """FLOOR or CEIL: of a decimal a decimal, of any other number a bigint."""

    def to_integer(call: Call, args: list[Value], timezone: str) -> Value:
        kind, value, target = call.args[0].type, args[0], arrow_type(call.type)
        if kind.startswith("decimal"):
            return on_array(lambda a: kernel(a.cast(pa.decimal256(a.type.precision + 1, a.type.scale))).cast(target), value)
        if family(kind) == "floating":
            return on_array(lambda a: doubles.to_bigint(kernel(a.cast(pa.float64()))), value)
        return value.cast(target)

    return to_integer


KERNELS = {
    **dict.fromkeys(("+", "-", "*", "/", "%"), _binary),
    "neg": _negate,
    "abs": _absolute,
    "round": _round,
    "floor": _to_integer(pc.floor),
    "ceil": _to_integer(pc.ceil),
}
