"""Rows as JSON text, column by column: what Spark's `to_json(struct(*))` writes, except that times keep their microseconds.

`to_json` cuts times to milliseconds unless it is given a format; here they are as with
`{"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}`. As there, fields that are
NULL are left out, and elements of arrays and values of maps that are NULL are `null`.

Invariant: no loop over rows in Python, except for binary columns.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from clash.expressions.temporal import to_local
from clash.expressions.value_to_text import format_values

_TEXT = pa.large_string()  # a batch of rows may have more than 2 GB of text
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_CONTROL = {chr(code): _SHORT.get(chr(code), f"\\u{code:04X}") for code in range(0x20)}
_MINUTE, _SECOND = 60_000_000, 1_000_000  # in microseconds


def json_rows(batch: pa.RecordBatch, timezone: str) -> pa.Array:
    """One text per row; none is null. Times with a zone are those of `timezone`."""
    return _objects(batch.schema.names, batch.columns, len(batch), timezone)


def json_values(values: pa.Array, timezone: str) -> pa.Array:
    """The JSON of each value of a column, null where the value is."""
    return _texts(values, timezone)


def _objects(names: Sequence[str], columns: Sequence[pa.Array], rows: int, timezone: str) -> pa.Array:
    """Without the fields that are null. (Arrow's joining of what is not null leaves out rows that have nothing else.)"""
    parts: list[pa.Array | str] = []
    for name, column in zip(names, columns, strict=True):
        label, text = f',"{_escaped(pa.array([name], _TEXT))[0].as_py()}":', _texts(column, timezone)
        parts += [label, text] if text.null_count == 0 else [_joined(label, text).fill_null("")]
    if not parts:
        return pa.repeat(_scalar("{}"), rows)
    first, *others = parts
    if isinstance(first, str):
        return _joined(f"{{{first[1:]}", *others, "}")
    return _joined("{", pc.ascii_ltrim(_joined(*parts), ","), "}")


def _texts(values: pa.Array, timezone: str) -> pa.Array:
    """The JSON of each value, null where the value is."""
    kind = values.type
    if pa.types.is_string(kind):
        return _quoted(_escaped(values.cast(_TEXT)))
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return values.cast(_TEXT)  # Arrow writes decimals as Java does: with an exponent if they are small
    if pa.types.is_floating(kind):
        text = _float_texts(values, timezone)
        finite = pc.is_finite(values)
        return text if pc.all(finite).as_py() is not False else pc.if_else(finite, text, _quoted(text))
    if pa.types.is_timestamp(kind):
        return _quoted(_times(values, timezone))
    if pa.types.is_date(kind):
        return _quoted(format_values(values, "date", timezone).cast(_TEXT))
    if pa.types.is_binary(kind):
        return _quoted(_base64(values))
    if pa.types.is_duration(kind):
        return _quoted(_intervals(values))
    if pa.types.is_struct(kind):
        return _null_like(values, _objects([field.name for field in kind], values.flatten(), len(values), timezone))
    if pa.types.is_map(kind):
        entries = _joined('"', _escaped(_key_texts(_children(values, values.keys), timezone)), '":', _items(values, values.items, timezone))
        return _null_like(values, _joined("{", _join_lists(values, entries), "}"))
    if pa.types.is_list(kind):
        return _null_like(values, _joined("[", _join_lists(values, _items(values, values.values, timezone)), "]"))
    return pa.nulls(len(values), _TEXT)  # void, the only type that is left


# ---- values ------------------------------------------------------------------------------------------------------


def _escaped(text: pa.Array) -> pa.Array:
    """Text as it stands between quotation marks."""
    if not pc.any(pc.match_substring_regex(text, '["\\\\\\x00-\\x1f]')).as_py():
        return text
    text = pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), '"', '\\"')
    if pc.any(pc.match_substring_regex(text, "[\\x00-\\x1f]")).as_py():
        for character, written in _CONTROL.items():
            text = pc.replace_substring(text, character, written)
    return text


def _float_texts(values: pa.Array, timezone: str) -> pa.Array:
    return format_values(values, "float" if pa.types.is_float32(values.type) else "double", timezone).cast(_TEXT)


def _base64(values: pa.Array) -> pa.Array:
    return pa.array([None if value is None else base64.b64encode(value).decode() for value in values.to_pylist()], _TEXT)


def _times(values: pa.Array, timezone: str) -> pa.Array:
    """2024-12-31T23:59:59.500000, and the offset of the zone after times that have one."""
    local = values if values.type.tz is None else to_local(values, timezone)
    text = local.cast(pa.string()).cast(_TEXT)
    long_year = pc.match_substring_regex(text, "^[0-9]{5}")
    text = pc.replace_substring(text, " ", "T")
    if pc.any(long_year).as_py():
        text = pc.if_else(long_year, _joined("+", text), text)
    if values.type.tz is None:
        return text
    offset = pc.subtract(local.view(pa.int64()), values.view(pa.int64()))
    minutes = pc.divide(pc.abs(offset), _MINUTE)
    zone = _joined(
        pc.if_else(pc.less(offset, 0), "-", "+").cast(_TEXT), _two_digits(pc.divide(minutes, 60)), ":", _two_digits(_modulo(minutes, 60))
    )
    return _joined(text, pc.if_else(pc.equal(minutes, 0), _scalar("Z"), zone))


def _intervals(values: pa.Array) -> pa.Array:
    """INTERVAL '1 02:03:04.5' DAY TO SECOND, whatever its fields were declared as: results have this type."""
    whole = values.cast(pa.duration("us")).view(pa.int64())
    sign = pc.if_else(pc.less(whole, 0), "-", "").cast(_TEXT)
    micros = pc.abs(whole)
    seconds = pc.divide(micros, _SECOND)
    fraction = pc.utf8_rtrim(pc.utf8_lpad(_modulo(micros, _SECOND).cast(_TEXT), 6, "0"), "0")
    fraction = pc.if_else(pc.equal(fraction, ""), _scalar(""), _joined(".", fraction))
    minutes = pc.divide(seconds, 60)
    hours = pc.divide(minutes, 60)
    time = _joined(
        _two_digits(_modulo(hours, 24)), ":", _two_digits(_modulo(minutes, 60)), ":", _two_digits(_modulo(seconds, 60)), fraction
    )
    return _joined("INTERVAL '", sign, pc.divide(hours, 24).cast(_TEXT), " ", time, "' DAY TO SECOND")


def _key_texts(keys: pa.Array, timezone: str) -> pa.Array:
    """Keys of maps are text. Of dates and times Spark writes the number; binary keys, of which it writes an address, are base64."""
    kind = keys.type
    if pa.types.is_floating(kind):
        return _float_texts(keys, timezone)
    if pa.types.is_binary(kind):
        return _base64(keys)
    if pa.types.is_date(kind):
        return keys.view(pa.int32()).cast(_TEXT)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return keys.view(pa.int64()).cast(_TEXT)
    return keys.cast(_TEXT)


# ---- lists -------------------------------------------------------------------------------------------------------


def _children(values: pa.Array, children: pa.Array) -> pa.Array:
    """The elements that belong to lists: a list may be a slice of a longer one."""
    first, last = values.offsets[0].as_py(), values.offsets[-1].as_py()
    return children.slice(first, last - first)


def _items(values: pa.Array, children: pa.Array, timezone: str) -> pa.Array:
    return _texts(_children(values, children), timezone).fill_null("null")


def _join_lists(values: pa.Array, texts: pa.Array) -> pa.Array:
    """The texts of each list's elements, with commas."""
    offsets = pc.subtract(values.offsets, values.offsets[0]).cast(pa.int64())
    return pc.binary_join(pa.LargeListArray.from_arrays(offsets, texts), _scalar(","))


# ---- text --------------------------------------------------------------------------------------------------------


def _scalar(text: str) -> pa.Scalar:
    return pa.scalar(text, _TEXT)


def _joined(*parts: pa.Array | str) -> pa.Array:
    """Null where a part is."""
    return pc.binary_join_element_wise(*(_scalar(part) if isinstance(part, str) else part for part in parts), _scalar(""))


def _quoted(text: pa.Array) -> pa.Array:
    return _joined('"', text, '"')


def _null_like(values: pa.Array, texts: pa.Array) -> pa.Array:
    return texts if values.null_count == 0 else pc.if_else(values.is_valid(), texts, pa.scalar(None, _TEXT))


def _two_digits(numbers: pa.Array) -> pa.Array:
    return pc.utf8_lpad(numbers.cast(_TEXT), 2, "0")


def _modulo(numbers: pa.Array, by: int) -> pa.Array:
    """Of numbers that are not negative."""
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, by), by))
