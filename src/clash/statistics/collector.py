"""Collects statistics of the tuples that an ingest task admits.

Cost: per join key and tuple a hash and an increment, per sample a compare; predicates are evaluated on a bounded part of each block and on
the sampled rows. A task reads every tuple up to `FULL_ROWS` of a stream and fewer and fewer beyond, so very large batches cost little more
than large ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clash.columnar.block import Block
from clash.columnar.key_words import key_words
from clash.errors import DataError
from clash.expressions import holds
from clash.model.block_columns import EVENT_TIME
from clash.model.expressions import Col, Expr
from clash.model.expressions import columns as columns_of
from clash.plan.collection_spec import CollectionSpec, Key, StreamSpec
from clash.statistics.collected import Collected, PredicateCounts, StreamCounts
from clash.statistics.frequent_keys import FrequentKeys, merge_frequent
from clash.statistics.frequent_keys import count_keys as count_frequent
from clash.statistics.kernels import BUCKETS, MAX_THRESHOLD, Hashes, choose_rows, count_keys
from clash.statistics.sample import PredicateBits, Sample, SampleLayout, empty_sample
from clash.statistics.time_spans import spans_of

SAMPLE_ROWS = 256  # of a task's sample, about
SAMPLE_KEYS = 96  # keys of a task's sample that are not given up to have fewer rows
SLACK = (
    1.3  # a sample may exceed its size by this factor; a task starts at this multiple of a hint, as it may see fewer tuples than the last
)
FIRST_CHUNK = 2048  # rows that are sampled before threshold and share are adjusted for the first time
FULL_ROWS = 1 << 15  # tuples of a stream that a task reads before it begins to skip some
PREDICATE_ROWS = 2048  # rows of a block on which predicates are evaluated, about
FREQUENT_ROWS = 1024  # rows of a block in which frequent keys are counted, about

Columns = Mapping[str, pa.Array]
_NO_ROWS = np.empty(0, np.int32)


class Collector:
    """Statistics of one task."""

    def __init__(self, spec: CollectionSpec, timezone: str, share: float = 1.0, hints: dict[str, float] | None = None) -> None:
        """At most `share` of the tuples are read.

        `hints` are the thresholds and shares at which the samples of earlier tasks of this process came out: a cache that the caller owns
        and passes to one task after the other, so that a task need not find them out again. They change how long collecting takes and
        which tuples are sampled, nothing else.
        """
        self._hints = {} if hints is None else hints
        self._streams = {name: _StreamCollector(name, of, timezone, max(1, round(1 / share))) for name, of in spec.streams.items()}
        domains = {key.domain for of in spec.streams.values() for key in of.keys}
        self._thresholds = {domain: int(min(1.0, SLACK * self._hints.get(domain, 1.0)) * MAX_THRESHOLD) for domain in domains}
        for stream in self._streams.values():
            stream.apply_hints(self._hints)

    def add(self, stream: str, block: Block) -> None:
        """Tuples of a stream that are not late. Columns are named `stream.column`, event times `EVENT_TIME`."""
        if block.rows:
            self._streams.setdefault(stream, _StreamCollector(stream, StreamSpec(), "UTC", 1)).add(block, self._thresholds)

    def collected(self) -> Collected:
        """Statistics of the tuples so far; leaves hints for the next task."""
        parts = []
        for stream in self._streams.values():
            parts.append(stream.collected(self._thresholds))
            stream.leave_hints(self._hints)
        self._hints.update({domain: threshold / MAX_THRESHOLD for domain, threshold in self._thresholds.items()})
        return Collected(
            {name: counts for part in parts for name, counts in part.streams.items()},
            {key: counts for part in parts for key, counts in part.histograms.items()},
            {key: counts for part in parts for key, counts in part.passes.items()},
            {key: sample for part in parts for key, sample in part.samples.items()},
            {key: keys for part in parts for key, keys in part.frequent.items()},
        )


class _SampleBuilder:
    """A sample that grows.

    Chosen rows are buffered and merged into the sample when they are many, and at the end. The threshold may have been lowered since rows
    were chosen; merging removes those that it excludes.
    """

    def __init__(self, start: Sample, key: Key | None, key_number: int) -> None:
        self.sample, self.key, self.key_number = start, key, key_number
        self.threshold, self.share = start.threshold, start.share
        self.buffered: list[tuple[list[Hashes], PredicateBits]] = []
        self.rows = 0

    def add(self, hashes: list[Hashes], bits: PredicateBits) -> None:
        self.buffered.append((hashes, bits))
        self.rows += len(bits)
        if self.rows > 2 * SAMPLE_ROWS:
            self.sample = self.merged().shrunk(SAMPLE_ROWS, SAMPLE_KEYS)
            self.threshold, self.share, self.rows, self.buffered = self.sample.threshold, self.sample.share, self.sample.rows, []

    def limit_share(self, share: float) -> None:
        if share < self.share:
            self.sample, self.buffered, self.share = self.merged().thinned(share), [], share
            self.rows = self.sample.rows

    def merged(self) -> Sample:
        """The sample with the buffered rows, under the current threshold."""
        sample = self.sample.lowered(self.threshold)
        keys = range(len(sample.layout.keys))
        columns = [np.concatenate([sample.hashes[:, k], *(hashes[k] for hashes, _ in self.buffered)]) for k in keys]
        bits = np.concatenate([sample.bits, *(bits for _, bits in self.buffered)])
        merged = replace(sample, hashes=np.column_stack(columns) if columns else np.empty((len(bits), 0), np.uint32), bits=bits)
        return replace(merged, threshold=MAX_THRESHOLD).lowered(self.threshold) if self.key is not None else merged


class _StreamCollector:
    """Statistics of one stream. `stride`: one of so many tuples is read from the start."""

    def __init__(self, name: str, spec: StreamSpec, timezone: str, stride: int) -> None:
        self.name, self.keys, self.predicates, self.timezone, self.stride = name, spec.keys, spec.predicates, timezone, stride
        self.counts, self.rows_read, self.first_chunk = StreamCounts(), 0, FIRST_CHUNK
        self.histograms = {str(key): np.zeros(BUCKETS, np.int64) for key in self.keys}
        self.passes = {str(predicate): PredicateCounts() for predicate in self.predicates}
        self.frequent: dict[str, FrequentKeys] = {}
        layout = SampleLayout(tuple(map(str, self.keys)), tuple(map(str, self.predicates)))
        self.samples = [_SampleBuilder(empty_sample(layout, str(key)), key, number) for number, key in enumerate(self.keys)]
        if self.predicates or len(self.keys) > 1:
            self.samples.append(_SampleBuilder(empty_sample(layout, None), None, -1))

    def apply_hints(self, hints: Mapping[str, float]) -> None:
        shares = [hints.get(self._hint_name(sample)) for sample in self.samples]
        if shares and None not in shares:  # threshold and share are known: there is no need for a small first chunk
            self.first_chunk = MAX_THRESHOLD
        for sample, share in zip(self.samples, shares, strict=True):
            if share is not None:
                sample.limit_share(min(1.0, SLACK * share))

    def leave_hints(self, hints: dict[str, float]) -> None:
        if self.rows_read:
            hints.update({self._hint_name(sample): sample.share for sample in self.samples})

    def _hint_name(self, sample: _SampleBuilder) -> str:
        return f"{self.name} {sample.key}"

    def add(self, block: Block, thresholds: dict[str, int]) -> None:
        """Counts and samples a block; `thresholds`, by domain, are lowered where a sample has grown too large."""
        stride = self.stride << min(20, self.rows_read // FULL_ROWS)
        columns = block.columns
        event_times = columns.get(EVENT_TIME)
        spans = () if event_times is None else spans_of(event_times.to_numpy())
        rows = block.rows
        if stride > 1:
            index = pa.array(np.arange(self.rows_read % min(stride, rows), rows, stride, dtype=np.int32))
            rows = len(index)
            names = {f"{self.name}.{key.column}" for key in self.keys}
            names |= {f"{self.name}.{c.column}" for predicate in self.predicates for c in columns_of(predicate)}
            columns = {name: columns[name].take(index) for name in names if name in columns}
        weight = block.rows / rows
        self.counts = self.counts.plus(StreamCounts(block.rows, block.rows * (weight - 1), spans))
        hashes = [self._count_keys(columns, rows, key, max(1, round(weight))) for key in self.keys]
        self._count_passes(columns, rows, stride)
        self._count_frequent(columns, rows, block.rows)
        start = 0
        while start < rows and self.samples:
            # chunks grow: the first rows show how few of the next ones are needed
            end = min(rows, start + max(self.first_chunk, 7 * (self.rows_read + start)))
            self._sample(columns, hashes, start, end, weight, thresholds)
            start = end
        self.rows_read += rows

    def _count_keys(self, columns: Columns, rows: int, key: Key, weight: int) -> Hashes:
        column = columns.get(f"{self.name}.{key.column}")
        if column is None:
            return np.zeros(rows, np.uint32)
        words = key_words([column], [key.type], self.timezone)
        return count_keys(words.words, words.valid, weight, self.histograms[str(key)])

    def _count_frequent(self, columns: Columns, rows: int, whole: int) -> None:
        """Of the `rows` that are read, which stand for the `whole` block, a bounded part."""
        step = max(1, rows // FREQUENT_ROWS)
        for key in self.keys:
            column = columns.get(f"{self.name}.{key.column}")
            if column is not None:
                part = column if step == 1 else column.take(pa.array(np.arange(0, rows, step, dtype=np.int32)))
                found = count_frequent(part, whole, self.timezone)
                self.frequent[key.column] = merge_frequent((self.frequent.get(key.column, FrequentKeys()), found))

    def _count_passes(self, columns: Columns, rows: int, stride: int) -> None:
        """Counts are scaled to the tuples of the stream, whichever part is read."""
        step = max(1, rows // PREDICATE_ROWS)
        index = np.arange(0, rows, step, dtype=np.int32)
        for predicate in self.predicates:
            flags = self._holds(predicate, columns, index if step > 1 else None, rows)
            if flags is not None:
                scale, text = stride * step, str(predicate)
                self.passes[text] = self.passes[text].plus(PredicateCounts(scale * int(flags.sum()), scale * len(flags)))

    def _sample(self, columns: Columns, hashes: list[Hashes], start: int, end: int, weight: float, thresholds: dict[str, int]) -> None:
        """Samples the rows from `start` to `end`, each of which stands for `weight` tuples."""
        chosen = []
        for number, sample in enumerate(self.samples):
            sample.limit_share(1 / weight)  # where tuples are skipped, those that are read are a share already
            share, seed = sample.share * weight, (self.rows_read + start) * 0x9E3779B1 + number
            if sample.key is None:
                rows = _random_rows(end - start, share, seed)
            else:
                sample.threshold = min(sample.threshold, thresholds[sample.key.domain])
                rows = choose_rows(hashes[sample.key_number][start:end], sample.threshold, share, seed)
            chosen.append(rows + start if start else rows)
        union = np.unique(np.concatenate(chosen)) if self.predicates else _NO_ROWS
        bits = np.zeros(len(union), np.uint16)
        for number, predicate in enumerate(self.predicates):
            flags = self._holds(predicate, columns, union, end - start) if len(union) else None
            if flags is not None:
                bits |= flags.astype(np.uint16) << np.uint16(number)
        for sample, rows in zip(self.samples, chosen, strict=True):
            sample_bits = bits[np.searchsorted(union, rows)] if self.predicates else np.zeros(len(rows), np.uint16)
            sample.add([of_key[rows] for of_key in hashes], sample_bits)
            if sample.key is not None:
                thresholds[sample.key.domain] = min(thresholds[sample.key.domain], sample.threshold)

    def _holds(self, predicate: Expr, columns: Columns, rows: NDArray[np.int32] | None, total: int) -> NDArray[np.bool_] | None:
        """For which rows the predicate holds; `rows` None for all `total` rows.

        None where it is unknown: a column is not read, or a row raises an error that another predicate of the query would have excluded.
        """
        index = None if rows is None else pa.array(rows)

        def column(col: Col) -> pa.Array:
            whole = columns[f"{self.name}.{col.column}"]
            return whole if index is None else whole.take(index)

        try:
            return holds([predicate], column, total if rows is None else len(rows), self.timezone)
        except (KeyError, DataError):
            return None

    def collected(self, thresholds: Mapping[str, int]) -> Collected:
        if not self.counts.rows:
            return Collected()
        samples = {}
        for builder in self.samples:
            sample = replace(builder.merged(), seen=self.counts.rows)
            sample = sample if builder.key is None else sample.lowered(thresholds[builder.key.domain])
            samples[self.name, sample.on] = sample.shrunk(SAMPLE_ROWS, SAMPLE_KEYS) if sample.rows > SAMPLE_ROWS * SLACK else sample
        return Collected(
            {self.name: self.counts},
            {(self.name, key): counts for key, counts in self.histograms.items()},
            {(self.name, text): counts for text, counts in self.passes.items() if counts.evaluated},
            samples,
            {(self.name, column): keys for column, keys in self.frequent.items()},
        )


def _random_rows(rows: int, share: float, seed: int) -> NDArray[np.int32]:
    """A random share of so many rows, in order."""
    if share >= 1:
        return np.arange(rows, dtype=np.int32)
    rng = np.random.default_rng(seed)
    if share > 0.1:
        return np.flatnonzero(rng.random(rows) < share).astype(np.int32)
    return np.sort(rng.integers(0, rows, rng.binomial(rows, share), np.int32))  # the same row twice is rare and harmless
