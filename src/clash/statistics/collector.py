"""Gathers statistics of what an ingest task admits.

Cost: a hash and an increment per join key and tuple, a compare per sample; predicates are evaluated on a bounded part of each block and
on what is sampled. A task looks at every tuple up to `FULL` of a stream and at fewer and fewer beyond, so very large batches cost
little more than large ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clash.columnar.key_words import key_words
from clash.errors import DataError
from clash.expressions import holds
from clash.model.expressions import Col, Expr
from clash.model.expressions import columns as columns_of
from clash.statistics.collected import Counted, Gathered
from clash.statistics.kernels import ALL, BUCKETS, Hashes, count_keys, pick
from clash.statistics.sample import Sample, empty
from clash.statistics.time_spans import spans_of
from clash.statistics.collection_spec import Key, OfStream, Wanted

ROWS, KEYS = 256, 96  # of a task's sample
MORE = 1.3  # than a task's sample kept of its tuples is where the next one begins: it may have fewer of them
PIECE = 2048  # rows that are sampled before the first look at how many they are
FULL = 1 << 15  # tuples of a stream that a task looks at before it begins to skip some
LOOKED = 2048  # rows of a block on which predicates are evaluated, about
TAU = "#tau"
_NONE = np.empty(0, np.int32)


class Rows(Protocol):
    """What is needed of a `clash.columnar.block.Block`."""

    @property
    def rows(self) -> int: ...

    @property
    def columns(self) -> Mapping[str, pa.Array]: ...


class Gatherer:
    def __init__(self, wanted: Wanted, timezone: str, share: float = 1.0) -> None:
        """`share` of the tuples is looked at, at most."""
        self._streams = {name: _Stream(name, what, timezone, max(1, round(1 / share))) for name, what in wanted.streams.items()}
        domains = {key.domain for what in wanted.streams.values() for key in what.keys}
        self._hints = wanted.hints
        self._thresholds = {domain: int(min(1.0, MORE * self._hints.get(domain, 1.0)) * ALL) for domain in domains}
        for stream in self._streams.values():
            stream.hint(self._hints)

    def add(self, stream: str, block: Rows) -> None:
        """Tuples of a stream that are not late; columns are called `stream.column`, event times `#tau`."""
        if block.rows:
            self._streams.setdefault(stream, _Stream(stream, OfStream(), "UTC", 1)).add(block, self._thresholds)

    def to_json(self) -> dict[str, Any]:
        return self.gathered().to_json()

    def gathered(self) -> Gathered:
        found = Gathered({}, {}, {}, {})
        for stream in self._streams.values():
            part = stream.gathered(self._thresholds)
            stream.remember(self._hints)
            found = Gathered(*({**a, **b} for a, b in zip(vars(found).values(), vars(part).values(), strict=True)))
        self._hints.update({domain: threshold / ALL for domain, threshold in self._thresholds.items()})
        return found


class _Table:
    """A sample that grows: pieces are put together when they are many, or at the end; what was taken before the threshold fell is left out
    then."""

    def __init__(self, start: Sample, key: Key | None, number: int) -> None:
        self.held, self.key, self.number = start, key, number
        self.threshold, self.share = start.threshold, start.share
        self.pieces: list[tuple[list[Hashes], NDArray[np.uint16]]] = []
        self.rows = 0

    def add(self, hashes: list[Hashes], bits: NDArray[np.uint16]) -> None:
        self.pieces.append((hashes, bits))
        self.rows += len(bits)
        if self.rows > 2 * ROWS:
            self.held = self.settled().shrunk(ROWS, KEYS)
            self.threshold, self.share, self.rows, self.pieces = self.held.threshold, self.held.share, self.held.rows, []

    def limit(self, share: float) -> None:
        if share < self.share:
            self.held, self.pieces, self.share = self.settled().thinned(share), [], share
            self.rows = self.held.rows

    def settled(self) -> Sample:
        held = self.held.lowered(self.threshold)
        columns = [np.concatenate([held.hashes[:, c], *(hashes[c] for hashes, _ in self.pieces)]) for c in range(len(held.keys))]
        matrix = np.column_stack(columns) if columns else np.empty((len(held.bits) + sum(len(b) for _, b in self.pieces), 0), np.uint32)
        whole = replace(held, hashes=matrix, bits=np.concatenate([held.bits, *(bits for _, bits in self.pieces)]))
        return replace(whole, threshold=ALL).lowered(self.threshold) if self.key is not None else whole


class _Stream:
    def __init__(self, name: str, wanted: OfStream, timezone: str, stride: int) -> None:
        self.name, self.keys, self.predicates, self.timezone, self.stride = name, wanted.keys, wanted.predicates, timezone, stride
        self.counted, self.looked, self.seed, self.piece = Counted(), 0, 0, PIECE
        self.histograms = {str(key): np.zeros(BUCKETS, np.int64) for key in self.keys}
        self.passes = {str(predicate): (0.0, 0.0) for predicate in self.predicates}
        layout = tuple(map(str, self.keys)), tuple(map(str, self.predicates))
        self.samples = [_Table(empty(*layout, str(key)), key, number) for number, key in enumerate(self.keys)]
        if self.predicates or len(self.keys) > 1:
            self.samples.append(_Table(empty(*layout, None), None, -1))

    def hint(self, hints: Mapping[str, float]) -> None:
        for table in self.samples:
            share = hints.get(f"{self.name} {table.key}")
            self.piece = PIECE if share is None else ALL
            if share is not None:
                table.limit(min(1.0, MORE * share))

    def remember(self, hints: dict[str, float]) -> None:
        if self.looked:
            hints.update({f"{self.name} {table.key}": table.share for table in self.samples})

    def add(self, block: Rows, thresholds: dict[str, int]) -> None:
        stride = self.stride << min(20, self.looked // FULL)
        columns = block.columns
        tau = columns.get(TAU)
        spans = () if tau is None else spans_of(tau.to_numpy())
        rows = block.rows
        if stride > 1:
            index = pa.array(np.arange(self.seed % min(stride, rows), rows, stride, dtype=np.int32))
            rows = len(index)
            names = {f"{self.name}.{key.column}" for key in self.keys}
            names |= {f"{self.name}.{c.column}" for predicate in self.predicates for c in columns_of(predicate)}
            columns = {name: columns[name].take(index) for name in names if name in columns}
        weight = block.rows / rows
        self.counted = self.counted.plus(Counted(block.rows, block.rows * (weight - 1), spans))
        hashes = [self._count(columns, rows, key, max(1, round(weight))) for key in self.keys]
        self._pass(columns, rows, stride)
        start = 0
        while start < rows and self.samples:
            # in growing pieces: the first rows tell how few of the next ones are needed
            end = min(rows, start + max(self.piece, 7 * (self.looked + start)))
            self._sample(columns, hashes, start, end, weight, thresholds)
            start = end
        self.looked += rows
        self.seed += rows

    def _count(self, columns: Mapping[str, pa.Array], rows: int, key: Key, weight: int) -> Hashes:
        column = columns.get(f"{self.name}.{key.column}")
        if column is None:
            return np.zeros(rows, np.uint32)
        words = key_words([column], [key.type], self.timezone)
        return count_keys(words.words, words.valid, weight, self.histograms[str(key)])

    def _pass(self, columns: Mapping[str, pa.Array], rows: int, stride: int) -> None:
        """Counts are per tuple of the stream, whatever part is looked at."""
        step = max(1, rows // LOOKED)
        index = np.arange(0, rows, step, dtype=np.int32)
        for predicate in self.predicates:
            flags = self._holds(predicate, columns, index if step > 1 else None, rows)
            if flags is not None:
                passed, looked = self.passes[str(predicate)]
                self.passes[str(predicate)] = passed + stride * step * int(flags.sum()), looked + stride * step * len(flags)

    def _sample(
        self, columns: Mapping[str, pa.Array], hashes: list[Hashes], start: int, end: int, weight: float, thresholds: dict[str, int]
    ) -> None:
        """The rows from `start` to `end`; `weight`: each stands for so many tuples."""
        picked = []
        for number, table in enumerate(self.samples):
            table.limit(1 / weight)  # where tuples are skipped, what is looked at is a share already
            share, seed = table.share * weight, (self.seed + start) * 0x9E3779B1 + number
            if table.key is None:
                rows = _some(end - start, share, seed)
            else:
                table.threshold = min(table.threshold, thresholds[table.key.domain])
                rows = pick(hashes[table.number][start:end], table.threshold, share, seed)
            picked.append(rows + start if start else rows)
        union = np.unique(np.concatenate(picked)) if self.predicates else _NONE
        bits = np.zeros(len(union), np.uint16)
        for number, predicate in enumerate(self.predicates):
            flags = self._holds(predicate, columns, union, end - start) if len(union) else None
            if flags is not None:
                bits |= flags.astype(np.uint16) << np.uint16(number)
        for table, rows in zip(self.samples, picked, strict=True):
            passed = bits[np.searchsorted(union, rows)] if self.predicates else np.zeros(len(rows), np.uint16)
            table.add([one[rows] for one in hashes], passed)
            if table.key is not None:
                thresholds[table.key.domain] = min(thresholds[table.key.domain], table.threshold)

    def _holds(
        self, predicate: Expr, columns: Mapping[str, pa.Array], rows: NDArray[np.int32] | None, total: int
    ) -> NDArray[np.bool_] | None:
        """None where it cannot be said: a column is not read, or a row raises that another predicate would have kept from it."""
        index = None if rows is None else pa.array(rows)

        def column(col: Col) -> pa.Array:
            whole = columns[f"{self.name}.{col.column}"]
            return whole if index is None else whole.take(index)

        try:
            return holds([predicate], column, total if rows is None else len(rows), self.timezone)
        except (KeyError, DataError):
            return None

    def gathered(self, thresholds: Mapping[str, int]) -> Gathered:
        samples = {}
        for table in self.samples:
            sample = replace(table.settled(), seen=self.counted.rows)
            lowered = sample if table.key is None else sample.lowered(thresholds[table.key.domain])
            samples[self.name, sample.on] = lowered.shrunk(ROWS, KEYS) if lowered.rows > ROWS * MORE else lowered
        return Gathered(
            {self.name: self.counted} if self.counted.rows else {},
            {(self.name, key): counts for key, counts in self.histograms.items() if self.counted.rows},
            {(self.name, text): passes for text, passes in self.passes.items() if passes[1]},
            samples if self.counted.rows else {},
        )


def _some(rows: int, share: float, seed: int) -> NDArray[np.int32]:
    """A random share of so many rows."""
    if share >= 1:
        return np.arange(rows, dtype=np.int32)
    rng = np.random.default_rng(seed)
    if share > 0.1:
        return np.flatnonzero(rng.random(rows) < share).astype(np.int32)
    return np.sort(rng.integers(0, rows, rng.binomial(rows, share), np.int32))  # one row twice is rare, and does no harm
