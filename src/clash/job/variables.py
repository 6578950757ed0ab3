"""`${NAME}` in a job file: values of the environment. They are never shown: where one would be, `${NAME}` is.

`${NAME:-text}` has a text for a variable that is not set; `$${` is `${` itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_VARIABLE = re.compile(
    r"\$(?P<escaped>\$)?\{(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-(?P<text>[^}]*))?|(?P<bad>[^}]*))(?P<end>\})?"
)
_SHORT = 4  # characters of a value below which it is hidden only where it stands in quotes: a digit is part of many texts


class MissingVariableError(ValueError):
    """A variable that is not set, or a reference that cannot be read."""


class Variables:
    """Replaces references by the environment's values, and remembers the values to hide them."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._used: dict[str, str] = {}  # by value, its name

    def replace(self, text: str) -> str:
        """The text with values in place of references."""
        return _VARIABLE.sub(self._value, text)

    def _value(self, match: re.Match[str]) -> str:
        if match["escaped"]:
            return match[0][1:]
        if match["name"] is None or match["end"] is None:
            raise MissingVariableError(f"{match[0]} is not a reference to a variable")
        value = self._environment.get(match["name"], match["text"])
        if value is None:
            raise MissingVariableError(f"the environment has no {match['name']}")
        if value and match["name"] in self._environment:
            self._used.setdefault(value, match["name"])
        return value

    def hide(self, text: str) -> str:
        """The text with references in place of values; the longest first, because one may be part of another."""
        for value, name in sorted(self._used.items(), key=lambda item: -len(item[0])):
            if len(value) >= _SHORT:
                text = text.replace(value, f"${{{name}}}")
            else:
                for quote in "'\"":
                    text = text.replace(f"{quote}{value}{quote}", f"{quote}${{{name}}}{quote}")
        return text

    def hide_data(self, data: Any) -> Any:
        """The same in all texts of plain data."""
        if not self._used:
            return data
        if isinstance(data, str):
            return self.hide(data)
        if isinstance(data, dict):
            return {key: self.hide_data(value) for key, value in data.items()}
        return [self.hide_data(value) for value in data] if isinstance(data, list) else data
