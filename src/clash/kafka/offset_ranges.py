"""The records of a batch, as ranges of offsets: taken from Spark's offsets, and divided among tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

Offsets = Mapping[str, Mapping[str, int]]  # by topic and partition, as Spark writes them in JSON


@dataclass(frozen=True)
class OffsetRange:
    """Consecutive offsets of one partition. Some may have no record: of transactions, of compaction."""

    topic: str
    partition: int
    start: int
    end: int
    """The first offset after the range."""
    is_new: bool = False
    """Whether the partition was not known before: what it lost before its first batch was never there for this job."""

    @property
    def offsets(self) -> int:
        return max(0, self.end - self.start)


def ranges_between(start: Offsets, end: Offsets, topics: Iterable[str]) -> Iterator[OffsetRange]:
    """What comes between two offsets of Spark's. A partition that has fewer records than before, because its topic was deleted and made
    again, has a range whose end is before its start.

    >>> list(ranges_between({"a": {"0": 5}}, {"a": {"0": 7, "1": 2}, "b": {"0": 1}}, ["a"]))
    [OffsetRange(topic='a', partition=0, start=5, end=7, is_new=False), OffsetRange(topic='a', partition=1, start=0, end=2, is_new=True)]
    """
    for topic in topics:
        before = start.get(topic, {})
        for partition, offset in sorted(end.get(topic, {}).items(), key=lambda item: int(item[0])):
            first = before.get(partition)
            if first != offset and not (first is None and offset == 0):
                yield OffsetRange(topic, int(partition), first or 0, offset, first is None)


def divide(ranges: Sequence[OffsetRange], parts: int) -> list[tuple[OffsetRange, ...]]:
    """The ranges in `parts` shares of about as many offsets.

    >>> [len(share) for share in divide([OffsetRange("a", 0, 0, 10), OffsetRange("a", 1, 0, 2)], 2)]
    [1, 2]
    """
    total = sum(each.offsets for each in ranges)
    shares: list[list[OffsetRange]] = [[] for _ in range(parts)]
    for part in range(parts):
        low, high, begin = total * part // parts, total * (part + 1) // parts, 0
        for each in ranges:
            first, last = max(low, begin), min(high, begin + each.offsets)
            if first < last:
                start = each.start + first - begin
                shares[part].append(replace(each, start=start, end=start + last - first))
            begin += each.offsets
    shares[0] += [each for each in ranges if each.end < each.start]  # which is an error, or lost
    return [tuple(share) for share in shares]
