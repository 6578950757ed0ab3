"""What a user sees when the input is wrong: what, detail and hint, never a stack trace."""

from __future__ import annotations

from typing import TypeVar


class ClashError(Exception):
    """A mistake that the user can mend.

    `what` is one lower-case line, `detail` the offending piece and its place, `hint` what to write instead.
    """

    def __init__(self, what: str, detail: str = "", hint: str = "") -> None:
        super().__init__(what, detail, hint)
        self.what, self.detail, self.hint = what, detail, hint

    def __str__(self) -> str:
        lines = [self.what]
        if self.detail:
            lines.append(f"  detail: {self.detail}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class QueryError(ClashError):
    """A query that cannot be understood, or that asks for something that is not supported."""


class OptionError(ClashError):
    """An argument outside its range."""


class DataError(ClashError):
    """A value for which an expression has no answer under ANSI rules: an overflow, a division by zero, a malformed text."""


class StateError(ClashError):
    """A file of the state that cannot be written, read or believed."""


class CheckpointError(ClashError):
    """A checkpoint that belongs to another job, or that this version cannot go on from."""


class SinkError(ClashError):
    """A sink that cannot take the results."""


class SourceError(ClashError):
    """A source that does not deliver what its stream was declared to be."""


E = TypeVar("E", bound=ClashError)


def told(error: E, where: str) -> E:
    """The same error, with the place where it happened."""
    return type(error)(error.what, f"{error.detail} ({where})" if error.detail else where, error.hint)
