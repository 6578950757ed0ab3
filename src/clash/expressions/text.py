"""Text: characters are Unicode code points, comparison and search go by bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.errors import DataError
from clash.expressions.values import Value, aligned, numbers
from clash.model.expressions import Call, Lit

_MOST = 2**31 - 1


def _like(call: Call, args: list[Value], timezone: str) -> Value:
    pattern, escape = call.args[1], call.args[2] if len(call.args) > 2 else Lit("\\", "string")
    assert isinstance(pattern, Lit)
    assert isinstance(escape, Lit)
    parts = _pattern(str(pattern.value), str(escape.value))
    texts = [part for part in parts if part not in (_ANY, _ONE)]
    value, plain = args[0], "".join(map(str, texts))
    if _ONE not in parts and len(texts) == 1 and parts.count(_ANY) == len(parts) - 1:
        first, last = parts[0] is _ANY, parts[-1] is _ANY
        if first and last:
            return pc.match_substring(value, plain)
        return pc.ends_with(value, plain) if first else pc.starts_with(value, plain) if last else pc.equal(value, plain)
    if not parts:
        return pc.equal(value, "")
    return pc.match_substring_regex(value, "^(?s:" + "".join(p.regex if isinstance(p, _Wild) else re.escape(p) for p in parts) + r")\z")


class _Wild:
    def __init__(self, regex: str) -> None:
        self.regex = regex


_ANY, _ONE = _Wild(".*"), _Wild(".")


def _pattern(pattern: str, escape: str) -> list[str | _Wild]:
    """Runs of plain text and wildcards."""
    parts: list[str | _Wild] = []
    letters = iter(pattern)
    for letter in letters:
        wild = None
        if letter == escape:
            letter = next(letters, "")
            if letter not in ("%", "_", escape):
                raise DataError(
                    "a LIKE pattern escapes a character that needs none", "", "the escape character goes before %, _ and itself only"
                )
        elif letter in "%_":
            wild = _ANY if letter == "%" else _ONE
        if wild is not None:
            if not (wild is _ANY and parts and parts[-1] is _ANY):
                parts.append(wild)
        elif parts and isinstance(parts[-1], str):
            parts[-1] += letter
        else:
            parts.append(letter)
    return parts


def _cased(kernel: Callable[[Any], Any], exact: Callable[[str], str]) -> Callable[[Call, list[Value], str], Value]:
    """Arrow's kernel for ASCII; elsewhere one letter may become several (ß, SS), each distinct text is mapped once."""

    def cased(call: Call, args: list[Value], timezone: str) -> Value:
        value = args[0]
        ascii_only = pc.string_is_ascii(value).fill_null(True)
        if pc.all(ascii_only).as_py() is not False:
            return kernel(value)
        coded = value.filter(pc.invert(ascii_only)).dictionary_encode()
        mapped = pa.array([exact(text) for text in coded.dictionary.to_pylist()], pa.string()).take(coded.indices)
        return pc.replace_with_mask(kernel(pc.if_else(ascii_only, value, "")), pc.invert(ascii_only), mapped)

    return cased


def _length(call: Call, args: list[Value], timezone: str) -> Value:
    return (pc.binary_length if call.args[0].type == "binary" else pc.utf8_length)(args[0]).cast(pa.int32())


def _trim(call: Call, args: list[Value], timezone: str) -> Value:
    return pc.utf8_trim(args[0], characters=" ")


def _concat(call: Call, args: list[Value], timezone: str) -> Value:
    return pc.binary_join_element_wise(*args, "") if len(args) > 1 else args[0]


def _substring(call: Call, args: list[Value], timezone: str) -> Value:
    text, begin, *rest = args
    length = rest[0] if rest else pa.scalar(_MOST, pa.int32())
    begin, length = begin.cast(pa.int32()), length.cast(pa.int32())
    if isinstance(text, pa.Scalar) or not isinstance(begin, pa.Scalar) or not isinstance(length, pa.Scalar):
        return _cut(*aligned(text, begin, length))
    if not (begin.is_valid and length.is_valid):
        return pa.scalar(None, pa.string())
    start, count = begin.as_py(), length.as_py()
    if count <= 0:
        return pc.if_else(pc.is_valid(text), "", None) if text.null_count else pa.scalar("")
    start -= start > 0
    stop = start + count
    return pc.utf8_slice_codeunits(text, start, None if start < 0 <= stop or stop > _MOST else stop)


def _cut(text: pa.Array, begin: pa.Array, length: pa.Array) -> pa.Array:
    """A begin and a length of its own for every row: positions of all characters at once."""
    valid = pc.and_(pc.and_(text.is_valid(), begin.is_valid()), length.is_valid())
    text = pc.if_else(valid, text, "")
    data = np.frombuffer(text.buffers()[2] or b"", dtype=np.uint8)
    ends = np.frombuffer(text.buffers()[1], dtype=np.int32)[text.offset : text.offset + len(text) + 1].astype(np.int64)
    begins = (data & 0xC0) != 0x80  # where a character begins
    places = np.append(np.flatnonzero(begins), len(data))
    first = np.concatenate(([0], np.cumsum(begins)))[ends]
    sizes = np.diff(first)
    at = numbers(begin).astype(np.int64)
    start = np.where(at > 0, at - 1, np.where(at < 0, sizes + at, 0))
    stop = np.clip(start + numbers(length).astype(np.int64), 0, sizes)
    start = np.clip(start, 0, stop)
    low, high = places[first[:-1] + start], places[first[:-1] + stop]
    offsets = np.concatenate(([0], np.cumsum(high - low)))
    taken = np.arange(offsets[-1]) + np.repeat(low - offsets[:-1], high - low)
    cut = pa.StringArray.from_buffers(len(text), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data[taken]))
    return pc.if_else(valid, cut, pa.scalar(None, pa.string()))


KERNELS = {
    "like": _like,
    "lower": _cased(pc.utf8_lower, str.lower),
    "upper": _cased(pc.utf8_upper, str.upper),
    "length": _length,
    "trim": _trim,
    "concat": _concat,
    "substring": _substring,
}
