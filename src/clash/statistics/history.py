"""What was gathered, epoch by epoch, as far back as windows reach.

A window may span many epochs, so they are merged in pairs as they age: about as many nodes as fit `NODES`, the newest one epoch alone,
older ones ever longer. Of a node that a window covers in part, tuples count by the share of its time that is covered. Streams without
a window keep all. Beside it the probes of the last epochs, and how the newest epoch compares with the window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clash.model.stream import Stream
from clash.statistics.drift import Drift
from clash.statistics.gathered import Counted, Gathered, add_up
from clash.statistics.measured import Probed, Probes
from clash.statistics.view import View, view
from clash.statistics.wanted import Wanted

NODES = 6
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
        now = self._now()
        names = {name for node in self.nodes for name in node.gathered.streams}
        return {
            name: view(
                name, [(node.gathered, _covered(node.gathered.streams.get(name), _since(streams.get(name), now))) for node in self.nodes]
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

    def _now(self) -> dict[str, int]:
        """The largest event time, by stream: that of all streams, but for streams that follow another clock."""
        own: dict[str, int] = {}
        for node in self.nodes:
            for name, counted in node.gathered.streams.items():
                if counted.high is not None:
                    own[name] = max(own.get(name, counted.high), counted.high)
        return own

    def _expire(self, streams: Mapping[str, Stream]) -> None:
        now = self._now()
        kept = []
        for node in self.nodes:
            live = [n for n, counted in node.gathered.streams.items() if _covered(counted, _since(streams.get(n), now)) > 0]
            if live:
                kept.append(node if len(live) == len(node.gathered.streams) else Node(node.epochs, node.gathered.only(live)))
        self.nodes = kept

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


def _since(stream: Stream | None, now: Mapping[str, int]) -> int | None:
    """The smallest event time in the window; None for all."""
    if stream is None or stream.window is None or not now:
        return None
    own, all_ = now.get(stream.name), max(now.values())
    if own is None:
        return None
    # a stream that is this far behind does not follow the clock of the others: it is looked at by its own
    return (own if all_ - own > 10 * stream.window else all_) - stream.window


def _covered(counted: Counted | None, since: int | None) -> float:
    """The share of a node's tuples that is not older."""
    if counted is None:
        return 0.0
    if since is None or counted.low is None or counted.high is None or counted.low >= since:
        return 1.0
    return max(0.0, (counted.high - since) / (counted.high - counted.low)) if counted.high > counted.low else 0.0
