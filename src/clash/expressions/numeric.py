"""Numeric functions beside arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.expressions import decimals, strict_math
from clash.expressions.arrow_types import arrow_type
from clash.expressions.cast import cast_value
from clash.expressions.values import Value, as_arrays, on_array, to_numpy, with_nulls_of
from clash.model.expressions import Call


def _cast_all(call: Call, args: list[Value], kind: str, timezone: str) -> list[pa.Array]:
    return as_arrays(*(cast_value(value, arg.type, kind, timezone) for value, arg in zip(args, call.args, strict=True)))


def _refuse_zero(left: pa.Array, right: pa.Array) -> None:
    if pc.any(pc.and_(pc.equal(right, pa.scalar(0, right.type)), left.is_valid())).as_py():
        raise decimals.division_by_zero()


def _integral_divide(call: Call, args: list[Value], timezone: str) -> Value:
    """DIV: towards zero; only the smallest bigint by -1 does not fit."""
    left, right = _cast_all(call, args, "bigint", timezone)
    _refuse_zero(left, right)
    return pc.divide_checked(left, right)


def _positive_modulo(call: Call, args: list[Value], timezone: str) -> Value:
    """PMOD: a negative remainder has the divisor added, and is divided once more; in Java's arithmetic, which wraps around."""
    left, right = _cast_all(call, args, call.type, timezone)
    _refuse_zero(left, right)
    valid = pc.if_else(pc.and_(left.is_valid(), right.is_valid()), True, None)
    dividend, divisor = to_numpy(left), np.where(to_numpy(right) == 0, 1, to_numpy(right))
    if dividend.dtype.kind == "i" and dividend.dtype.itemsize < 4:
        dividend, divisor = dividend.astype(np.int32), divisor.astype(np.int32)
    else:
        divisor = divisor.astype(dividend.dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        remainder = np.fmod(dividend, divisor)
        result = np.where(remainder < 0, np.fmod(remainder + divisor, divisor), remainder)
    return with_nulls_of(result.astype(to_numpy(left).dtype), valid, arrow_type(call.type))


def _of_double(function: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Callable[[Call, list[Value], str], Value]:
    def compute(call: Call, args: list[Value], timezone: str) -> Value:
        value = cast_value(args[0], call.args[0].type, "double", timezone)
        with np.errstate(invalid="ignore"):
            return on_array(lambda a: with_nulls_of(function(to_numpy(a)), a, pa.float64()), value)

    return compute


def _logarithm(function: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Callable[[Call, list[Value], str], Value]:
    """LN, LOG2 or LOG10: of zero and below NULL, as in Spark."""

    def compute(call: Call, args: list[Value], timezone: str) -> Value:
        value = cast_value(args[0], call.args[0].type, "double", timezone)
        return on_array(lambda a: pa.array(function(to_numpy(a, 1.0)), mask=_null_or_not_positive(a)), value)

    return compute


def _null_or_not_positive(values: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    found: np.ndarray[Any, np.dtype[np.bool_]] = to_numpy(values, 0.0) <= 0
    return found


def _log(call: Call, args: list[Value], timezone: str) -> Value:
    """LOG(base, x)."""
    base, x = _cast_all(call, args, "double", timezone)
    with np.errstate(all="ignore"):
        quotients = strict_math.log(to_numpy(x, 1.0)) / strict_math.log(to_numpy(base, 1.0))
    return pa.array(quotients, mask=_null_or_not_positive(base) | _null_or_not_positive(x))


def _power(call: Call, args: list[Value], timezone: str) -> Value:
    base, exponent = _cast_all(call, args, "double", timezone)
    valid = pc.if_else(pc.and_(base.is_valid(), exponent.is_valid()), True, None)
    return with_nulls_of(strict_math.power(to_numpy(base), to_numpy(exponent)), valid, pa.float64())


def _sign(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Of zero, the zero itself with its sign."""
    return np.where(numbers == 0, numbers, np.sign(numbers))


def _is_nan(call: Call, args: list[Value], timezone: str) -> Value:
    """False for NULL."""
    value = cast_value(args[0], call.args[0].type, "double", timezone)
    return on_array(lambda a: pc.is_nan(a).fill_null(False), value)


def _nanvl(call: Call, args: list[Value], timezone: str) -> Value:
    left, right = _cast_all(call, args, call.type, timezone)
    return pc.if_else(pc.is_nan(left), right, left)


def _bitwise(kernel: Callable[[Any, Any], Any]) -> Callable[[Call, list[Value], str], Value]:
    return lambda call, args, timezone: kernel(*_cast_all(call, args, call.type, timezone))


KERNELS = {
    "div": _integral_divide,
    "pmod": _positive_modulo,
    "sqrt": _of_double(np.sqrt),
    "exp": _of_double(strict_math.exp),
    "ln": _logarithm(strict_math.log),
    "log2": _logarithm(lambda x: strict_math.log(x) / strict_math.log(np.array([2.0]))),
    "log10": _logarithm(strict_math.log10),
    "log": _log,
    "power": _power,
    "rint": _of_double(np.rint),
    "sign": _of_double(_sign),
    "isnan": _is_nan,
    "nanvl": _nanvl,
    "&": _bitwise(pc.bit_wise_and),
    "|": _bitwise(pc.bit_wise_or),
    "^": _bitwise(pc.bit_wise_xor),
    "~": lambda call, args, timezone: pc.bit_wise_not(args[0]),
}
