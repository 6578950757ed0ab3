"""Values as text, spelled as Spark spells them: 1.0E10, NaN, 0.0000001, 2024-12-31 23:59:59.5."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from clash.expressions import decimals
from clash.expressions.temporal import to_local
from clash.model.types import family
from clash.model.coercion import TIMES

_NUMBER = r"^(?P<sign>-?)(?P<whole>[0-9]+)(?:\.(?P<rest>[0-9]+))?(?:e(?P<power>[+-][0-9]+))?$"


def spelled(values: pa.Array, source: str, timezone: str) -> pa.Array:
    if source.startswith("decimal"):
        return _decimal(values)
    if family(source) == "floating":
        return _floating(values)
    if source == "date":
        return _year(values.cast(pa.string()))
    if source in TIMES:
        return _moment(to_local(values, timezone) if source == "timestamp" else values)
    return values.cast(pa.string())


def _decimal(values: pa.Array) -> pa.Array:
    """Never with an exponent."""
    precision, scale = values.type.precision, values.type.scale
    if scale <= 6:
        return values.cast(pa.string())  # Arrow, as Java, has no exponent then
    digits = decimals.relabelled(values, pa.decimal128(precision, 0)).cast(pa.string())
    sign = pc.if_else(pc.starts_with(digits, "-"), "-", "")
    padded = pc.utf8_lpad(pc.utf8_ltrim(digits, characters="-"), scale + 1, "0")
    point = pc.binary_join_element_wise(pc.utf8_slice_codeunits(padded, 0, -scale), pc.utf8_slice_codeunits(padded, -scale), ".")
    return pc.binary_join_element_wise(sign, point, "")


def _floating(values: pa.Array) -> pa.Array:
    """Java's way: plain from 0.001 to 10 million, else with an exponent, always with a point. Arrow has the shortest digits."""
    plain = values.cast(pa.string())
    size = pc.abs(values)
    near = pc.or_(pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)), pc.equal(size, 0.0))
    whole = pc.invert(pc.match_substring(plain, "."))
    found = pc.if_else(whole, pc.binary_join_element_wise(plain, ".0", ""), plain)
    finite = pc.is_finite(values)
    if pc.all(pc.and_(near, finite)).as_py() is not False:
        return found
    special = pc.if_else(pc.is_nan(values), "NaN", pc.if_else(pc.greater(values, 0), "Infinity", "-Infinity"))
    far = pc.and_(finite, pc.invert(near)).fill_null(False)
    found = pc.if_else(finite, found, special)
    return pc.replace_with_mask(found, far, _scientific(plain.filter(far))) if pc.any(far).as_py() else found


def _scientific(plain: pa.Array) -> pa.Array:
    parts = pc.extract_regex(plain, pattern=_NUMBER)
    sign, whole, rest, power = (parts.field(at) for at in range(4))
    digits = pc.binary_join_element_wise(whole, rest, "")
    used = pc.utf8_ltrim(digits, characters="0")
    zeros = pc.subtract(pc.utf8_length(digits), pc.utf8_length(used))
    given = pc.if_else(pc.equal(power, ""), "0", pc.utf8_ltrim(power, characters="+")).cast(pa.int32())
    exponent = pc.subtract(pc.add(given, pc.utf8_length(whole)), pc.add(zeros, 1)).cast(pa.string())
    used = pc.utf8_rtrim(used, characters="0")
    tail = pc.utf8_slice_codeunits(used, 1)
    tail = pc.if_else(pc.equal(tail, ""), "0", tail)
    return pc.binary_join_element_wise(sign, pc.utf8_slice_codeunits(used, 0, 1), ".", tail, "E", exponent, "")


def _moment(local: pa.Array) -> pa.Array:
    """Without the zeros at the end of the fraction."""
    with suppress(pa.ArrowInvalid):  # unless there are fractions
        return _year(local.cast(pa.timestamp("s")).cast(pa.string()))
    text = pc.replace_substring_regex(local.cast(pa.string()), r"\.0+$", "")
    return _year(pc.replace_substring_regex(text, r"(\.[0-9]*[1-9])0+$", r"\1"))


def _year(text: pa.Array) -> pa.Array:
    """A year of five digits has a sign."""
    long = pc.match_substring_regex(text, "^[0-9]{5}")
    return pc.if_else(long, pc.binary_join_element_wise("+", text, ""), text) if pc.any(long).as_py() else text
