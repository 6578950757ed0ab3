"""What was gathered of some batches: counts, histograms and samples that add up.

Invariant: merging in any order gives the same counts and histograms. What was gathered under other queries merges too: a histogram is
called by column and type, and a sample whose keys or predicates have changed starts anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clash.statistics.kernels import BUCKETS
from clash.statistics.sample import Sample, joined, packed, unpacked
from clash.statistics.time_spans import Span, Spans, united

Counts = NDArray[np.int64]

ROWS, KEYS = 1024, 256  # of a sample that was merged: rows at most, and keys that are not given up for fewer rows


@dataclass(frozen=True)
class Counted:
    """Tuples of a stream; `excess` is Σ w² − w over those counted w-fold; `spans` are their event times, none where they are not known."""

    rows: float = 0
    excess: float = 0
    spans: Spans = ()

    def plus(self, other: Counted) -> Counted:
        return Counted(self.rows + other.rows, self.excess + other.excess, united(self.spans + other.spans))


@dataclass(frozen=True)
class Gathered:
    """`histograms` and `samples` are by (stream, key); `passes` are (tuples that pass, tuples looked at) by (stream, predicate)."""

    streams: Mapping[str, Counted] = field(default_factory=dict)
    histograms: Mapping[tuple[str, str], Counts] = field(default_factory=dict)
    passes: Mapping[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    samples: Mapping[tuple[str, str | None], Sample] = field(default_factory=dict)

    def only(self, streams: Iterable[str]) -> Gathered:
        """What is of these streams."""
        keep = set(streams)
        return Gathered(
            {name: counted for name, counted in self.streams.items() if name in keep},
            {key: counts for key, counts in self.histograms.items() if key[0] in keep},
            {key: passes for key, passes in self.passes.items() if key[0] in keep},
            {key: sample for key, sample in self.samples.items() if key[0] in keep},
        )

    def to_json(self) -> dict[str, Any]:
        samples: dict[str, dict[str, Any]] = {}
        for (stream, on), sample in self.samples.items():
            # one layout per stream: of samples of another one (older, of other queries) there are none after a merge
            entry = samples.setdefault(stream, {"keys": list(sample.keys), "predicates": list(sample.predicates), "on": []})
            entry["on"].append([on, sample.to_json()])
        return {
            "streams": {name: [c.rows, c.excess, c.spans] for name, c in self.streams.items()},
            "histograms": [[*key, _pack(counts)] for key, counts in self.histograms.items()],
            "passes": [[*key, *passes] for key, passes in self.passes.items()],
            "samples": samples,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Gathered:
        samples: dict[tuple[str, str | None], Sample] = {}
        for stream, entry in data["samples"].items():
            layout = tuple(entry["keys"]), tuple(entry["predicates"])
            samples |= {(stream, on): Sample.from_json(one, *layout, on) for on, one in entry["on"]}
        return Gathered(
            {name: Counted(rows, excess, tuple(Span(*s) for s in spans)) for name, (rows, excess, spans) in data["streams"].items()},
            {(stream, key): _unpack(text) for stream, key, text in data["histograms"]},
            {(stream, text): (passed, looked) for stream, text, passed, looked in data["passes"]},
            samples,
        )


def merge(gathered: Iterable[Mapping[str, Any]]) -> Gathered:
    """What the tasks of some batches gathered (`Gatherer.to_json`), oldest first."""
    return add_up([Gathered.from_json(one) for one in gathered])


def add_up(parts: Sequence[Gathered], rows: int = ROWS, keys: int = KEYS) -> Gathered:
    streams: dict[str, Counted] = {}
    histograms: dict[tuple[str, str], Counts] = {}
    passes: dict[tuple[str, str], tuple[float, float]] = {}
    samples: dict[tuple[str, str | None], list[Sample]] = {}
    layouts: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
    for part in parts:
        for name, counted in part.streams.items():
            streams[name] = streams.get(name, Counted()).plus(counted)
        for key, counts in part.histograms.items():
            histograms[key] = histograms[key] + counts if key in histograms else counts
        for key, (passed, looked) in part.passes.items():
            before = passes.get(key, (0.0, 0.0))
            passes[key] = before[0] + passed, before[1] + looked
        for at, sample in part.samples.items():
            samples.setdefault(at, []).append(sample)
            layouts[at[0]] = sample.keys, sample.predicates
    found: dict[tuple[str, str | None], Sample] = {}
    for at, all_ in samples.items():
        if (all_[-1].keys, all_[-1].predicates) == layouts[at[0]]:
            found[at] = joined(all_, rows, keys)
    return Gathered(streams, histograms, passes, found)


def _pack(counts: Counts) -> str:
    """In as few bytes per bucket as the largest one needs."""
    most = int(counts.max(initial=0))
    kind = "u1" if most < 1 << 8 else "u2" if most < 1 << 16 else "u4" if most < 1 << 32 else "i8"
    return f"{kind}:{packed(counts.astype(f'<{kind}').tobytes())}"


def _unpack(text: str) -> Counts:
    kind, _, content = text.partition(":")
    counts = np.frombuffer(unpacked(content), f"<{kind}").astype(np.int64)
    if len(counts) != BUCKETS:
        raise ValueError(f"a histogram of {len(counts)} buckets")
    return counts
