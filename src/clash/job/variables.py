"""`${NAME}` in a job file: values of the environment. Errors, logs, settings and paths have `${NAME}` in place of a value.

What is shown of the plan and of the data is never changed: a stream may be called what a variable has. So what the plan is made of cannot
have a variable; see `load`.

`${NAME:-text}` has a text for a variable that is not set; `$${` is `${` itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from urllib.parse import quote

_VARIABLE = re.compile(
    r"\$(?P<escaped>\$)?\{(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-(?P<text>[^}]*))?|(?P<bad>[^}]*))(?P<end>\})?"
)
_SHORT = 4  # characters of a value below which it is hidden only as a word of its own, and a number only in quotes or after an equals sign


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
        """The text with references in place of values, as they are and as quoting or a URL writes them; the longest first, because one may
        be part of another."""
        forms = {form: name for value, name in self._used.items() for form in _forms(value)}
        for form in sorted(forms, key=lambda form: -len(form)):
            reference = f"${{{forms[form]}}}"
            if len(form) >= _SHORT:
                text = text.replace(form, reference)
            else:
                pattern = rf"(?<=['\"=]){re.escape(form)}(?=['\"]|\W|$)" if form.isdecimal() else rf"(?<!\w){re.escape(form)}(?!\w)"
                text = re.sub(pattern, lambda _, reference=reference: reference, text)  # type: ignore[misc]
        return text


def _forms(value: str) -> set[str]:
    """A value as it may stand in a text: in quotes of Python or JSON, in the address of a file, and as a path without its last slash."""
    forms = {value, value.strip(), value.rstrip("/")}
    quoted = {text[1:-1] for form in forms for text in (repr(form), json.dumps(form), json.dumps(form, ensure_ascii=False))}
    encoded = {quote(form, safe) for form in forms for safe in ("/", "")}
    return (forms | quoted | encoded) - {""}
