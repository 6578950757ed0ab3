"""JSON tokens as text: what a string column gets for a token that is not a string, as Spark's reader writes it, and what a reason shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from clash.records.json_tokens import Number, Pairs

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPES |= {chr(code): f"\\u{code:04X}" for code in range(32) if chr(code) not in _ESCAPES}
_ESCAPED = re.compile(r'["\\\x00-\x1f\U00010000-\U0010ffff]')


class UncertainTextError(ValueError):
    """Which text Spark makes of the token depends on the version of Java, or on what the quick decoder does not keep."""


def text_of(token: Any) -> str:
    """Objects and arrays without white space, integers as they are, other numbers as Java writes a double. Raises UncertainTextError."""
    return _write(token, _double_text)


def shown(token: Any) -> str:
    """The token for a reason: numbers as they are written in the record."""
    return _write(token, str)


def _write(token: Any, number: Callable[[Any], str]) -> str:
    kind = type(token)
    if kind is str:
        return f'"{_ESCAPED.sub(_escape, token)}"'
    if kind is int:
        return str(token)
    if kind is Number or kind is float:
        return number(token)
    if token is None:
        return "null"
    if kind is bool:
        return "true" if token else "false"
    if kind is list:
        return f"[{','.join(_write(item, number) for item in token)}]"
    if kind is Pairs:
        return f"{{{','.join(f'{_write(key, number)}:{_write(value, number)}' for key, value in token)}}}"
    raise UncertainTextError  # a dict, which has lost all but the last of equal keys


def _escape(match: re.Match[str]) -> str:
    """Characters beyond 16 bits are written as their two surrogates."""
    character = match[0]
    return _ESCAPES.get(character) or "\\u{:02X}{:02X}\\u{:02X}{:02X}".format(*character.encode("utf-16-be"))


def _double_text(token: Any) -> str:
    """Java before 19 does not always write the fewest digits. From 0.001 to 10 million, with up to 15 digits, all versions agree."""
    value = float(token)
    text = repr(value)
    if value != 0 and not (1e-3 <= abs(value) < 1e7 and sum(map(str.isdigit, text.lstrip("-0."))) <= 15):
        raise UncertainTextError
    return text
