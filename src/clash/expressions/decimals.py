"""Decimals as Spark computes them: exact, then rounded half up (away from zero) to the result's type; what does not fit raises.

Arrow's kernels do what cannot lose digits; the rest goes through whole numbers of any length (numpy's object arrays).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.errors import DataError
from clash.expressions.values import Value, aligned

Whole = np.ndarray[Any, Any]
_LIMIT = 38
_QUOTIENT_SCALE = 39  # Spark rounds a quotient here first, then to the result's scale
_PRODUCT_DIGITS = 39  # and a product to so many digits
_SHORT_SCALE = 30  # up to here rounding twice is rounding once, but for one quotient in 10**8
_WIDE_LIMIT = 76
_NARROW = 18
_LOW = (1 << 64) - 1


def overflow(kind: pa.DataType) -> DataError:
    return DataError(
        "a number is out of range", f"it does not fit decimal({kind.precision},{kind.scale})", "CAST to a wider decimal or to double"
    )


def division_by_zero() -> DataError:
    return DataError("division by zero", "", "guard it, e.g. with CASE WHEN … <> 0 THEN … END, or NULLIF(…, 0)")


def rescaled(values: pa.Array, target: pa.DataType) -> pa.Array:
    """The cast of a decimal to another one."""
    source = values.type
    if source == target:
        return values
    try:
        if target.scale < source.scale:
            wide = values.cast(pa.decimal256(source.precision + 1, source.scale))
            values = pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity")
        return values.cast(target)
    except pa.ArrowInvalid:
        raise overflow(target) from None


def relabelled(values: pa.Array, target: pa.DataType) -> pa.Array:
    """The same digits with another scale."""
    return pa.Array.from_buffers(target, len(values), values.buffers(), offset=values.offset)


def unscaled(values: pa.Array, narrow: bool = False) -> Whole:
    """The digits as whole numbers, 0 where NULL; `narrow` if 64 bits are known to do."""
    words = np.frombuffer(values.buffers()[1], dtype=np.int64)[2 * values.offset : 2 * (values.offset + len(values))]
    low, high = words[::2], words[1::2]
    if values.null_count:
        null = values.is_null().to_numpy(zero_copy_only=False)
        low, high = np.where(null, 0, low), np.where(null, 0, high)
    if narrow:
        return low
    if np.array_equal(low >> 63, high):
        return low.astype(object)
    whole: Whole = high.astype(object) * (1 << 64) + low.view(np.uint64).astype(object)
    return whole


def scaled(whole: Whole, valid: pa.Array | None, target: pa.DataType) -> pa.Array:
    """The decimals with these digits; raises if one is too long for the type."""
    if whole.dtype == object:
        if any_above(whole, 10**target.precision - 1):
            raise overflow(target)
        low, high = (whole & _LOW).astype(np.uint64).view(np.int64), (whole >> 64).astype(np.int64)
    else:
        if target.precision < 19 and any_above(whole, 10**target.precision - 1):
            raise overflow(target)
        low, high = whole, whole >> 63
    words = np.empty(2 * len(whole), dtype=np.int64)
    words[::2], words[1::2] = low, high
    validity = None if valid is None else pa.array(valid.to_numpy(zero_copy_only=False)).buffers()[1]  # a slice's buffer begins elsewhere
    return pa.Array.from_buffers(target, len(whole), [validity, pa.py_buffer(words)])


def any_above(whole: Whole, limit: int) -> bool:
    return len(whole) > 0 and bool(whole.max() > limit or whole.min() < -limit)


def half_up(whole: Whole, drop: int) -> Whole:
    """Without its last `drop` digits; a negative number appends zeros."""
    if drop <= 0:
        longer: Whole = whole * 10**-drop
        return longer
    sign = np.where((whole < 0).astype(bool), -1, 1).astype(object)
    rounded: Whole = (np.abs(whole) + 5 * 10 ** (drop - 1)) // 10**drop * sign
    return rounded


def combined(op: str, a: Value, b: Value, target: pa.DataType) -> Value:
    """`a op b` of two decimals for + - * / %."""
    fast = _ARROW.get(op)
    if fast is not None and _width(op, a.type, b.type) <= _LIMIT:
        return fast(a, b)
    left, right = aligned(a, b)
    if op == "/" and target.scale <= _SHORT_SCALE and _quotient_width(a.type, b.type, target) < _WIDE_LIMIT:
        return _wide_quotient(left, right, target)
    valid = pc.and_(left.is_valid(), right.is_valid()) if left.null_count or right.null_count else None
    narrow = op == "%" and _width(op, a.type, b.type) <= _NARROW
    x, y, s, t = unscaled(left, narrow), unscaled(right, narrow), left.type.scale, right.type.scale
    if op in "/%":
        y = _divisor(y, valid)
    if op == "*":
        whole, scale = _short(x * y), s + t
    elif op == "/":
        whole, scale = _quotient(x * 10 ** (_QUOTIENT_SCALE + t), y * 10**s), _QUOTIENT_SCALE
    else:
        scale = max(s, t)
        x, y = x * 10 ** (scale - s), y * 10 ** (scale - t)
        whole = x + y if op == "+" else x - y if op == "-" else np.abs(x) % np.abs(y) * np.where((x < 0).astype(bool), -1, 1)
    if valid is not None:
        whole = np.where(valid.to_numpy(zero_copy_only=False), whole, 0)
    return scaled(half_up(whole, scale - target.scale), valid, target)


def _wide_quotient(left: pa.Array, right: pa.Array, target: pa.DataType) -> pa.Array:
    """Arrow cuts its quotient off, and half up looks at the first digit behind: one digit more than the result has will do."""
    zero = pc.equal(right, pa.scalar(Decimal(0), right.type))
    if pc.any(pc.and_(zero, left.is_valid())).as_py():
        raise division_by_zero()
    if pc.any(zero).as_py():
        right = pc.if_else(zero, pa.scalar(None, right.type), right)
    scale = _dividend_scale(left.type, right.type, target)
    above = left.cast(pa.decimal256(left.type.precision - left.type.scale + scale, scale))
    quotient = pc.divide(above, right.cast(pa.decimal256(right.type.precision, right.type.scale)))
    wide = quotient.cast(pa.decimal256(quotient.type.precision + 1, quotient.type.scale))
    try:
        return pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity").cast(target)
    except pa.ArrowInvalid:
        raise overflow(target) from None


def _dividend_scale(a: pa.DataType, b: pa.DataType, target: pa.DataType) -> int:
    """With it the quotient's scale in Arrow, dividend's scale + divisor's digits before the point + 1, is the target's + 1 at least."""
    return int(max(a.scale, target.scale - b.precision + b.scale))


def _quotient_width(a: pa.DataType, b: pa.DataType, target: pa.DataType) -> int:
    return int(a.precision - a.scale + _dividend_scale(a, b, target) + b.precision + 1)


def _divisor(y: Whole, valid: pa.Array | None) -> Whole:
    zero = (y == 0).astype(bool)
    if not zero.any():
        return y
    if valid is None or (zero & valid.to_numpy(zero_copy_only=False)).any():
        raise division_by_zero()
    return np.where(zero, 1, y)


def _quotient(x: Whole, y: Whole) -> Whole:
    sign = np.where(((x < 0) != (y < 0)).astype(bool), -1, 1).astype(object)
    below, above = np.abs(x), np.abs(y)
    found: Whole = (2 * below + above) // (2 * above) * sign
    return found


def _short(product: Whole) -> Whole:
    """Rounded half up to 39 digits, as Java's MathContext does."""
    if not any_above(product, 10**_PRODUCT_DIGITS - 1):
        return product
    digits = np.frompyfunc(lambda value: len(str(abs(value))), 1, 1)(product).astype(np.int64)
    for length in np.unique(digits[digits > _PRODUCT_DIGITS]):
        long, drop = digits == length, int(length) - _PRODUCT_DIGITS
        product[long] = half_up(product[long], drop) * 10**drop
    return product


def _width(op: str, a: pa.DataType, b: pa.DataType) -> int:
    if op == "*":
        return int(a.precision + b.precision + 1)
    return int(max(a.precision - a.scale, b.precision - b.scale) + max(a.scale, b.scale) + 1)


_ARROW = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
