"""The generations of a checkpoint, and what they cost.

Invariant: a generation is written before the batch that begins it is recorded; one whose batch was never recorded is left over from a
process that was killed in between: the next start deletes it, and its number is used again. One that has ended is added to the history,
which says what ran when, and why; its record stays only as long as stored rows were laid out under it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise
from threading import RLock
from typing import Any

from clash.codec import Codec
from clash.coordinator.adaptive.generation_cost import GenerationCost
from clash.coordinator.checkpoint.generation import GENERATION, Generation, to_record
from clash.coordinator.checkpoint.generation_history import GenerationHistory
from clash.coordinator.checkpoint.generation_outline import OUTLINE, EndedGeneration, GenerationOutline, MeasuredCost, outline_of
from clash.coordinator.control.setup import LiveQuery
from clash.errors import StateError
from clash.state.json_records import RESTORE, decode_record, read_json, read_record, record_numbers, write_json
from clash.state.storage import Storage

FOLDER = "generations"
_COST: Codec[GenerationCost] = Codec(GenerationCost)


class GenerationLog:
    """Calls look up names and list generations while batches begin and end them."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.history = GenerationHistory(storage)
        self._lock = RLock()
        self._on_disk = set(record_numbers(storage, FOLDER))
        self._cached: dict[int, Generation] = {}
        self._outlines: dict[int, GenerationOutline] = {}  # of the generations after the history
        self._names: dict[str, int] | None = None  # by query, the last of these generations that had it; None until it is needed

    def read(self, number: int) -> Generation:
        with self._lock:
            if number not in self._cached:
                path = generation_path(number)
                generation = read_record(self.storage, path, GENERATION)
                if generation.number != number:
                    detail = f"{self.storage.label(path)}: it is of generation {generation.number}"
                    raise StateError("a record is not the one that its name says", detail, RESTORE)
                self._cached[number] = generation
            return self._cached[number]

    def hold(self, generation: Generation) -> None:
        """Keeps a generation in memory that is written later."""
        self._cached[generation.number] = generation

    def numbers(self) -> list[int]:
        """The generations that are on disk, in order."""
        return sorted(self._on_disk)

    def write(self, generation: Generation) -> None:
        outline = outline_of(generation)
        data = {**GENERATION.encode(to_record(generation)), "outline": OUTLINE.encode(outline)}  # readable without the rest
        write_json(self.storage, generation_path(generation.number), data)
        with self._lock:
            self._on_disk.add(generation.number)
            self._cached[generation.number], self._outlines[generation.number] = generation, outline
            self._names = None  # it may take the place of another: of its number, or of its first batch

    def files_after(self, number: int) -> list[str]:
        """The files of generations after one, which no batch ran under, and which the caller deletes."""
        with self._lock:
            self._on_disk = {found for found in self._on_disk if found <= number}
        return [generation_path(found) for found in record_numbers(self.storage, FOLDER) if found > number]

    def check(self, committed: int) -> None:
        """StateError unless the history ends before the generation of the last committed batch, and all after it are there."""
        if self.history.last >= committed:
            raise StateError(
                "parts of the checkpoint are from different times",
                f"{self.storage.label('manifests')}: the last batch is of generation {committed}, "
                f"but generation {self.history.last} has ended: a manifest is missing, or older than the rest",
                RESTORE,
            )
        missing = [number for number in range(self.history.last + 1, committed + 1) if number not in self._on_disk]
        if missing and (self._on_disk or self.history.last >= 0):  # a new checkpoint has none yet
            place = f"neither in {self.storage.label(FOLDER)} nor in the history below it"
            raise StateError("a record is missing", f"generation {missing[0]} is {place}", RESTORE)

    def compact(self, committed: int, costs: Mapping[int, GenerationCost], live: Collection[int]) -> list[str]:
        """Adds the generations before the one of the last committed batch to the history, and returns the paths that are obsolete then.

        `costs`: those that the manifest has. `live`: the generations whose records are still needed."""
        with self._lock:
            ended = range(self.history.last + 1, committed)
            if ended:
                generations = [EndedGeneration(self._outline(number), MeasuredCost.of(self._cost(number, costs))) for number in ended]
                self.history.append(generations, self._ended_queries(committed))
                self._outlines = {number: outline for number, outline in self._outlines.items() if number >= committed}
                self._names = None
            needed = {*live, *range(committed, max(self._on_disk) + 1)}
            obsolete, self._on_disk = self._on_disk - needed, self._on_disk & needed
            self._cached = {number: generation for number, generation in self._cached.items() if number in needed}
            covered, self.history.covered = self.history.covered, []
        return [*covered, *(path for number in sorted(obsolete) for path in (generation_path(number), _cost_path(number)))]

    def last_query(self, name: str) -> LiveQuery | None:
        """The query that had this name last, live or not; not one whose only batch was decided again without it."""
        with self._lock:
            if self._names is None:
                self._names = {query: number for number in self._effective() for query in self._outline(number).queries}
            number_of_last = self._names.get(name)
            if number_of_last is None:
                return self.history.query(name)
            cached = self._cached.get(number_of_last)
            return (cached or read_record(self.storage, generation_path(number_of_last), GENERATION)).setup.query(name)

    def outlines(self, costs: Mapping[int, GenerationCost], last: int) -> list[dict[str, Any]]:
        """Every generation up to `last`, oldest first, for users; costs are microseconds of all tasks per tuple."""
        with self._lock:
            blocks, after = self.history.blocks(), range(self.history.last + 1, last + 1)
            current = [EndedGeneration(self._outline(number), MeasuredCost.of(self._cost(number, costs))) for number in after]
        listed: list[dict[str, Any]] = []
        before = MeasuredCost()
        for generation in (*self.history.unpack(blocks), *current):
            listed.append(generation.shown(before))
            before = generation.cost if generation.cost.batches else before
        return listed

    def _ended_queries(self, committed: int) -> list[tuple[int, LiveQuery]]:
        """The queries that end with a generation before the committed one, each with that generation."""
        effective = [number for number in self._effective() if number <= committed]
        ended = []
        for number, following in pairwise(effective):
            names = {*self._outline(number).queries}.difference(self._outline(following).queries)
            if names:
                queries = (self._cached.get(number) or read_record(self.storage, generation_path(number), GENERATION)).setup.queries
                ended += [(number, query) for query in queries if query.name in names]
        return ended

    def _effective(self) -> list[int]:
        """The generations after the history, of those that begin with one batch the last."""
        numbers = sorted(number for number in self._on_disk if number > self.history.last)
        return sorted({self._outline(number).batch: number for number in numbers}.values())

    def _outline(self, number: int) -> GenerationOutline:
        if number not in self._outlines:
            path = generation_path(number)
            data = read_json(self.storage, path)
            outline = data.get("outline") if isinstance(data, dict) else None
            self._outlines[number] = decode_record(self.storage, path, OUTLINE, outline)
        return self._outlines[number]

    def _cost(self, number: int, costs: Mapping[int, GenerationCost]) -> GenerationCost:
        """Earlier versions wrote a file with the cost of each generation."""
        if number in costs:
            return costs[number]
        path = _cost_path(number)
        return read_record(self.storage, path, _COST) if self.storage.exists(path) else GenerationCost()


def generation_path(number: int) -> str:
    return f"{FOLDER}/{number:06d}.json"


def _cost_path(number: int) -> str:
    return f"{FOLDER}/{number:06d}.cost.json"
