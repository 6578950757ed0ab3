"""Casts to strings in Spark's notation: 1.0E10, NaN, 0.0000001, 2024-12-31 23:59:59.5."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from clash.expressions import decimals
from clash.expressions.temporal import to_local
from clash.model.coercion import TIMES
from clash.model.types import family

_NUMBER = r"^(?P<sign>-?)(?P<whole>[0-9]+)(?:\.(?P<rest>[0-9]+))?(?:e(?P<power>[+-][0-9]+))?$"


def format_values(values: pa.Array, source: str, timezone: str) -> pa.Array:
    """Values of Spark type `source` as strings; timestamps are shown in `timezone`."""
    if source.startswith("decimal"):
        return _format_decimals(values)
    if family(source) == "floating":
        return _format_floats(values)
    if source == "date":
        return _sign_long_years(values.cast(pa.string()))
    if source in TIMES:
        return _format_times(to_local(values, timezone) if source == "timestamp" else values)
    return values.cast(pa.string())


def _format_decimals(values: pa.Array) -> pa.Array:
    """Spark never writes decimals with an exponent."""
    precision, scale = values.type.precision, values.type.scale
    if scale <= 6:
        return values.cast(pa.string())  # up to this scale Arrow, as Java, writes no exponent
    digits = decimals.with_scale_of(values, pa.decimal128(precision, 0)).cast(pa.string())
    sign = pc.if_else(pc.starts_with(digits, "-"), "-", "")
    padded = pc.utf8_lpad(pc.utf8_ltrim(digits, characters="-"), scale + 1, "0")
    number = pc.binary_join_element_wise(pc.utf8_slice_codeunits(padded, 0, -scale), pc.utf8_slice_codeunits(padded, -scale), ".")
    return pc.binary_join_element_wise(sign, number, "")


def _format_floats(values: pa.Array) -> pa.Array:
    """Java's notation: plain from 0.001 to 10 million, otherwise with an exponent, always with a point. Arrow gives the shortest digits."""
    plain = values.cast(pa.string())
    magnitude = pc.abs(values)
    without_exponent = pc.or_(pc.and_(pc.greater_equal(magnitude, 1e-3), pc.less(magnitude, 1e7)), pc.equal(magnitude, 0.0))
    integral = pc.invert(pc.match_substring(plain, "."))
    text = pc.if_else(integral, pc.binary_join_element_wise(plain, ".0", ""), plain)
    finite = pc.is_finite(values)
    if pc.all(pc.and_(without_exponent, finite)).as_py() is not False:
        return text
    special = pc.if_else(pc.is_nan(values), "NaN", pc.if_else(pc.greater(values, 0), "Infinity", "-Infinity"))
    text = pc.if_else(finite, text, special)
    with_exponent = pc.and_(finite, pc.invert(without_exponent)).fill_null(False)
    if not pc.any(with_exponent).as_py():
        return text
    return pc.replace_with_mask(text, with_exponent, _scientific(plain.filter(with_exponent)))


def _scientific(plain: pa.Array) -> pa.Array:
    """Numbers in Arrow's notation, with or without an exponent, as d.dddE±n."""
    parts = pc.extract_regex(plain, pattern=_NUMBER)
    sign, whole, rest, power = (parts.field(part) for part in range(4))
    digits = pc.binary_join_element_wise(whole, rest, "")
    significant = pc.utf8_ltrim(digits, characters="0")
    leading_zeros = pc.subtract(pc.utf8_length(digits), pc.utf8_length(significant))
    given_exponent = pc.if_else(pc.equal(power, ""), "0", pc.utf8_ltrim(power, characters="+")).cast(pa.int32())
    exponent = pc.subtract(pc.add(given_exponent, pc.utf8_length(whole)), pc.add(leading_zeros, 1)).cast(pa.string())
    significant = pc.utf8_rtrim(significant, characters="0")
    fraction = pc.utf8_slice_codeunits(significant, 1)
    fraction = pc.if_else(pc.equal(fraction, ""), "0", fraction)
    return pc.binary_join_element_wise(sign, pc.utf8_slice_codeunits(significant, 0, 1), ".", fraction, "E", exponent, "")


def _format_times(local: pa.Array) -> pa.Array:
    """Local times without trailing zeros of the fraction."""
    with suppress(pa.ArrowInvalid):  # which Arrow raises if a time has a fraction
        return _sign_long_years(local.cast(pa.timestamp("s")).cast(pa.string()))
    text = pc.replace_substring_regex(local.cast(pa.string()), r"\.0+$", "")
    return _sign_long_years(pc.replace_substring_regex(text, r"(\.[0-9]*[1-9])0+$", r"\1"))


def _sign_long_years(text: pa.Array) -> pa.Array:
    """Spark writes a plus sign before a year of five digits."""
    long = pc.match_substring_regex(text, "^[0-9]{5}")
    return pc.if_else(long, pc.binary_join_element_wise("+", text, ""), text) if pc.any(long).as_py() else text
