"""A stream: a name, typed columns, a time column and a window."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from clash.errors import OptionError
from clash.model.durations import parse_duration
from clash.model.types import normalise

Keep = Literal["needed", "all"]
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)


def check_name(kind: str, name: str) -> str:
    """Names become directories and metrics: letters, digits and underscores only."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise OptionError(
            f"not a valid {kind} name",
            repr(name),
            "use letters, digits and underscores, no digit first, 100 characters at most",
        )
    return name


@dataclass(frozen=True, slots=True)
class Stream:
    """`columns` are (name, Spark type) in order; durations are microseconds, `window=None` means unbounded."""

    name: str
    columns: tuple[tuple[str, str], ...]
    time: str | None = None
    window: int | None = None
    lateness: int | None = None
    idle: int | None = None
    keep: Keep = "needed"

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
        """From what a user writes: `Stream.of("R", {"a": "bigint", "ts": "timestamp"}, time="ts", window="5 seconds")`."""
        check_name("stream", name)
        types = tuple((column, normalise(kind)) for column, kind in columns.items())
        if not types:
            raise OptionError("a stream needs at least one column", name, 'write columns={"a": "bigint", …}')
        if time is not None and (not isinstance(time, str) or time not in columns):
            raise OptionError("the time column is not a column of the stream", f"{name}.{time}", f"columns are {', '.join(columns)}")
        if time is not None and columns[time] and normalise(columns[time]) not in ("timestamp", "timestamp_ntz"):
            raise OptionError("the time column is not a timestamp", f"{name}.{time} is {columns[time]}", "cast it to timestamp")
        if keep not in ("needed", "all"):
            raise OptionError("unknown value of keep", f"{keep!r} for stream {name}", 'write "needed" or "all"')

        def micros(text: str | None, what: str) -> int | None:
            return None if text is None else parse_duration(text, f"the {what} of stream {name}")

        return Stream(name, types, time, micros(window, "window"), micros(lateness, "lateness"), micros(idle, "idle time"), keep)

    def type_of(self, column: str) -> str | None:
        return next((kind for name, kind in self.columns if name == column), None)
