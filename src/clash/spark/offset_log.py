"""Spark's offset log, fitted to the sources of a Spark query over the same checkpoint: more of them than before, or all of them in one.

Invariant: the log is only ever extended by sources that it does not know yet (nothing is read of them), and the offsets of the others stay
as they are, in the form in which the query reads them. The batches that Spark has planned or committed mean what they meant, and fitting
the log again, after a crash in between, changes nothing.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from clash.coordinator.checkpoint.offset_entry import NO_OFFSET, POSITIONAL, OffsetEntry
from clash.coordinator.checkpoint.source_shape import Shapes
from clash.coordinator.checkpoint.spark_half import OFFSETS, SOURCES
from clash.errors import CheckpointError, OptionError
from clash.spark.source_shapes import streaming_leaves
from clash.state.failpoints import reach
from clash.state.storage import Storage

LOG_VERSION = "spark.sql.streaming.offsetLog.formatVersion"  # "2": sources are known by names
_NUMBERED_SOURCE = re.compile(r"(\d+)/\d")  # a file that a source has written


def count_sources(df: Any) -> int:
    """As Spark counts them in its offset log: a source that is read in two places counts twice."""
    return len(streaming_leaves(df))


def count_leaves(df: Any) -> int:
    """Sources and tables in the plan of a DataFrame."""
    return int(df._jdf.queryExecution().analyzed().collectLeaves().size())


def fit_offset_log(storage: Storage, sources: int, is_shared: bool = False) -> bool:
    """Extends the offset log of a checkpoint to so many sources, the new ones last; whether it was changed. `is_shared`: the sources are
    one for Spark.

    Spark reads the last two entries: the last batch that was planned and the one before it. The older one is written first: if the last
    entry is right, both are.
    """
    written = False
    for batch, entry in _last_entries(storage, sources):
        if len(entry.lines) == sources and entry.is_shared == is_shared:
            continue
        path = f"{OFFSETS}/{batch}"
        storage.delete([f"{OFFSETS}/.{batch}.crc"])  # a checksum that Hadoop's local file system keeps of what was there
        if written:
            reach("between-sources")
        lines = (*entry.lines, *[NO_OFFSET] * (sources - len(entry.lines)))
        storage.write(path, [replace(entry, lines=lines, is_shared=is_shared).content()], durable=True)
        written = True
    return written


def refuse_fewer_sources(storage: Storage, shapes: Shapes) -> None:
    """Raises a CheckpointError if Spark's half of a checkpoint knows more sources than there are; changes nothing. It is what can be
    checked where the checkpoint has no record of the sources."""
    _last_entries(storage, sum(map(len, shapes.values())))
    folders = {int(found[1]) for name in storage.list(SOURCES, recursive=True) if (found := _NUMBERED_SOURCE.match(name))}
    sources = {shape.source for each in shapes.values() for shape in each if isinstance(shape.source, int)}
    if sources and folders and max(folders) not in sources:
        raise _fewer_sources(f"{storage.label(SOURCES)} has {max(folders) + 1}, the streams of this start {len(sources)}")


def refuse_unusable_names(storage: Storage, shapes: Shapes, version: str) -> None:
    """Raises an OptionError if a source has a name and the offset log has none: Spark would know its files by its name, and its offsets by
    its number. `version`: of the offset log that Spark is to begin, if there is none."""
    named = [f"{name} of stream {stream}" for stream, each in shapes.items() for name in {s.source for s in each} if isinstance(name, str)]
    if named and not (names_sources(storage) if _batches(storage) else version == "2"):
        raise OptionError(
            "a named source needs an offset log that has names",
            f"source {named[0]}; the offset log of {storage.uri} has format 1",
            f'set {LOG_VERSION} to "2" before the first start, or do not name the source',
        )


def names_sources(storage: Storage) -> bool:
    """Whether the newest entry of the offset log names the sources, as Spark's format 2 does, instead of numbering them."""
    batches = _batches(storage)
    return bool(batches) and _read(storage, batches[-1]).version != POSITIONAL


def _last_entries(storage: Storage, sources: int) -> list[tuple[int, OffsetEntry]]:
    """The entries that Spark reads, unless they name their sources; CheckpointError if one knows more sources than there are."""
    entries = [(batch, entry) for batch in _batches(storage)[-2:] if (entry := _read(storage, batch)).version == POSITIONAL]
    for batch, entry in entries:
        if len(entry.lines) > sources:
            raise _fewer_sources(f"{storage.label(f'{OFFSETS}/{batch}')} has {len(entry.lines)}, the streams of this start {sources}")
    return entries


def _fewer_sources(detail: str) -> CheckpointError:
    return CheckpointError(
        "the checkpoint knows more sources than the streams have now",
        detail,
        "declare the streams as they were when the checkpoint was written, or use another checkpoint folder",
    )


def _batches(storage: Storage) -> list[int]:
    return sorted(int(name) for name in storage.list(OFFSETS) if name.isdigit())


def _read(storage: Storage, batch: int) -> OffsetEntry:
    return OffsetEntry.parse(bytes(storage.read(f"{OFFSETS}/{batch}", mapped=False)))
