"""What was collected, epoch by epoch, as far back as windows reach.

A window may span many epochs, so epochs are merged in pairs as they age: there are at most `MAX_NODES` nodes, the newest of one epoch,
older ones of ever more. Of a node that a window covers in part, tuples count by the share of its event time that is covered. The current
event time is that of the newest two nodes of a stream, and not of the few tuples that lead: one event time that is wrong by years must not
move it. Streams without a window retain all nodes. Beside the nodes there are the probe counts of the last epochs, and how the newest epoch
compares with the window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from clash.codec import Codec
from clash.model.stream import Stream
from clash.plan.collection_spec import CollectionSpec
from clash.statistics.collected import Collected, StreamCounts, merge
from clash.statistics.epoch_drift import Drift
from clash.statistics.probe_feedback import ProbeFeedback, ProbeStep
from clash.statistics.stream_view import StreamView, build_view
from clash.statistics.time_spans import Spans, clock, share_between

MAX_NODES = 6
CLOCK_NODES = 2  # nodes of a stream, the newest, that its current event time is derived from
ENDED_WINDOWS = 10  # a stream without new tuples has ended, and follows the clock of the others, until it is so many windows behind


@dataclass(frozen=True)
class Node:
    """What was collected in some successive epochs."""

    epochs: int
    collected: Collected


@dataclass
class StatisticsHistory:
    """Statistics of the past epochs of a job."""

    nodes: list[Node] = field(default_factory=list)
    """Oldest first."""
    drift: Drift = field(default_factory=Drift)
    probes: ProbeFeedback = field(default_factory=ProbeFeedback)
    epochs: int = 0
    """All that were ever added."""

    def add_epoch(
        self,
        collected: Collected,
        spec: CollectionSpec,
        streams: Mapping[str, Stream],
        matches: Mapping[str, tuple[float, float]] | None = None,
        steps: Mapping[str, ProbeStep] | None = None,
    ) -> None:
        """One more epoch: what its tasks collected, and per edge label its step and the rows that went into its probe and came out."""
        self.epochs += 1
        self.nodes.append(Node(1, collected))
        self._remove_expired(streams)
        while len(self.nodes) > MAX_NODES:
            self._merge_nodes()
        self.drift.add(self.views(streams), self.newest(streams), spec.links, spec)
        self.probes.add({name: counts.rows for name, counts in collected.streams.items()}, matches or {}, steps or {})

    def copy(self) -> StatisticsHistory:
        """A history to which epochs can be added while this one stays as it is."""
        return StatisticsHistory([*self.nodes], Drift({**self.drift.trends}), ProbeFeedback([*self.probes.epochs]), self.epochs)

    def views(self, streams: Mapping[str, Stream]) -> dict[str, StreamView]:
        """Per stream the tuples that are in its window now."""
        now = self._current_times(streams)
        names = {name for node in self.nodes for name in node.collected.streams}

        def covered(name: str, collected: Collected) -> float:
            return _covered_share(collected.streams.get(name), streams.get(name), now.get(name))

        return {name: build_view(name, [(node.collected, covered(name, node.collected)) for node in self.nodes]) for name in sorted(names)}

    def newest(self, streams: Mapping[str, Stream]) -> dict[str, StreamView]:
        """Per stream the tuples of its newest epoch, scaled to as many as its window has."""
        views = {}
        for name, whole in self.views(streams).items():
            last = next(node.collected for node in reversed(self.nodes) if name in node.collected.streams)
            views[name] = build_view(name, [(last, 1.0)]).scaled(whole.rows)
        return views

    def _stream_clocks(self) -> dict[str, int]:
        """The event time that each stream has come to, by its own tuples. The newest node alone may have one tuple, whose time is wrong."""
        spans: dict[str, list[Spans]] = {}
        for node in reversed(self.nodes):
            for name, counts in node.collected.streams.items():
                if counts.spans:
                    spans.setdefault(name, []).append(counts.spans)
        return {name: clock(span for of_node in newest_first[:CLOCK_NODES] for span in of_node) for name, newest_first in spans.items()}

    def _current_times(self, streams: Mapping[str, Stream]) -> dict[str, int]:
        """The current event time by stream: the latest of all streams, except for streams that follow another clock."""
        own = self._stream_clocks()
        latest = max(own.values(), default=0)
        return {name: time if latest - time >= self._own_clock_lag(streams.get(name)) else latest for name, time in own.items()}

    def _own_clock_lag(self, stream: Stream | None) -> int:
        """A stream that is this far behind the others has a clock of its own: by theirs, no new tuple would be in its window. A stream
        without new tuples may just have ended."""
        if stream is None or stream.window is None:
            return 0
        return stream.window if stream.name in self.nodes[-1].collected.streams else ENDED_WINDOWS * stream.window

    def _remove_expired(self, streams: Mapping[str, Stream]) -> None:
        """Removes what no window covers.

        The nodes that a stream's clock is derived from stay, or a wrong clock could never be corrected; unless the clock of the other
        streams has passed them.
        """
        own, now = self._stream_clocks(), self._current_times(streams)
        nodes_seen: Counter[str] = Counter()
        retained = []
        for node in reversed(self.nodes):
            live = []
            for name, counts in node.collected.streams.items():
                nodes_seen[name] += 1
                is_clock = nodes_seen[name] <= CLOCK_NODES and counts.spans and max(own[name], counts.spans[0].low) >= now[name]
                if is_clock or _covered_share(counts, streams.get(name), now.get(name)) > 0:
                    live.append(name)
            if live:
                retained.append(node if len(live) == len(node.collected.streams) else Node(node.epochs, node.collected.only(live)))
        self.nodes = retained[::-1]

    def _merge_nodes(self) -> None:
        """Merges the two neighbours that are shortest for their age, never the newest."""
        ages, age = [], 0
        for node in reversed(self.nodes):
            ages.append(age)
            age += node.epochs
        ages.reverse()
        at = min(range(len(self.nodes) - 2), key=lambda i: ((self.nodes[i].epochs + self.nodes[i + 1].epochs) / ages[i + 1], i))
        both = self.nodes[at : at + 2]
        self.nodes[at : at + 2] = [Node(sum(node.epochs for node in both), merge(node.collected for node in both))]


HISTORY: Codec[StatisticsHistory] = Codec(StatisticsHistory)


def _covered_share(counts: StreamCounts | None, stream: Stream | None, now: int | None) -> float:
    """The share of a node's tuples that is in the window; tuples ahead by more than a window meet nothing that is in it."""
    if counts is None:
        return 0.0
    if stream is None or stream.window is None or now is None or not counts.spans:
        return 1.0
    return share_between(counts.spans, now - stream.window, now + stream.window)
