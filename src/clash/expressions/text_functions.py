"""String functions whose patterns, lengths and positions are literals. Characters are Unicode code points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clash.expressions.values import Value, as_arrays, on_array, to_numpy, with_nulls_of
from clash.model.expressions import Call, Lit


def _literal(call: Call, at: int) -> Any:
    arg = call.args[at]
    assert isinstance(arg, Lit)
    return arg.value


def _trim(kernel: Callable[..., Any]) -> Callable[[Call, list[Value], str], Value]:
    """TRIM, LTRIM or RTRIM, of spaces or of the given characters."""

    def trim(call: Call, args: list[Value], timezone: str) -> Value:
        characters = _literal(call, 1) if len(call.args) > 1 else " "
        return kernel(args[0], characters=characters) if characters else args[0]

    return trim


def _match(kernel: Callable[..., Any]) -> Callable[[Call, list[Value], str], Value]:
    return lambda call, args, timezone: kernel(args[0], _literal(call, 1))


def _replace(call: Call, args: list[Value], timezone: str) -> Value:
    search = _literal(call, 1)
    return pc.replace_substring(args[0], pattern=search, replacement=_literal(call, 2)) if search else args[0]


def _concat_ws(call: Call, args: list[Value], timezone: str) -> Value:
    """NULLs are left out; only a separator that is NULL gives NULL."""
    separator, first, *rest = as_arrays(*args)
    missing = first.is_null()
    for other in rest:
        missing = pc.and_(missing, other.is_null())
    first = pc.if_else(missing, "", first)  # Arrow returns no value at all for a row in which all are NULL
    return pc.binary_join_element_wise(first, *rest, separator, null_handling="skip")


def _repeat(call: Call, args: list[Value], timezone: str) -> Value:
    return pc.binary_repeat(args[0], max(0, _literal(call, 1)))


def _octet_length(call: Call, args: list[Value], timezone: str) -> Value:
    return pc.binary_length(args[0]).cast(pa.int32())


def _pad(left: bool) -> Callable[[Call, list[Value], str], Value]:
    """LPAD or RPAD: exactly as many characters as given, unless there is nothing to fill up with."""

    def pad(call: Call, args: list[Value], timezone: str) -> Value:
        size, fill = max(0, _literal(call, 1)), _literal(call, 2)
        if size == 0:
            return on_array(lambda a: pc.if_else(a.is_valid(), "", pa.scalar(None, pa.string())), args[0])
        whole = (fill * size)[:size]
        fillings = pa.array([whole[:count] for count in range(size + 1)], pa.string())

        def filled(text: pa.Array) -> pa.Array:
            missing = pc.max_element_wise(pc.subtract(size, pc.utf8_length(text).cast(pa.int64())), 0, skip_nulls=False)
            kept = pc.utf8_slice_codeunits(text, 0, size)
            parts = (fillings.take(missing), kept) if left else (kept, fillings.take(missing))
            return pc.binary_join_element_wise(*parts, "")

        return on_array(filled, args[0])

    return pad


def _instr(call: Call, args: list[Value], timezone: str) -> Value:
    """The position of the first occurrence, in characters from 1; 0 if there is none."""

    def position(text: pa.Array) -> pa.Array:
        found = pc.find_substring(text, pattern=_literal(call, 1))
        if pc.all(pc.string_is_ascii(text)).as_py() is not False:
            return pc.add(found, pa.scalar(1, pa.int32()))
        text = pc.if_else(text.is_valid(), text, "")  # in buffers of its own
        data = np.frombuffer(text.buffers()[2] or b"", dtype=np.uint8)
        begin = np.frombuffer(text.buffers()[1], dtype=np.int32)[text.offset : text.offset + len(text)].astype(np.int64)
        characters = np.concatenate(([0], np.cumsum((data & 0xC0) != 0x80)))  # before each byte
        at = to_numpy(found).astype(np.int64)
        numbers = np.where(at < 0, 0, characters[begin + np.maximum(at, 0)] - characters[begin] + 1)
        return with_nulls_of(numbers.astype(np.int32), found, pa.int32())

    return on_array(position, args[0])


def _split_part(call: Call, args: list[Value], timezone: str) -> Value:
    """One part of a text between separators, from 1 or, if negative, from the end; empty if there are fewer."""
    separator, number = _literal(call, 1), _literal(call, 2)

    def part(text: pa.Array) -> pa.Array:
        if not separator:
            return text if number in (1, -1) else pc.if_else(text.is_valid(), "", pa.scalar(None, pa.string()))
        lists = pc.split_pattern(text, pattern=separator)
        count = to_numpy(pc.list_value_length(lists)).astype(np.int64)
        begin = np.concatenate(([0], np.cumsum(count)))[:-1]
        wanted = np.full(len(count), number - 1) if number > 0 else count + number
        inside = (wanted >= 0) & (wanted < count)
        taken = lists.flatten().take(pa.array(np.where(inside, begin + wanted, 0), pa.int64(), mask=~inside))
        return pc.if_else(text.is_valid(), taken.fill_null(""), pa.scalar(None, pa.string()))

    return on_array(part, args[0])


KERNELS = {
    "trim": _trim(pc.utf8_trim),
    "ltrim": _trim(pc.utf8_ltrim),
    "rtrim": _trim(pc.utf8_rtrim),
    "startswith": _match(pc.starts_with),
    "endswith": _match(pc.ends_with),
    "contains": _match(pc.match_substring),
    "replace": _replace,
    "concat_ws": _concat_ws,
    "repeat": _repeat,
    "reverse": lambda call, args, timezone: pc.utf8_reverse(args[0]),
    "octet_length": _octet_length,
    "lpad": _pad(left=True),
    "rpad": _pad(left=False),
    "instr": _instr,
    "split_part": _split_part,
}
