"""The generations of a checkpoint, and what they cost.

Invariant: a generation is written before the batch that begins it is recorded; one whose batch was never recorded is
left over from a process that was killed in between: the next start deletes it, and its number is used again. All others stay: they say what
ran when, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from threading import Lock
from typing import Any

from clash.codec import Codec
from clash.coordinator.adaptive.generation_cost import GenerationCost, micros_per_tuple
from clash.coordinator.checkpoint.generation import GENERATION, Generation, to_record
from clash.coordinator.control.setup import LiveQuery
from clash.state.json_records import read_json, read_record, write_json, write_record
from clash.state.storage import Storage

FOLDER = "generations"
_COST: Codec[GenerationCost] = Codec(GenerationCost)


@dataclass(frozen=True)
class GenerationOutline:
    """What is shown of a generation."""

    generation: int
    batch: int
    reason: str
    queries: list[str]
    workers: int
    stores: int
    cost: float
    predicted_old: float | None
    predicted_new: float | None


_OUTLINE: Codec[GenerationOutline] = Codec(GenerationOutline)


class GenerationLog:
    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._cached: dict[int, Generation] = {}
        self._outlines: dict[int, GenerationOutline] = {}
        self._names: dict[str, int] | None = None  # by query, the last generation that had it; None until it is needed
        self._names_lock = Lock()  # calls and boundaries look up names

    def read(self, number: int) -> Generation:
        if number not in self._cached:
            self._cached[number] = read_record(self.storage, generation_path(number), GENERATION)
        return self._cached[number]

    def hold(self, generation: Generation) -> None:
        """Keeps a generation in memory that is written later."""
        self._cached[generation.number] = generation

    def numbers(self) -> list[int]:
        """The generations that are on disk, in order."""
        return self._recorded()

    def write(self, generation: Generation) -> None:
        outline = outline_of(generation)
        data = {**GENERATION.encode(to_record(generation)), "outline": _OUTLINE.encode(outline)}  # readable without the rest
        write_json(self.storage, generation_path(generation.number), data)
        self._cached[generation.number], self._outlines[generation.number] = generation, outline
        with self._names_lock:
            self._names = None  # it may take the place of another: of its number, or of its first batch

    def forget_except(self, live: set[int]) -> None:
        """Forgets, in memory, the generations to which no live container belongs."""
        self._cached = {number: generation for number, generation in self._cached.items() if number in live}

    def files_after(self, number: int) -> list[str]:
        """The files of generations after one, which no batch ran under."""
        return [f"{FOLDER}/{name}" for name in self.storage.list(FOLDER) if _number(name) > number]

    def write_cost(self, number: int, cost: GenerationCost) -> None:
        """What a generation has cost, when it is over."""
        if not self.storage.exists(_cost_path(number)):
            write_record(self.storage, _cost_path(number), _COST, cost)

    def last_query(self, name: str) -> LiveQuery | None:
        """The query that had this name last, live or not; not one whose only batch was decided again without it."""
        with self._names_lock:
            if self._names is None:
                effective = {self._outline(number).batch: number for number in self._recorded()}  # of one batch the later one counts
                self._names = {query: number for number in sorted(effective.values()) for query in self._outline(number).queries}
            number_of_last = self._names.get(name)
        if number_of_last is None:
            return None
        cached = self._cached.get(number_of_last)
        return (cached or read_record(self.storage, generation_path(number_of_last), GENERATION)).setup.query(name)

    def outlines(self, costs: Mapping[int, GenerationCost], last: int) -> list[dict[str, Any]]:
        """Every generation up to `last`, oldest first, for users; costs are microseconds of all tasks per tuple."""
        listed: list[dict[str, Any]] = []
        before = GenerationCost()
        for number in range(last + 1):
            cost = costs.get(number) or self._read_cost(number)
            measured = {
                "batches": cost.batches,
                "measured_before": micros_per_tuple(before.recent),
                "measured": cost.micros_per_tuple,
            }
            listed.append({**asdict(self._outline(number)), **measured})
            before = cost if cost.batches else before
        return listed

    def _outline(self, number: int) -> GenerationOutline:
        if number not in self._outlines:
            self._outlines[number] = _OUTLINE.decode(read_json(self.storage, generation_path(number))["outline"])
        return self._outlines[number]

    def _read_cost(self, number: int) -> GenerationCost:
        path = _cost_path(number)
        return read_record(self.storage, path, _COST) if self.storage.exists(path) else GenerationCost()

    def _recorded(self) -> list[int]:
        names = [name for name in self.storage.list(FOLDER) if name.endswith(".json") and ".cost." not in name]
        return sorted(map(_number, names))


def outline_of(generation: Generation) -> GenerationOutline:
    old, new = generation.predicted or (None, None)
    return GenerationOutline(
        generation=generation.number,
        batch=generation.batch,
        reason=generation.reason,
        queries=list(generation.setup.query_names),
        workers=generation.setup.workers,
        stores=len(generation.plan.stores),
        cost=generation.plan.cost,
        predicted_old=old,
        predicted_new=new,
    )


def generation_path(number: int) -> str:
    return f"{FOLDER}/{number:06d}.json"


def _cost_path(number: int) -> str:
    return f"{FOLDER}/{number:06d}.cost.json"


def _number(name: str) -> int:
    return int(name.partition(".")[0])
