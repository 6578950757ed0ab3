"""Decimal arithmetic as in Spark: exact, then rounded half up (away from zero) to the result's type; a result that does not fit raises.

Arrow's kernels compute what cannot lose digits. All else is computed with Python integers of any length, in numpy object arrays.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.errors import DataError
from clash.expressions.values import Value, as_arrays

Integers = np.ndarray[Any, Any]
_MAX_PRECISION = 38
_MAX_WIDE_PRECISION = 76  # of Arrow's decimal256
_QUOTIENT_SCALE = 39  # Spark rounds a quotient to this scale first, then to the result's scale
_PRODUCT_DIGITS = 39  # Spark rounds a product to this many digits first
_QUOTIENT_DIGITS = 39  # of the whole quotient, without zeros at its end, beyond which Spark computes no remainder
_MAX_SINGLE_ROUNDING_SCALE = 30  # up to this scale rounding twice equals rounding once, except for one quotient in 10**8
_INT64_DIGITS = 18  # every number of so many digits fits 64 bits
_LOW_WORD = (1 << 64) - 1


def overflow(kind: pa.DataType) -> DataError:
    return DataError(
        "a number is out of range", f"it does not fit decimal({kind.precision},{kind.scale})", "CAST to a wider decimal or to double"
    )


def division_by_zero() -> DataError:
    return DataError("division by zero", "", "guard it, e.g. with CASE WHEN … <> 0 THEN … END, or NULLIF(…, 0)")


def rescale(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast decimals to another precision and scale."""
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


def with_scale_of(values: pa.Array, target: pa.DataType) -> pa.Array:
    """The same digits, without a conversion, under the scale of `target`."""
    return pa.Array.from_buffers(target, len(values), values.buffers(), offset=values.offset)


def unscaled_integers(values: pa.Array, fits_int64: bool = False) -> Integers:
    """The decimals times 10**scale, 0 where NULL: an object array, or an int64 array if all values are known to fit that."""
    words = np.frombuffer(values.buffers()[1], dtype=np.int64)[2 * values.offset : 2 * (values.offset + len(values))]
    low, high = words[::2], words[1::2]
    if values.null_count:
        null = values.is_null().to_numpy(zero_copy_only=False)
        low, high = np.where(null, 0, low), np.where(null, 0, high)
    if fits_int64:
        return low
    if np.array_equal(low >> 63, high):
        return low.astype(object)
    integers: Integers = high.astype(object) * (1 << 64) + low.view(np.uint64).astype(object)
    return integers


def from_unscaled(integers: Integers, valid: pa.Array | None, target: pa.DataType) -> pa.Array:
    """The decimals `integers` / 10**scale; raises if one has more digits than the type. `valid`: which are not NULL; None if all are."""
    if integers.dtype == object:
        if _any_magnitude_above(integers, 10**target.precision - 1):
            raise overflow(target)
        low, high = (integers & _LOW_WORD).astype(np.uint64).view(np.int64), (integers >> 64).astype(np.int64)
    else:
        if target.precision <= _INT64_DIGITS and _any_magnitude_above(integers, 10**target.precision - 1):
            raise overflow(target)
        low, high = integers, integers >> 63
    words = np.empty(2 * len(integers), dtype=np.int64)
    words[::2], words[1::2] = low, high
    # the bitmap is copied, because that of a slice starts at another bit
    validity = None if valid is None else pa.array(valid.to_numpy(zero_copy_only=False)).buffers()[1]
    return pa.Array.from_buffers(target, len(integers), [validity, pa.py_buffer(words)])


def _any_magnitude_above(integers: Integers, limit: int) -> bool:
    return len(integers) > 0 and bool(integers.max() > limit or integers.min() < -limit)


def round_half_up(integers: Integers, drop: int) -> Integers:
    """The integers without their last `drop` digits, rounded half up; if `drop` is negative, zeros are appended."""
    if drop <= 0:
        extended: Integers = integers * 10**-drop
        return extended
    sign = np.where((integers < 0).astype(bool), -1, 1).astype(object)
    rounded: Integers = (np.abs(integers) + 5 * 10 ** (drop - 1)) // 10**drop * sign
    return rounded


def compute(op: str, a: Value, b: Value, target: pa.DataType) -> Value:
    """`a op b` of two decimals for + - * / %."""
    kernel = _ARROW_KERNELS.get(op)
    if kernel is not None and _result_digits(op, a.type, b.type) <= _MAX_PRECISION:
        return kernel(a, b)
    left, right = as_arrays(a, b)
    single_rounding = op == "/" and target.scale <= _MAX_SINGLE_ROUNDING_SCALE
    if single_rounding and _quotient_digits(a.type, b.type, target) < _MAX_WIDE_PRECISION:
        return _divide_in_arrow(left, right, target)
    valid = pc.and_(left.is_valid(), right.is_valid()) if left.null_count or right.null_count else None
    fits_int64 = op == "%" and _result_digits(op, a.type, b.type) <= _INT64_DIGITS
    x, s = unscaled_integers(left, fits_int64), left.type.scale
    y, t = unscaled_integers(right, fits_int64), right.type.scale
    if op in "/%":
        y = _nonzero_divisors(y, valid)
    if op == "*":
        result, scale = _round_products(x * y), s + t
    elif op == "/":
        result, scale = _quotients(x * 10 ** (_QUOTIENT_SCALE + t), y * 10**s), _QUOTIENT_SCALE
    else:
        scale = max(s, t)
        x, y = x * 10 ** (scale - s), y * 10 ** (scale - t)
        result = x + y if op == "+" else x - y if op == "-" else _remainders(x, y, valid)
    if valid is not None:
        result = np.where(valid.to_numpy(zero_copy_only=False), result, 0)
    return from_unscaled(round_half_up(result, scale - target.scale), valid, target)


def _divide_in_arrow(left: pa.Array, right: pa.Array, target: pa.DataType) -> pa.Array:
    """The quotient by Arrow's decimal256. Arrow truncates it; one digit more than the result has suffices to round that half up."""
    zero = pc.equal(right, pa.scalar(Decimal(0), right.type))
    if pc.any(pc.and_(zero, left.is_valid())).as_py():
        raise division_by_zero()
    if pc.any(zero).as_py():
        right = pc.if_else(zero, pa.scalar(None, right.type), right)
    scale = _dividend_scale(left.type, right.type, target)
    dividend = left.cast(pa.decimal256(left.type.precision - left.type.scale + scale, scale))
    quotient = pc.divide(dividend, right.cast(pa.decimal256(right.type.precision, right.type.scale)))
    wide = quotient.cast(pa.decimal256(quotient.type.precision + 1, quotient.type.scale))
    try:
        return pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity").cast(target)
    except pa.ArrowInvalid:
        raise overflow(target) from None


def _dividend_scale(a: pa.DataType, b: pa.DataType, target: pa.DataType) -> int:
    """The least scale of the dividend for which the quotient has at least one fraction digit more than the target.

    Arrow's quotient has the scale: dividend's scale + divisor's digits before the point + 1.
    """
    return int(max(a.scale, target.scale - b.precision + b.scale))


def _quotient_digits(a: pa.DataType, b: pa.DataType, target: pa.DataType) -> int:
    """The precision that `_divide_in_arrow` needs."""
    return int(a.precision - a.scale + _dividend_scale(a, b, target) + b.precision + 1)


def _nonzero_divisors(y: Integers, valid: pa.Array | None) -> Integers:
    """The divisors with 1 in place of the zeros of rows that are NULL; raises if a row that is not NULL divides by zero."""
    zero = (y == 0).astype(bool)
    if not zero.any():
        return y
    if valid is None or (zero & valid.to_numpy(zero_copy_only=False)).any():
        raise division_by_zero()
    return np.where(zero, 1, y)


def _quotients(x: Integers, y: Integers) -> Integers:
    """x / y, rounded half up."""
    sign = np.where(((x < 0) != (y < 0)).astype(bool), -1, 1).astype(object)
    dividend, divisor = np.abs(x), np.abs(y)
    quotients: Integers = (2 * dividend + divisor) // (2 * divisor) * sign
    return quotients


def _remainders(x: Integers, y: Integers, valid: pa.Array | None) -> Integers:
    """x % y, with the sign of x. As Java, on which Spark relies, it refuses quotients with too many significant digits."""
    dividend, divisor = np.abs(x), np.abs(y)
    if dividend.dtype == object:
        quotients = dividend // divisor if valid is None else np.where(valid.to_numpy(zero_copy_only=False), dividend // divisor, 0)
        if any(len(str(quotient).rstrip("0")) > _QUOTIENT_DIGITS for quotient in quotients[quotients >= 10**_QUOTIENT_DIGITS]):
            detail = f"the quotient has more than {_QUOTIENT_DIGITS} digits"
            raise DataError("a remainder of decimals cannot be computed", detail, "CAST to narrower decimals or to double")
    remainders: Integers = dividend % divisor * np.where((x < 0).astype(bool), -1, 1)
    return remainders


def _round_products(products: Integers) -> Integers:
    """Rounded half up to 39 digits, as Java's MathContext does."""
    if not _any_magnitude_above(products, 10**_PRODUCT_DIGITS - 1):
        return products
    digits = np.frompyfunc(lambda value: len(str(abs(value))), 1, 1)(products).astype(np.int64)
    for length in np.unique(digits[digits > _PRODUCT_DIGITS]):
        selected, drop = digits == length, int(length) - _PRODUCT_DIGITS
        products[selected] = round_half_up(products[selected], drop) * 10**drop
    return products


def _result_digits(op: str, a: pa.DataType, b: pa.DataType) -> int:
    """How many digits the exact result of + - * % may have."""
    if op == "*":
        return int(a.precision + b.precision + 1)
    return int(max(a.precision - a.scale, b.precision - b.scale) + max(a.scale, b.scale) + 1)


_ARROW_KERNELS = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
