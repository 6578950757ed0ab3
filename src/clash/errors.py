"""The errors that users see. Each has three parts: what is wrong, a detail and a hint; a stack trace is never needed to understand one."""

from __future__ import annotations

from typing import TypeVar


class ClashError(Exception):
    """Base class of all errors that a user can correct.

    `what` is one lower-case line, `detail` the offending piece and where it is, `hint` what to write or do instead.
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
    """A query that cannot be parsed or resolved, or that uses something that is not supported."""


class OptionError(ClashError):
    """An argument of the wrong type or outside its range."""


class UnknownNameError(OptionError):
    """A name that nothing has."""


class TakenNameError(OptionError):
    """A name that something has already."""


class DataError(ClashError):
    """A value for which an expression has no result under ANSI rules: an overflow, a division by zero, a malformed text."""


class StateError(ClashError):
    """A file of the state that cannot be written or read, or whose content is not what was recorded."""


class CheckpointError(ClashError):
    """A checkpoint that belongs to another job, or from which this version cannot continue."""


class SinkError(ClashError):
    """A sink that cannot accept the results."""


class SourceError(ClashError):
    """A source whose data does not match the declaration of its stream."""


E = TypeVar("E", bound=ClashError)


def with_context(error: E, where: str) -> E:
    """A copy of the error whose detail also says where it occurred."""
    return type(error)(error.what, f"{error.detail} ({where})" if error.detail else where, error.hint)
