"""The history of a checkpoint: generations that have ended, in a bounded number of small files.

Invariant: the files cover the generations 0 to `last` without a gap, each named by its range; one whose range lies inside another's is left
over from a process that was killed while it merged files, and does not count. A file never changes under its name, and a
generation in it never changes.

Every generation is added when it has ended. The last file is written again with it until it has a block of generations; a number of files
of one size are merged into one, without unpacking their blocks. So a generation is written about as often as a block is long, and
then once per order of magnitude of the history. A start lists the files and reads none of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from clash.codec import Codec
from clash.coordinator.checkpoint.generation_outline import EndedGeneration
from clash.coordinator.checkpoint.history_block import EndedQuery, HistoryBlock, pack, unpack_generations, unpack_queries
from clash.coordinator.control.setup import LiveQuery
from clash.errors import StateError
from clash.state.json_records import RESTORE, read_record, write_record
from clash.state.storage import Storage

FOLDER = "generations/history"
_BLOCK = 64  # generations
_MERGED = 16  # files of one size
_NAME = re.compile(r"(\d+)-(\d+)\.json")
_BLOCKS: Codec[tuple[HistoryBlock, ...]] = Codec(tuple[HistoryBlock, ...], compact=True)


class _Segment(NamedTuple):
    """A file of the history, by the generations in it."""

    first: int
    last: int

    @property
    def path(self) -> str:
        return f"{FOLDER}/{self.first:06d}-{self.last:06d}.json"

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class GenerationHistory:
    """Not safe for concurrent use: the log of generations, which is, is its only user."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._segments, self.covered = _arrange(storage)  # the latter do not count: the caller deletes them when it may
        self._open: tuple[list[EndedGeneration], list[EndedQuery]] | None = None  # the last block while it is short; None until it is read
        self._first_by_name: dict[str, int] | None = None  # the first generation of the last block with the name; None until it is needed

    @property
    def last(self) -> int:
        """The last generation in it, -1 before the first."""
        return self._segments[-1].last if self._segments else -1

    def append(self, generations: Sequence[EndedGeneration], queries: Sequence[tuple[int, LiveQuery]]) -> None:
        """Adds the generations after the last one. `queries`: those that ended, each with its last generation."""
        while generations:
            kept, former = self._open_block()
            added, generations = generations[: _BLOCK - len(kept)], generations[_BLOCK - len(kept) :]
            now = [*kept, *added]
            first, last = added[0].outline.generation, added[-1].outline.generation
            ended = [*former, *(EndedQuery.of(query) for number, query in queries if first <= number <= last)]
            block = pack(now, ended)
            self._open, names, self._first_by_name = None, self._first_by_name, None  # read again if this fails
            self._replace(self._segments[-1:] if kept else [], (block,))
            self._open = ([], []) if len(now) == _BLOCK else (now, ended)
            if names is not None:
                names.update(dict.fromkeys(block.names, block.first))
                self._first_by_name = names
            self._merge()

    def blocks(self) -> list[HistoryBlock]:
        """All generations, oldest first, packed."""
        return [block for segment in self._segments for block in self._read(segment)]

    def unpack(self, blocks: Iterable[HistoryBlock]) -> Iterator[EndedGeneration]:
        for block in blocks:
            with self._refusing(block):
                generations = unpack_generations(block)
            yield from generations

    def query(self, name: str) -> LiveQuery | None:
        """The query of that name that ended last."""
        if self._first_by_name is None:
            self._first_by_name = {name: block.first for block in self.blocks() for name in block.names}
        first = self._first_by_name.get(name)
        if first is None:
            return None
        segment = next(segment for segment in self._segments if segment.first <= first <= segment.last)
        block = next(block for block in self._read(segment) if block.first == first)
        with self._refusing(block):
            ended = {query.name: query for query in unpack_queries(block)}  # of one name the last
            if name not in ended:
                raise ValueError(f"query {name} is missing")
            return ended[name].decode()

    def _open_block(self) -> tuple[list[EndedGeneration], list[EndedQuery]]:
        if self._open is None:
            last = self._segments[-1] if self._segments else None
            if last is None or last.size % _BLOCK == 0:
                self._open = [], []
            else:
                (block,) = self._read(last)
                with self._refusing(block):
                    self._open = unpack_generations(block), unpack_queries(block)
        return self._open

    def _merge(self) -> None:
        """Merges the last files while enough of them have one size: there are a few of each size, and sizes are powers."""
        while len(last := self._segments[-_MERGED:]) == _MERGED and len({segment.size for segment in last}) == 1 and last[0].size >= _BLOCK:
            self._replace(last, tuple(block for segment in last for block in self._read(segment)))

    def _replace(self, replaced: Sequence[_Segment], blocks: tuple[HistoryBlock, ...]) -> None:
        """Writes the blocks in the place of the last files."""
        segment = _Segment(blocks[0].first, blocks[-1].last)
        write_record(self.storage, segment.path, _BLOCKS, blocks)
        self._segments = [*self._segments[: len(self._segments) - len(replaced)], segment]
        self.storage.delete([each.path for each in replaced])

    def _read(self, segment: _Segment) -> tuple[HistoryBlock, ...]:
        blocks = read_record(self.storage, segment.path, _BLOCKS)
        firsts = [segment.first, *(block.last + 1 for block in blocks)]
        if [block.first for block in blocks] != firsts[:-1] or firsts[-1] != segment.last + 1:
            raise StateError(
                "a record is corrupt", f"{self.storage.label(segment.path)}: it has other generations than its name says", RESTORE
            )
        return blocks

    @contextmanager
    def _refusing(self, block: HistoryBlock) -> Iterator[None]:
        """Names the damaged block."""
        try:
            yield
        except ValueError as error:
            place = f"{self.storage.label(FOLDER)}: generations {block.first} to {block.last}: {error}"
            raise StateError("a record is corrupt", place, RESTORE) from error


def _arrange(storage: Storage) -> tuple[list[_Segment], list[str]]:
    """The files that count, in order, and the paths of those that lie inside others."""
    names = [match for name in storage.list(FOLDER) if (match := _NAME.fullmatch(name))]
    found = sorted((_Segment(int(match[1]), int(match[2])) for match in names), key=lambda segment: (segment.first, -segment.last))
    segments: list[_Segment] = []
    covered: list[str] = []
    for segment in found:
        last = segments[-1].last if segments else -1
        if segment.last <= last:
            covered.append(segment.path)
        elif segment.first == last + 1:
            segments.append(segment)
        else:
            raise StateError("a record is missing", f"{storage.label(FOLDER)}: generation {last + 1}", RESTORE)
    return segments, covered
