"""A stream: a name, typed columns, a time column and a window."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from clash.errors import OptionError
from clash.model.durations import parse_duration
from clash.model.expressions import Expr
from clash.model.types import is_decimal, normalise

Keep = Literal["needed", "all"]
MAX_LABEL = 1_000
_UNPRINTABLE = ("Cc", "Cs", "Zl", "Zp")  # categories of Unicode: control characters, half characters, separators of lines
UNCHANGED = "unchanged"  # an option that a change of a stream leaves as it is
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)


def check_name(kind: str, name: str) -> str:
    """Returns a valid name, or raises. Names become directories and metrics, hence letters, digits and underscores only."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise OptionError(
            f"not a valid {kind} name",
            repr(name),
            "use letters, digits and underscores, no digit first, 100 characters at most",
        )
    return name


def check_label(kind: str, name: object) -> str:
    """Returns a valid name of a column, an alias or an output, or raises. Any text will do that can be shown on one line."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_LABEL or any(unicodedata.category(char) in _UNPRINTABLE for char in name):
        shown = repr(name) if len(repr(name)) <= 60 else f"{repr(name)[:59]}…"
        hint = f"use 1 to {MAX_LABEL:,} characters, without control characters and line breaks"
        raise OptionError(f"not a valid name of {kind}", shown, hint)
    return name


@dataclass(frozen=True, slots=True)
class Stream:
    """A declared stream; durations are in microseconds."""

    name: str
    columns: tuple[tuple[str, str], ...]
    """Name and Spark type of each column, in order."""
    time: str | None = None
    """The event time column; without one, the event time of a row is the timestamp of its batch."""
    window: int | None = None
    """How long a row can join later rows, unless a query says otherwise; None is unbounded."""
    lateness: int | None = None
    """How far the watermark trails the largest event time; None has no watermark, so nothing is late and nothing expires."""
    idle: int | None = None
    """After this long without rows, the stream's watermark is raised to the smallest of the other streams."""
    keep: Keep = "needed"
    """Which rows and columns the store retains: those that live queries need, or all, for queries added later."""
    computed: tuple[tuple[str, str, str], ...] = ()
    """Name, Spark type and expression of columns that Spark computes for queries where it reads the stream, see `clash.model.computed`."""
    is_table: bool = False
    """Whether it is a reference table: its rows do not arrive, but are there, in a version that each batch decides on."""
    evaluated: tuple[tuple[str, Expr], ...] = ()
    """Name and expression of columns that tasks compute for queries of the rows that were read."""

    @staticmethod
    def of(
        name: str,
        columns: Mapping[str, str],
        *,
        time: str | None = None,
        window: str | None = None,
        lateness: str | None = None,
        idle: str | None = None,
        keep: Keep = "needed",
    ) -> Stream:
        """A checked stream, from the arguments that users write.

        >>> Stream.of("R", {"a": "long", "ts": "timestamp"}, time="ts", window="5 seconds").window
        5000000
        """
        check_name("stream", name)
        types = tuple((check_label("a column", column), normalise(kind)) for column, kind in columns.items())
        for column, kind in types:
            if kind.startswith("decimal") and not is_decimal(kind):
                raise OptionError("not a decimal type", f"{name}.{column} is {kind}", "write decimal(p,s) with p up to 38 and s up to p")
        if not types:
            raise OptionError("a stream needs at least one column", name, 'write columns={"a": "bigint", …}')
        if time is not None and (not isinstance(time, str) or time not in columns):
            raise OptionError("the time column is not a column of the stream", f"{name}.{time}", f"columns are {', '.join(columns)}")
        if time is not None and columns[time] and normalise(columns[time]) not in ("timestamp", "timestamp_ntz"):
            raise OptionError("the time column is not a timestamp", f"{name}.{time} is {columns[time]}", "cast it to timestamp")
        options: dict[str, Any] = {"window": window, "lateness": lateness, "idle": idle, "keep": keep}
        return Stream(name, types, time).with_options(**options)

    @staticmethod
    def table(name: str, columns: Mapping[str, str]) -> Stream:
        """A checked reference table. It has no event time and no window: what a batch joins are the rows of one version of it.

        >>> Stream.table("nations", {"key": "bigint", "name": "string"}).is_table
        True
        """
        check_name("table", name)
        if not columns:
            raise OptionError("a table needs at least one column", name, 'write columns={"a": "bigint", …}')
        return replace(Stream.of(name, columns), is_table=True)

    @property
    def kind(self) -> str:
        """What users call it."""
        return "table" if self.is_table else "stream"

    def with_options(
        self,
        *,
        window: str | None = UNCHANGED,
        lateness: str | None = UNCHANGED,
        idle: str | None = UNCHANGED,
        keep: str = UNCHANGED,
    ) -> Stream:
        """The stream with other options, as users write them; None is that of `Stream.of`.

        >>> Stream.of("R", {"a": "long"}, window="5 seconds", lateness="1 second").with_options(window="1 minute").window
        60000000
        """
        options: dict[str, Any] = {}
        for option, text in (("window", window), ("lateness", lateness), ("idle", idle)):
            if text is None:
                options[option] = None
            elif text != UNCHANGED:
                what = "idle time" if option == "idle" else option
                options[option] = parse_duration(text, f"the {what} of stream {self.name}")
        if keep != UNCHANGED:
            if keep not in ("needed", "all"):
                raise OptionError("unknown value of keep", f"{keep!r} for stream {self.name}", 'write "needed" or "all"')
            options["keep"] = keep
        return replace(self, **options)

    @property
    def all_columns(self) -> tuple[tuple[str, str], ...]:
        """Name and Spark type of each column, those included that are computed for queries."""
        if not self.computed and not self.evaluated:
            return self.columns
        by_spark = ((name, kind) for name, kind, _ in self.computed)
        return *self.columns, *by_spark, *((name, expression.type) for name, expression in self.evaluated)

    def type_of(self, column: str) -> str | None:
        """The Spark type of a column; None if the stream has no such column."""
        return next((kind for name, kind in self.all_columns if name == column), None)
