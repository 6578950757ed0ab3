"""What was gathered, epoch by epoch, as far back as windows reach.

A window may span many epochs, so they are merged in pairs as they age: about as many nodes as fit `NODES`, the newest one epoch alone,
older ones ever longer. Of a node that a window covers in part, tuples count by the share of its time that is covered. What time it is,
the newest two nodes of a stream tell, and not by the few tuples that lead: one time that is wrong by years is no clock. Streams without
a window keep all. Beside it the probes of the last epochs, and how the newest epoch compares with the window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clash.model.stream import Stream
from clash.statistics.epoch_drift import Drift
from clash.statistics.collected import Counted, Gathered, add_up
from clash.statistics.probe_feedback import Probed, Probes
from clash.statistics.time_spans import Spans, clock, share
from clash.statistics.stream_view import View, view
from clash.statistics.collection_spec import Wanted

NODES = 6
TELLING = 2  # nodes of a stream, the newest, that tell its clock
ROWS, KEYS = 1024, 256


@dataclass(frozen=True)
class Node:
    epochs: int
    gathered: Gathered


@dataclass
class History:
    """`nodes` are oldest first."""

    nodes: list[Node] = field(default_factory=list)
    drift: Drift = field(default_factory=Drift)
    probes: Probes = field(default_factory=Probes)
    epochs: int = 0

    def add_epoch(
        self,
        gathered: Gathered,
        wanted: Wanted,
        streams: Mapping[str, Stream],
        matches: Mapping[str, tuple[int, int]] | None = None,
        probed: Mapping[str, Probed] | None = None,
    ) -> None:
        """One more epoch: what its tasks gathered, and per edge label the rows that went into its probes and came out."""
        self.epochs += 1
        self.nodes.append(Node(1, gathered))
        self._expire(streams)
        while len(self.nodes) > NODES:
            self._merge()
        self.drift.add(self.views(streams), self.newest(streams), wanted.links, wanted)
        self.probes.add({name: counted.rows for name, counted in gathered.streams.items()}, matches or {}, probed or {})

    def views(self, streams: Mapping[str, Stream]) -> dict[str, View]:
        """Of each stream what its window holds now."""
        now = self._now(streams)
        names = {name for node in self.nodes for name in node.gathered.streams}
        return {
            name: view(
                name, [(node.gathered, _covered(node.gathered.streams.get(name), streams.get(name), now.get(name))) for node in self.nodes]
            )
            for name in sorted(names)
        }

    def newest(self, streams: Mapping[str, Stream]) -> dict[str, View]:
        """Of each stream the tuples of its newest epoch, as if all in the window were like these."""
        found = {}
        for name, whole in self.views(streams).items():
            last = next(node.gathered for node in reversed(self.nodes) if name in node.gathered.streams)
            found[name] = view(name, [(last, 1.0)]).scaled(whole.rows)
        return found

    def _own(self) -> dict[str, int]:
        """The event time that a stream has come to, by stream. The newest node alone may have one tuple, whose time is wrong."""
        spans: dict[str, list[Spans]] = {}
        for node in reversed(self.nodes):
            for name, counted in node.gathered.streams.items():
                if counted.spans:
                    spans.setdefault(name, []).append(counted.spans)
        return {name: clock(span for some in newest[:TELLING] for span in some) for name, newest in spans.items()}

    def _now(self, streams: Mapping[str, Stream]) -> dict[str, int]:
        """The event time that it is, by stream: that of all streams, but for streams that follow another clock."""
        own = self._own()
        latest = max(own.values(), default=0)
        return {name: now if latest - now >= self._behind(streams.get(name)) else latest for name, now in own.items()}

    def _behind(self, stream: Stream | None) -> int:
        """A stream that is this far behind does not follow the clock of the others, by which nothing that comes would be in its window;
        where nothing comes, it may just have ended."""
        if stream is None or stream.window is None:
            return 0
        return stream.window if stream.name in self.nodes[-1].gathered.streams else 10 * stream.window

    def _expire(self, streams: Mapping[str, Stream]) -> None:
        """What no window covers goes. What tells a stream's clock stays, or nothing could ever turn it; unless that of others is beyond."""
        own, now = self._own(), self._now(streams)
        seen: Counter[str] = Counter()
        kept = []
        for node in reversed(self.nodes):
            live = []
            for name, counted in node.gathered.streams.items():
                seen[name] += 1
                tells = seen[name] <= TELLING and counted.spans and max(own[name], counted.spans[0].low) >= now[name]
                if tells or _covered(counted, streams.get(name), now.get(name)) > 0:
                    live.append(name)
            if live:
                kept.append(node if len(live) == len(node.gathered.streams) else Node(node.epochs, node.gathered.only(live)))
        self.nodes = kept[::-1]

    def _merge(self) -> None:
        """The two neighbours that are shortest for their age, never the newest."""
        ages, age = [], 0
        for node in reversed(self.nodes):
            ages.append(age)
            age += node.epochs
        ages.reverse()
        at = min(range(len(self.nodes) - 2), key=lambda i: ((self.nodes[i].epochs + self.nodes[i + 1].epochs) / ages[i + 1], i))
        both = self.nodes[at : at + 2]
        self.nodes[at : at + 2] = [Node(sum(n.epochs for n in both), add_up([n.gathered for n in both], ROWS, KEYS))]

    def to_json(self) -> dict[str, Any]:
        return {
            "epochs": self.epochs,
            "nodes": [[node.epochs, node.gathered.to_json()] for node in self.nodes],
            "drift": self.drift.to_json(),
            "probes": self.probes.to_json(),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> History:
        nodes = [Node(epochs, Gathered.from_json(one)) for epochs, one in data["nodes"]]
        return History(nodes, Drift.from_json(data["drift"]), Probes.from_json(data["probes"]), data["epochs"])


def _covered(counted: Counted | None, stream: Stream | None, now: int | None) -> float:
    """The share of a node's tuples that is in the window; what is ahead by more than that meets nothing that is in it."""
    if counted is None:
        return 0.0
    if stream is None or stream.window is None or now is None or not counted.spans:
        return 1.0
    return share(counted.spans, now - stream.window, now + stream.window)
