"""An entry of Spark's offset log: up to where each source is read by a batch.

    v1
    {"batchWatermarkMs":0,…}
    {"logOffset":7}
    -

Invariant: `lines` is the same whether the streams are sources of their own, as above, or share one (`clash.spark.FileStreams`, in Java),
whose only line has the lines of all of them: `{"clash.files":["{\\"logOffset\\":7}","-"]}`. What the entry means does not depend on that.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

NO_OFFSET = "-"  # how Spark writes that nothing of a source is read yet
POSITIONAL = "v1"  # "v2" names sources: there Spark itself takes an unknown one for a new one
_SHARED = "clash.files"


@dataclass(frozen=True)
class OffsetEntry:
    version: str
    metadata: str
    lines: tuple[str, ...]
    """The offset of each source, as Spark writes it."""
    is_shared: bool
    """Whether the sources are one for Spark."""

    @staticmethod
    def parse(content: bytes) -> OffsetEntry:
        version, _, rest = content.decode(errors="surrogateescape").rstrip("\n").partition("\n")
        metadata, _, offsets = rest.partition("\n")
        lines = tuple(offsets.split("\n")) if offsets else ()
        shared = _shared_lines(lines)
        return OffsetEntry(version, metadata, lines if shared is None else shared, shared is not None)

    def content(self) -> bytes:
        lines = [json.dumps({_SHARED: self.lines}, separators=(",", ":"))] if self.is_shared else self.lines
        return "\n".join([self.version, self.metadata, *lines]).encode(errors="surrogateescape")

    def without_new_sources(self) -> OffsetEntry:
        """The entry as Spark wrote it: sources that were added at its end since, at any time, have no offset."""
        count = len(self.lines)
        while count and self.lines[count - 1] == NO_OFFSET:
            count -= 1
        return OffsetEntry(self.version, self.metadata, self.lines[:count], False)


def _shared_lines(lines: Sequence[str]) -> tuple[str, ...] | None:
    if len(lines) != 1 or not lines[0].startswith(f'{{"{_SHARED}":'):
        return None
    try:
        shared = json.loads(lines[0])[_SHARED]
    except ValueError:
        return None
    return tuple(map(str, shared)) if isinstance(shared, list) else None
