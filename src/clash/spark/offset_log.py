"""Spark's offset log, fitted to the sources of a Spark query over the same checkpoint: more of them than before, or all of them in one.

Invariant: the log is only ever extended by sources that it does not know yet (nothing is read of them), and the offsets of the others stay
as they are, in the form in which the query reads them. The batches that Spark has planned or committed mean what they meant, and fitting
the log again, after a crash in between, changes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from clash.coordinator.checkpoint.offset_entry import NO_OFFSET, POSITIONAL, OffsetEntry
from clash.coordinator.checkpoint.spark_half import OFFSETS
from clash.errors import CheckpointError
from clash.state.failpoints import reach
from clash.state.storage import Storage


def count_sources(df: Any) -> int:
    """As Spark counts them in its offset log: a source that is read in two places counts twice."""
    leaves = df._jdf.queryExecution().analyzed().collectLeaves()
    return sum(bool(leaves.apply(at).isStreaming()) for at in range(leaves.size()))


def fit_offset_log(storage: Storage, sources: int, is_shared: bool = False) -> bool:
    """Extends the offset log of a checkpoint to so many sources, the new ones last; whether it was changed. `is_shared`: the sources are
    one for Spark.

    Spark reads the last two entries: the last batch that was planned and the one before it. The older one is written first: if the last
    entry is right, both are.
    """
    batches = sorted(int(name) for name in storage.list(OFFSETS) if name.isdigit())[-2:]
    written = False
    for batch in batches:
        path = f"{OFFSETS}/{batch}"
        entry = OffsetEntry.parse(bytes(storage.read(path, mapped=False)))
        if entry.version != POSITIONAL or (len(entry.lines) == sources and entry.is_shared == is_shared):
            continue
        if len(entry.lines) > sources:
            raise CheckpointError(
                "the checkpoint knows more sources than the streams have now",
                f"{storage.label(path)} has {len(entry.lines)}, the streams of this start {sources}",
                "declare the streams as they were when the checkpoint was written, or use another checkpoint folder",
            )
        storage.delete([f"{OFFSETS}/.{batch}.crc"])  # a checksum that Hadoop's local file system keeps of what was there
        if written:
            reach("between-sources")
        lines = (*entry.lines, *[NO_OFFSET] * (sources - len(entry.lines)))
        storage.write(path, [replace(entry, lines=lines, is_shared=is_shared).content()], durable=True)
        written = True
    return written
