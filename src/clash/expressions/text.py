"""String functions: characters are Unicode code points, comparison and search are by bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.errors import DataError
from clash.expressions.values import Value, as_arrays, to_numpy
from clash.model.expressions import Call, Lit

_MAX_INT32 = 2**31 - 1


def _like(call: Call, args: list[Value], timezone: str) -> Value:
    """LIKE with a constant pattern: a search for plain text where the pattern is one, otherwise a regular expression."""
    pattern, escape = call.args[1], call.args[2] if len(call.args) > 2 else Lit("\\", "string")
    assert isinstance(pattern, Lit)
    assert isinstance(escape, Lit)
    parts = _parse_pattern(str(pattern.value), str(escape.value))
    texts = [part for part in parts if part not in (_ANY_TEXT, _ANY_CHARACTER)]
    value, plain = args[0], "".join(map(str, texts))
    if _ANY_CHARACTER not in parts and len(texts) == 1 and parts.count(_ANY_TEXT) == len(parts) - 1:
        open_start, open_end = parts[0] is _ANY_TEXT, parts[-1] is _ANY_TEXT
        if open_start and open_end:
            return pc.match_substring(value, plain)
        return pc.ends_with(value, plain) if open_start else pc.starts_with(value, plain) if open_end else pc.equal(value, plain)
    if not parts:
        return pc.equal(value, "")
    regex = "".join(part.regex if isinstance(part, _Wildcard) else re.escape(part) for part in parts)
    return pc.match_substring_regex(value, "^(?s:" + regex + r")\z")


class _Wildcard:
    """`%` or `_` of a LIKE pattern."""

    def __init__(self, regex: str) -> None:
        self.regex = regex


_ANY_TEXT, _ANY_CHARACTER = _Wildcard(".*"), _Wildcard(".")


def _parse_pattern(pattern: str, escape: str) -> list[str | _Wildcard]:
    """The pattern as runs of plain text and wildcards; `%` is never followed by another `%`."""
    parts: list[str | _Wildcard] = []
    characters = iter(pattern)
    for character in characters:
        wildcard = None
        if character == escape:
            character = next(characters, "")
            if character not in ("%", "_", escape):
                raise DataError(
                    "a LIKE pattern escapes a character that needs none", "", "the escape character goes before %, _ and itself only"
                )
        elif character in "%_":
            wildcard = _ANY_TEXT if character == "%" else _ANY_CHARACTER
        if wildcard is not None:
            if not (wildcard is _ANY_TEXT and parts and parts[-1] is _ANY_TEXT):
                parts.append(wildcard)
        elif parts and isinstance(parts[-1], str):
            parts[-1] += character
        else:
            parts.append(character)
    return parts


def _change_case(ascii_kernel: Callable[[Any], Any], convert: Callable[[str], str]) -> Callable[[Call, list[Value], str], Value]:
    """LOWER or UPPER: Arrow's kernel for ASCII, Python's function for other texts, in which one letter may become several (ß, SS).

    Python converts each distinct text once.
    """

    def change_case(call: Call, args: list[Value], timezone: str) -> Value:
        value = args[0]
        ascii_only = pc.string_is_ascii(value).fill_null(True)
        if pc.all(ascii_only).as_py() is not False:
            return ascii_kernel(value)
        coded = value.filter(pc.invert(ascii_only)).dictionary_encode()
        mapped = pa.array([convert(text) for text in coded.dictionary.to_pylist()], pa.string()).take(coded.indices)
        return pc.replace_with_mask(ascii_kernel(pc.if_else(ascii_only, value, "")), pc.invert(ascii_only), mapped)

    return change_case


def _length(call: Call, args: list[Value], timezone: str) -> Value:
    return (pc.binary_length if call.args[0].type == "binary" else pc.utf8_length)(args[0]).cast(pa.int32())


def _concat(call: Call, args: list[Value], timezone: str) -> Value:
    return pc.binary_join_element_wise(*args, "") if len(args) > 1 else args[0]


def _substring(call: Call, args: list[Value], timezone: str) -> Value:
    """SUBSTRING: positions count from 1, negative ones from the end, and 0 is the same as 1."""
    text, begin, *rest = args
    length = rest[0] if rest else pa.scalar(_MAX_INT32, pa.int32())
    begin, length = begin.cast(pa.int32()), length.cast(pa.int32())
    if isinstance(text, pa.Scalar) or not isinstance(begin, pa.Scalar) or not isinstance(length, pa.Scalar):
        return _substring_per_row(*as_arrays(text, begin, length))
    if not (begin.is_valid and length.is_valid):
        return pa.scalar(None, pa.string())
    start, count = begin.as_py(), length.as_py()
    if count <= 0:
        return pc.if_else(pc.is_valid(text), "", None) if text.null_count else pa.scalar("")
    start -= start > 0
    stop = start + count
    return pc.utf8_slice_codeunits(text, start, None if start < 0 <= stop or stop > _MAX_INT32 else stop)


def _substring_per_row(text: pa.Array, begin: pa.Array, length: pa.Array) -> pa.Array:
    """SUBSTRING whose begin and length differ per row: computed from the byte positions of all characters of the column."""
    valid = pc.and_(pc.and_(text.is_valid(), begin.is_valid()), length.is_valid())
    text = pc.if_else(valid, text, "")
    data = np.frombuffer(text.buffers()[2] or b"", dtype=np.uint8)
    bounds = np.frombuffer(text.buffers()[1], dtype=np.int32)[text.offset : text.offset + len(text) + 1].astype(np.int64)
    is_first_byte = (data & 0xC0) != 0x80  # of a character in UTF-8
    byte_positions = np.append(np.flatnonzero(is_first_byte), len(data))
    first = np.concatenate(([0], np.cumsum(is_first_byte)))[bounds]  # number of each row's first character
    sizes = np.diff(first)
    position = to_numpy(begin).astype(np.int64)
    start = np.where(position > 0, position - 1, np.where(position < 0, sizes + position, 0))
    stop = np.clip(start + to_numpy(length).astype(np.int64), 0, sizes)
    start = np.clip(start, 0, stop)
    low, high = byte_positions[first[:-1] + start], byte_positions[first[:-1] + stop]
    offsets = np.concatenate(([0], np.cumsum(high - low)))
    bytes_taken = np.arange(offsets[-1]) + np.repeat(low - offsets[:-1], high - low)
    substrings = pa.StringArray.from_buffers(len(text), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data[bytes_taken]))
    return pc.if_else(valid, substrings, pa.scalar(None, pa.string()))


KERNELS = {
    "like": _like,
    "lower": _change_case(pc.utf8_lower, str.lower),
    "upper": _change_case(pc.utf8_upper, str.upper),
    "length": _length,
    "concat": _concat,
    "substring": _substring,
}
