"""What a server knows of the job beside its run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clash.job import model


@dataclass(frozen=True)
class JobContext:
    name: str | None = None
    checkpoint: str | None = None
    folder: Path = field(default_factory=Path.cwd)
    """Which relative paths of sinks count from."""
    kafka: model.Kafka = field(default_factory=model.Kafka)
    postgres: model.Postgres | None = None
    any_sink: bool = False
    """Whether requests may name any sink, as job files may; see `given_sinks`."""
    hide: Callable[[str], str] = str
    """Replaces values of variables in the text of an error or a path. Names, queries and results never pass it: they have no variables, and
    one of them may happen to be what a variable has."""

    @staticmethod
    def of(run: Any, any_sink: bool = False) -> JobContext:
        """Of a program's run."""
        return JobContext(name=getattr(run, "name", None), checkpoint=getattr(run, "checkpoint", None), any_sink=any_sink)
