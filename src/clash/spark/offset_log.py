"""Spark's offset log: one more source over the same checkpoint.

Invariant: the log is only ever extended by sources that it does not know yet ("-": nothing read so far), so the batches that Spark has
planned or committed mean what they meant, and extending it again, after a crash in between, changes nothing.
"""

from __future__ import annotations

from typing import Any

from clash.errors import CheckpointError
from clash.state.failpoints import reach
from clash.state.storage import Storage

_LOG = "offsets"
_NO_OFFSET = "-"  # how Spark writes that a source has no offset yet
_POSITIONAL = "v1"  # "v2" names sources: there Spark itself takes an unknown one for a new one


def count_sources(df: Any) -> int:
    """As Spark counts them in its offset log: a source that is read in two places counts twice."""
    leaves = df._jdf.queryExecution().analyzed().collectLeaves()
    return sum(bool(leaves.apply(at).isStreaming()) for at in range(leaves.size()))


def extend_offset_log(storage: Storage, sources: int) -> bool:
    """Extends the offset log of a checkpoint to so many sources, the new ones last; whether it had fewer.

    Spark reads the last two entries: the last batch that was planned and the one before it. The older one is written first: if the last
    entry is right, both are.
    """
    batches = sorted(int(name) for name in storage.list(_LOG) if name.isdigit())[-2:]
    written = False
    for batch in batches:
        path = f"{_LOG}/{batch}"
        text = storage.read(path, mapped=False).to_pybytes().decode()
        version, _metadata, *offsets = text.removesuffix("\n").split("\n")
        if version != _POSITIONAL or len(offsets) == sources:
            continue
        if len(offsets) > sources:
            raise CheckpointError(
                "the checkpoint knows more sources than the streams have now",
                f"{storage.label(path)} has {len(offsets)}, the streams of this start {sources}",
                "declare the streams as they were when the checkpoint was written, or use another checkpoint folder",
            )
        storage.delete([f"{_LOG}/.{batch}.crc"])  # a checksum that Hadoop's local file system keeps of what was there
        if written:
            reach("between-sources")
        storage.write(path, ["\n".join([text.removesuffix("\n"), *[_NO_OFFSET] * (sources - len(offsets))]).encode()], durable=True)
        written = True
    return written
