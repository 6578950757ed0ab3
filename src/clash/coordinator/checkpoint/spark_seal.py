"""The seal of Spark's half of a checkpoint: checksums of what Spark continues from, recorded with our own half.

Invariant: the seal of a batch covers every file of Spark's half that decides which rows the batches after it get. `spark_half` makes and
verifies it; here it is only data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class SourceLogSeal:
    """Spark's log of one source: a file per entry, the older ones compacted into one from time to time."""

    first: int
    """The number of the newest compacted file or, if there is none, of the oldest."""
    crcs: tuple[int, ...]
    """The checksums of the files from that one on, in order, each of name and content."""

    @property
    def last(self) -> int:
        return self.first + len(self.crcs) - 1


@dataclass(frozen=True)
class SparkSeal:
    metadata: int
    offsets: int
    """Of the batch's entry in the offset log."""
    previous: int | None
    """Of the entry before it: a batch reads what is between the two."""
    sources: Mapping[str, SourceLogSeal]
    """By folder of the source, of those that keep files."""
