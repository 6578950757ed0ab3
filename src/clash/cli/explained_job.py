"""What `clash explain` plans: the queries of a job file, or of a file of SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clash.errors import ClashError

if TYPE_CHECKING:
    from clash.model.statistics import Statistics
    from clash.model.stream import Stream


@dataclass(frozen=True)
class ExplainedJob:
    queries: dict[str, str]
    statistics: Callable[[], Statistics]
    locate: Callable[[ClashError], ClashError]
    """Of an error, the same with its place in the file."""
    streams: Iterable[Stream] | None = None
    """None where the queries themselves say which columns there are."""
    windows: Mapping[str, Mapping[str, str]] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def explained_job(path: Path | None) -> ExplainedJob:
    from clash.job.load import is_job_file

    if path is not None and is_job_file(path):
        return _of_job_file(path)
    from clash.cli.jobfile import Job, read_job
    from clash.model.statistics import Statistics

    job = Job({}) if path is None else read_job(path)
    return ExplainedJob(job.queries, lambda: Statistics() if job.statistics is None else Statistics.load(job.statistics), job.locate)


def _of_job_file(path: Path) -> ExplainedJob:
    from clash.job.declared import declare
    from clash.job.load import load_job
    from clash.model.statistics import Statistics

    file = load_job(path)
    declared, engine = declare(file), file.job.engine
    return ExplainedJob(
        queries=declared.checked,
        statistics=lambda: declared.statistics or Statistics(),
        locate=file.located,
        streams=tuple(declared.streams.values()),
        windows={name: windows for name, windows in file.windows.items() if name in declared.checked},
        options={name: getattr(engine, name) for name in ("workers", "strategy", "cost", "layouts", "mirs")},
        notes=tuple(file.variables.hide(f"query {name} is left out: {reason}") for name, reason in declared.unchecked.items()),
    )
