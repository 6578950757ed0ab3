"""One JSON value as tokens that keep what Spark's reader distinguishes: the text of numbers, and every key of an object.

It is the slow and complete way, for the few records that the quick way (`json_decoder`) does not decide.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

DEEPEST = 500  # levels of nesting; Spark ends at 1,000, and Python's own limit depends on its version and on the calls above
LONGEST_NUMBER = 1000  # characters, as in Spark

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_LONG_NUMBER = re.compile(rb"[-+.0-9eE]{%d}" % (LONGEST_NUMBER + 1))


class Number(str):
    """A JSON number that is not an integer, as it is written."""

    __slots__ = ()


class Pairs(tuple[tuple[str, Any], ...]):
    """The keys and values of a JSON object, in order, duplicates included."""

    __slots__ = ()


class NotJsonError(ValueError):
    """The value is not one JSON object; the message is the reason."""


def parse_tokens(value: bytes) -> Pairs:
    """The value as tokens: None, bool, int, `Number`, str, list and `Pairs`. Raises NotJsonError unless it is one JSON object."""
    if not value.strip(b" \t\r\n"):
        raise NotJsonError("empty value")
    if value.startswith(b"\xef\xbb\xbf"):
        raise NotJsonError("not JSON: it begins with a byte order mark")
    if is_deep(value) and _depth(value) > DEEPEST:
        raise NotJsonError(f"nested deeper than {DEEPEST} levels")
    try:
        tokens = _DECODER.decode(value.decode())
    except UnicodeDecodeError as error:
        raise NotJsonError(f"not UTF-8: byte 0x{value[error.start]:02x} at byte {error.start}") from None
    except json.JSONDecodeError as error:
        what = (
            "something follows after its end" if error.msg == "Extra data" else (error.msg[0].lower() + error.msg[1:]).removesuffix(" at")
        )
        raise NotJsonError(f"not JSON: {what}, at character {error.pos}") from None
    except RecursionError:
        raise NotJsonError(f"nested deeper than {DEEPEST} levels") from None
    if type(tokens) is not Pairs:
        raise NotJsonError(f"not a JSON object but {_NAMES.get(type(tokens), 'a number')}")
    return tokens


def is_deep(value: bytes) -> bool:
    """Whether the value may be nested too deeply: a quick test, which also holds for many brackets side by side."""
    return value.count(b"[") + value.count(b"{") > DEEPEST


def is_long_number(value: bytes) -> bool:
    """Whether the value may have a number that is too long: a quick test, which also holds for digits in a string."""
    return len(value) > LONGEST_NUMBER and _LONG_NUMBER.search(value) is not None


def _depth(value: bytes) -> int:
    deepest = depth = 0
    for bracket in re.findall(rb"[\[\]{}]", _STRING.sub(b"", value)):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _integer(text: str) -> int:
    _check_length(text)
    return int(text)


def _number(text: str) -> Number:
    _check_length(text)
    return Number(text)


def _check_length(text: str) -> None:
    if len(text) > LONGEST_NUMBER:
        raise NotJsonError(f"a number has more than {LONGEST_NUMBER} characters")


def _constant(text: str) -> NoReturn:
    raise NotJsonError(f"not JSON: it has {text}")


_NAMES = {type(None): "null", bool: "a boolean", str: "a string", list: "an array"}
_DECODER = json.JSONDecoder(object_pairs_hook=Pairs, parse_float=_number, parse_int=_integer, parse_constant=_constant)
