"""Text as values: white space around it is ignored, and what is malformed raises, in Spark's ANSI mode."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext

import pyarrow as pa
import pyarrow.compute as pc

from clash.errors import DataError
from clash.expressions import decimals, text_to_time
from clash.expressions.arrow_types import arrow_type
from clash.expressions.values import demand
from clash.model.types import family

_SPACE = "".join(map(chr, range(33))) + "\x7f"
_WHOLE = r"^[+-]?[0-9]+$"
_REAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?$"
_DECIMAL = r"^(?P<sign>[+-]?)0*(?P<whole>[0-9]*)(?:\.(?P<rest>[0-9]*))?$"
_ANY_DECIMAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_SPECIAL = pa.array(["nan", "inf", "+inf", "infinity", "+infinity", "-inf", "-infinity"])
_VALUES = pa.array([float("nan"), *[float("inf")] * 4, *[float("-inf")] * 2])
_TRUE, _FALSE = pa.array(["t", "true", "y", "yes", "1"]), pa.array(["f", "false", "n", "no", "0"])


def parsed(values: pa.Array, target: str, timezone: str) -> pa.Array:
    """The text as `target`."""
    if target == "binary":
        return values.cast(pa.binary())
    text = pc.utf8_trim(values, characters=_SPACE)
    if target in ("date", "timestamp", "timestamp_ntz"):
        return text_to_time.parsed(text, target, timezone)
    kind = "decimal" if target.startswith("decimal") else family(target)
    return _PARSERS[kind](text, arrow_type(target))


def _demand(good: pa.Array, text: pa.Array, target: pa.DataType) -> None:
    demand(
        good, text, f"a text is not {_NAMES.get(target.id, 'a number')}", "correct the data, or guard the cast with CASE WHEN … THEN … END"
    )


def _whole(text: pa.Array, target: pa.DataType) -> pa.Array:
    with suppress(pa.ArrowInvalid):  # it takes the same, but for a plus sign and for numbers to the base of 16
        if not pc.any(pc.match_substring(text, "x", ignore_case=True)).as_py():
            return text.cast(target)
    _demand(pc.match_substring_regex(text, _WHOLE), text, target)
    try:
        return pc.utf8_ltrim(text, characters="+").cast(target)
    except pa.ArrowInvalid:
        raise DataError(f"a text is a number that does not fit {target}", "", "CAST to a wider type") from None


def _real(text: pa.Array, target: pa.DataType) -> pa.Array:
    at = pc.index_in(pc.ascii_lower(text), value_set=_SPECIAL, skip_nulls=True)
    special = pc.is_valid(at)
    _demand(pc.or_(pc.match_substring_regex(text, _REAL), special), text, target)
    plain = pc.utf8_rtrim(pc.if_else(special, "0", text), characters="dDfF").cast(target)
    return pc.if_else(special, _VALUES.cast(target).take(at), plain) if pc.any(special).as_py() else plain


def _decimal(text: pa.Array, target: pa.DataType) -> pa.Array:
    """Digits behind the first one that is dropped do not count: half up looks at no more."""
    with suppress(pa.ArrowInvalid):  # it takes the same, if nothing is to be rounded
        return text.cast(target)
    _demand(pc.match_substring_regex(text, _ANY_DECIMAL), text, target)
    if pc.any(pc.match_substring_regex(text, "[eE]")).as_py():
        return _with_exponents(text, target)
    parts = pc.extract_regex(text, pattern=_DECIMAL)
    sign, whole, rest = (parts.field(at) for at in range(3))
    _fits(pc.less_equal(pc.utf8_length(whole), target.precision - target.scale), text, target)
    digits = pc.binary_join_element_wise(
        sign, pc.if_else(pc.equal(whole, ""), "0", whole), ".", pc.utf8_slice_codeunits(rest, 0, target.scale + 1), ""
    )
    wide = pc.if_else(text.is_valid(), digits, None).cast(pa.decimal256(target.precision + 2, target.scale + 1))
    try:
        return pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity").cast(target)
    except pa.ArrowInvalid:
        raise decimals.overflow(target) from None


def _with_exponents(text: pa.Array, target: pa.DataType) -> pa.Array:
    """Rare; each distinct text once."""
    coded = text.dictionary_encode()
    step = Decimal(1).scaleb(-target.scale)
    with localcontext(prec=100):
        try:
            found = [Decimal(value).quantize(step, ROUND_HALF_UP) for value in coded.dictionary.to_pylist()]
            return pa.array(found, target).take(coded.indices)
        except (InvalidOperation, pa.ArrowInvalid):
            raise decimals.overflow(target) from None


def _fits(good: pa.Array, text: pa.Array, target: pa.DataType) -> None:
    demand(good, text, "a number is out of range", f"it does not fit decimal({target.precision},{target.scale})")


def _boolean(text: pa.Array, target: pa.DataType) -> pa.Array:
    lower = pc.ascii_lower(text)
    true = pc.is_in(lower, value_set=_TRUE, skip_nulls=True)
    _demand(pc.or_(pc.or_(true, pc.is_in(lower, value_set=_FALSE, skip_nulls=True)), pc.is_null(text)), text, target)
    return pc.if_else(text.is_valid(), true, None)


_NAMES = {pa.bool_().id: "a boolean"}
_PARSERS: dict[str, Callable[[pa.Array, pa.DataType], pa.Array]] = {
    "integer": _whole,
    "floating": _real,
    "decimal": _decimal,
    "boolean": _boolean,
}
