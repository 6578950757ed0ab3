"""Casts of strings to other types as in Spark's ANSI mode: white space around the text is ignored, malformed text raises."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext

import pyarrow as pa
import pyarrow.compute as pc

from clash.errors import DataError
from clash.expressions import decimals, text_to_time
from clash.expressions.arrow_types import arrow_type
from clash.expressions.values import require
from clash.model.time_text import WHITE_SPACE
from clash.model.types import family

_INTEGER = r"^[+-]?[0-9]+$"
_FLOATING = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?$"
_PLAIN_DECIMAL = r"^(?P<sign>[+-]?)0*(?P<whole>[0-9]*)(?:\.(?P<rest>[0-9]*))?$"
_ANY_DECIMAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_MOST_DIGITS = 38
_SPECIAL_TEXTS = pa.array(["nan", "inf", "+inf", "infinity", "+infinity", "-inf", "-infinity"])
_SPECIAL_VALUES = pa.array([float("nan"), *[float("inf")] * 4, *[float("-inf")] * 2])
_TRUE, _FALSE = pa.array(["t", "true", "y", "yes", "1"]), pa.array(["f", "false", "n", "no", "0"])


def parse_text(values: pa.Array, target: str, timezone: str) -> pa.Array:
    """Strings as Spark type `target`."""
    if target == "binary":
        return values.cast(pa.binary())
    text = pc.utf8_trim(values, characters=WHITE_SPACE)
    if target in ("date", "timestamp", "timestamp_ntz"):
        return text_to_time.parse_time(text, target, timezone)
    kind = "decimal" if target.startswith("decimal") else family(target)
    return _PARSERS[kind](text, arrow_type(target))


def _require(good: pa.Array, text: pa.Array, target: pa.DataType) -> None:
    expected = "a boolean" if pa.types.is_boolean(target) else "a number"
    require(good, text, f"a text is not {expected}", "correct the data, or guard the cast with CASE WHEN … THEN … END")


def _integers(text: pa.Array, target: pa.DataType) -> pa.Array:
    with suppress(pa.ArrowInvalid):  # Arrow accepts the same texts, except that it has hexadecimal numbers and no plus sign
        if not pc.any(pc.match_substring(text, "x", ignore_case=True)).as_py():
            return text.cast(target)
    _require(pc.match_substring_regex(text, _INTEGER), text, target)
    try:
        return pc.utf8_ltrim(text, characters="+").cast(target)
    except pa.ArrowInvalid:
        raise DataError(f"a text is a number that does not fit {target}", "", "CAST to a wider type") from None


def _floats(text: pa.Array, target: pa.DataType) -> pa.Array:
    special_index = pc.index_in(pc.ascii_lower(text), value_set=_SPECIAL_TEXTS, skip_nulls=True)
    special = pc.is_valid(special_index)
    _require(pc.or_(pc.match_substring_regex(text, _FLOATING), special), text, target)
    plain = pc.utf8_rtrim(pc.if_else(special, "0", text), characters="dDfF").cast(target)
    return pc.if_else(special, _SPECIAL_VALUES.cast(target).take(special_index), plain) if pc.any(special).as_py() else plain


def _decimals(text: pa.Array, target: pa.DataType) -> pa.Array:
    """Rounded half up, for which only the first dropped digit counts: all digits after it are cut off."""
    exponents = any(pc.any(pc.match_substring(text, letter)).as_py() for letter in "eE")
    # Arrow accepts the same texts if nothing has to be rounded, but wraps around if there are more digits than 128 bits can have
    if not exponents and (pc.max(pc.binary_length(text)).as_py() or 0) <= _MOST_DIGITS - target.scale:
        with suppress(pa.ArrowInvalid):
            return text.cast(target)
    _require(pc.match_substring_regex(text, _ANY_DECIMAL), text, target)
    if exponents:
        return _decimals_with_exponents(text, target)
    parts = pc.extract_regex(text, pattern=_PLAIN_DECIMAL)
    sign, whole, rest = (parts.field(part) for part in range(3))
    fits = pc.less_equal(pc.utf8_length(whole), target.precision - target.scale)
    require(fits, text, "a number is out of range", f"it does not fit decimal({target.precision},{target.scale})")
    digits = pc.binary_join_element_wise(
        sign, pc.if_else(pc.equal(whole, ""), "0", whole), ".", pc.utf8_slice_codeunits(rest, 0, target.scale + 1), ""
    )
    wide = pc.if_else(text.is_valid(), digits, None).cast(pa.decimal256(target.precision + 2, target.scale + 1))
    try:
        return pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity").cast(target)
    except pa.ArrowInvalid:
        raise decimals.overflow(target) from None


def _decimals_with_exponents(text: pa.Array, target: pa.DataType) -> pa.Array:
    """Decimals some of which have an exponent. These are rare, so Python converts each distinct text."""
    coded = text.dictionary_encode()
    unit = Decimal(1).scaleb(-target.scale)
    with localcontext(prec=100):
        try:
            rounded = [Decimal(value).quantize(unit, ROUND_HALF_UP) for value in coded.dictionary.to_pylist()]
            return pa.array(rounded, target).take(coded.indices)
        except (InvalidOperation, pa.ArrowInvalid):
            raise decimals.overflow(target) from None


def _booleans(text: pa.Array, target: pa.DataType) -> pa.Array:
    lower = pc.ascii_lower(text)
    true = pc.is_in(lower, value_set=_TRUE, skip_nulls=True)
    _require(pc.or_(pc.or_(true, pc.is_in(lower, value_set=_FALSE, skip_nulls=True)), pc.is_null(text)), text, target)
    return pc.if_else(text.is_valid(), true, None)


_PARSERS: dict[str, Callable[[pa.Array, pa.DataType], pa.Array]] = {
    "integer": _integers,
    "floating": _floats,
    "decimal": _decimals,
    "boolean": _booleans,
}
