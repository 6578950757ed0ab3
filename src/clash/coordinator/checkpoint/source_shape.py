"""What the sources of each stream were when Spark read them last, as the checkpoint records it, and what of it may differ at a start.

Spark goes on with the offsets of a source by its number (or by the name that the user gave it), whatever the source is by then. A program
whose streams had a source each, and are filtered out of one now, has as many offsets: Spark would read most of its input again.

Invariant: what Spark reads with the offsets of the checkpoint is what these offsets were recorded for. Numbered sources stay where they
are, and new ones come behind all others. A record has no secrets: of a source's options it has only those that are named here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from clash.errors import CheckpointError
from clash.hints import listed

_LOG = logging.getLogger("clash")


@dataclass(frozen=True)
class SourceShape:
    """One source of a stream. A source that the plan of the stream reads in two places is there twice, as in Spark's offset log."""

    source: int | str
    """Its folder in Spark's half of the checkpoint: its number among all sources, or the name that the user gave it. Streams that are
    filtered out of one DataFrame have the same."""
    provider: str
    """The format: `parquet`, `kafka`, `rate`, the name of a Python data source, …"""
    subscription: str = ""
    """For Kafka, which option has the topics: `subscribe`, `subscribepattern` or `assign`."""
    topics: tuple[str, ...] = ()
    """Sorted; with `assign` they are partitions, with `subscribepattern` the pattern."""
    location: str = ""
    """The path of files or the servers of Kafka: both may move, so it is recorded for messages only."""
    cluster: str = ""
    """The id of the Kafka cluster, which stays when its servers move; empty where it is not known."""

    def continues(self, recorded: SourceShape) -> bool:
        """Whether it can go on with the offsets of the recorded source: topics may be added. Another cluster has other offsets."""
        return (
            (self.source, self.provider, self.subscription) == (recorded.source, recorded.provider, recorded.subscription)
            and set(recorded.topics) <= set(self.topics)
            and (self.cluster == recorded.cluster or not self.cluster or not recorded.cluster)
        )  # fmt: skip

    def __str__(self) -> str:
        topics = f" {self.subscription} {', '.join(self.topics)}" if self.topics else ""
        cluster = f" (cluster {self.cluster})" if self.cluster else ""
        return f"{self.provider}{topics}{f' from {self.location}' if self.location else ''}{cluster}"


Shapes = Mapping[str, tuple[SourceShape, ...]]
"""By stream, its sources in the order of its plan."""


def refuse_other_sources(order: Sequence[str], recorded: Shapes, now: Shapes) -> None:
    """Raises a CheckpointError for the first stream whose sources cannot go on with the offsets of the checkpoint; changes nothing.

    `order`: the streams in the order of the checkpoint. Streams that are not recorded are new.
    """
    known = [stream for stream in order if recorded.get(stream)]
    for stream in known:
        if not _continue(recorded[stream], now.get(stream, ()), is_last=stream == known[-1]):
            raise CheckpointError(
                "the sources of a stream are not those of the checkpoint",
                f"stream {stream} has read {_described(stream, order, recorded)}; now it is to read {_described(stream, order, now)}",
                "declare it over the sources that it had: columns, filters and options may differ, and Kafka topics may be added; or start"
                " anew with empty checkpoint and result folders",
            )


def warn_about_moved_sources(order: Sequence[str], recorded: Shapes, now: Shapes) -> None:
    """Logs which sources are elsewhere than they were. They are accepted: folders and brokers move."""
    pairs = dict.fromkeys(pair for stream in order for pair in _pairs(recorded.get(stream, ()), now.get(stream, ())))
    for old, new in pairs:
        if old.location == new.location:
            continue
        if new.provider == "kafka":
            effect = "its offsets continue there, so it has to be the same cluster, or a copy with the same offsets"
        else:
            effect = "Spark knows files by their paths, so those that have moved are new to it, unless the option fileNameOnly is set"
        _LOG.warning("a source has moved from %s to %s: %s", old.location or "nowhere", new.location or "nowhere", effect)


def _continue(recorded: tuple[SourceShape, ...], now: tuple[SourceShape, ...], is_last: bool) -> bool:
    """Behind the numbered sources of the last stream, and among named ones, there may be new ones."""
    pairs = list(_pairs(recorded, now))
    if len(pairs) < len(recorded) or not all(new.continues(old) for old, new in pairs):
        return False
    return is_last or len(_numbered(recorded)) == len(_numbered(now))


def _pairs(recorded: tuple[SourceShape, ...], now: tuple[SourceShape, ...]) -> Iterator[tuple[SourceShape, SourceShape]]:
    """Each recorded source with the one that gets its offsets, as far as there is one: by place, or by name."""
    yield from zip(_numbered(recorded), _numbered(now), strict=False)
    named = {shape.source: shape for shape in now if isinstance(shape.source, str)}
    yield from ((shape, named[shape.source]) for shape in recorded if shape.source in named)


def _numbered(shapes: tuple[SourceShape, ...]) -> list[SourceShape]:
    return [shape for shape in shapes if isinstance(shape.source, int)]


def _described(stream: str, order: Sequence[str], shapes: Shapes) -> str:
    """The sources of a stream, and with which streams it shares them."""
    parts = []
    for shape in shapes.get(stream, ()):
        others = [name for name in order if name != stream and any(shape.source == other.source for other in shapes.get(name, ()))]
        shared = f", the source of {listed(others)} too" if others else ""
        parts.append(f"{shape} (source {shape.source}{shared})")
    return " and ".join(parts) or "nothing"
