"""Arithmetic: whole numbers raise when they overflow, every division by zero raises, rounding is half up (away from zero)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.expressions import decimals, doubles
from clash.expressions.cast import bring
from clash.expressions.arrow_types import arrow_type
from clash.expressions.values import Value, aligned, numbers, on_array, whole, with_nulls_of
from clash.model.expressions import Call, Lit
from clash.model.types import family
from clash.model.coercion import INTERVAL, TIMES, decimal, digits

_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_PLAIN = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}


def _binary(call: Call, args: list[Value], timezone: str) -> Value:
    kind, op = call.type, call.op
    if kind == INTERVAL or kind in TIMES:
        moved = _CHECKED[op](whole(args[0]), whole(args[1]))
        return moved.view(arrow_type(kind))
    if kind.startswith("decimal"):
        return decimals.combined(op, _as_decimal(call, args, 0, timezone), _as_decimal(call, args, 1, timezone), arrow_type(kind))
    if op in "/%":
        return _divided(call, args, timezone)
    a, b = (bring(value, arg.type, kind, timezone) for value, arg in zip(args, call.args, strict=True))
    return (_PLAIN if family(kind) == "floating" else _CHECKED)[op](a, b)


def _as_decimal(call: Call, args: list[Value], at: int, timezone: str) -> Value:
    arg = call.args[at]
    return bring(args[at], arg.type, decimal(*digits(arg.type, arg)), timezone)


def _divided(call: Call, args: list[Value], timezone: str) -> Value:
    kind = "double" if call.op == "/" else call.type
    a, b = (bring(value, arg.type, kind, timezone) for value, arg in zip(args, call.args, strict=True))
    zero = pc.equal(b, pa.scalar(0, b.type))
    if pc.any(pc.and_(zero, pc.is_valid(a))).as_py():
        raise decimals.division_by_zero()
    if call.op == "/":
        return pc.divide(a, b)
    left, right = aligned(a, b)
    valid = pc.and_(left.is_valid(), right.is_valid())
    with np.errstate(invalid="ignore"):  # the remainder of an infinity is NaN
        data = np.fmod(numbers(left), np.where(numbers(right) == 0, 1, numbers(right)))
    return with_nulls_of(data, pc.if_else(valid, True, None), arrow_type(kind))


def _negated(call: Call, args: list[Value], timezone: str) -> Value:
    if call.type == INTERVAL:
        return pc.negate_checked(whole(args[0])).view(arrow_type(INTERVAL))
    return pc.negate_checked(args[0])


def _absolute(call: Call, args: list[Value], timezone: str) -> Value:
    return pc.abs_checked(args[0])


def _rounded(call: Call, args: list[Value], timezone: str) -> Value:
    places = call.args[1].value if len(call.args) > 1 and isinstance(call.args[1], Lit) else 0
    assert isinstance(places, int)
    kind, target = call.args[0].type, arrow_type(call.type)
    if kind.startswith("decimal"):
        return on_array(lambda a: _rounded_decimal(a, places, target), args[0])
    if family(kind) == "floating":
        return on_array(lambda a: doubles.rounded(a.cast(pa.float64()), places).cast(target, safe=False), args[0])
    return args[0] if places >= 0 else on_array(lambda a: _rounded_whole(a, -places, target), args[0])


def _rounded_decimal(values: pa.Array, places: int, target: pa.DataType) -> pa.Array:
    if places >= 0:
        return decimals.rescaled(values, target)
    rounded = decimals.half_up(decimals.unscaled(values), values.type.scale - places) * 10**-places
    return decimals.scaled(rounded, values.is_valid() if values.null_count else None, target)


def _rounded_whole(values: pa.Array, places: int, target: pa.DataType) -> pa.Array:
    if places > 19:
        return with_nulls_of(np.zeros(len(values), dtype=np.int64), values, target)
    data = numbers(values.cast(pa.int64()))
    if places > 18:
        rounded = decimals.half_up(data.astype(object), places) * 10**places
        return pa.array(rounded, pa.decimal128(38, 0), mask=values.is_null().to_numpy(zero_copy_only=False)).cast(target)
    unit = 10**places
    rest = np.fmod(data, unit)
    up = np.where(np.abs(rest) >= unit // 2, np.sign(data) * unit, 0)
    return pc.add_checked(with_nulls_of(data - rest, values, pa.int64()), pa.array(up)).cast(target)


def _to_whole(kernel: Callable[[Any], Any]) -> Callable[[Call, list[Value], str], Value]:
    def to_whole(call: Call, args: list[Value], timezone: str) -> Value:
        kind, value, target = call.args[0].type, args[0], arrow_type(call.type)
        if kind.startswith("decimal"):
            return on_array(lambda a: kernel(a.cast(pa.decimal256(a.type.precision + 1, a.type.scale))).cast(target), value)
        if family(kind) == "floating":
            return on_array(lambda a: doubles.clipped(kernel(a.cast(pa.float64()))), value)
        return value.cast(target)

    return to_whole


KERNELS = {
    **dict.fromkeys(("+", "-", "*", "/", "%"), _binary),
    "neg": _negated,
    "abs": _absolute,
    "round": _rounded,
    "floor": _to_whole(pc.floor),
    "ceil": _to_whole(pc.ceil),
}
