"""The generations that a checkpoint remembers, and what they cost.

Invariant: a generation's record is written before the batch that starts it is recorded; one that no batch ran under is rubbish of a
process that was killed in between, and its number is used again. Records stay: they say what ran when, and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Any

from clash.coordinator.checkpoint.generation import FOLDER, Generation, generation_path
from clash.coordinator.adaptive.generation_cost import Measured, micros
from clash.coordinator.control.setup import Live
from clash.model.query import Query
from clash.state.json_records import read_json, write_json
from clash.state.storage import Storage
from clash.plan.json_codecs import query_from_json


class History:
    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._read: dict[int, Generation] = {}
        self._told: dict[int, dict[str, Any]] = {}
        self._names: dict[str, int] | None = None
        self._naming = Lock()  # calls and borders may ask for names

    def read(self, number: int) -> Generation:
        if number not in self._read:
            self._read[number] = Generation.from_json(read_json(self.storage, generation_path(number)))
        return self._read[number]

    def write(self, generation: Generation) -> None:
        write_json(self.storage, generation_path(generation.number), generation.to_json())
        self._read[generation.number] = generation
        self._told.pop(generation.number, None)
        with self._naming:
            if self._names is not None and generation.number in self._names.values():
                self._names = None  # its number was used before, by one that no batch ran under
            elif self._names is not None:
                self._names |= dict.fromkeys(generation.setup.names, generation.number)

    def keep(self, live: set[int]) -> None:
        """Forgets, in memory, what no live container belongs to."""
        self._read = {number: generation for number, generation in self._read.items() if number in live}

    def drop_after(self, number: int) -> None:
        gone = [f"{FOLDER}/{name}" for name in self.storage.list(FOLDER) if _number(name) > number]
        self.storage.delete(gone)

    def write_measured(self, number: int, sums: Measured) -> None:
        """What a generation has cost, when it is over."""
        if not self.storage.exists(_measured(number)):
            write_json(self.storage, _measured(number), [*sums])

    def last_of(self, query: str) -> tuple[Live, Query] | None:
        """The query that had this name last, live or not."""
        with self._naming:
            if self._names is None:
                found: dict[str, int] = {}
                for number in sorted(map(_number, self._records())):
                    data = read_json(self.storage, generation_path(number))
                    found |= {live["asked"]["name"]: number for live in data["setup"]["queries"]}
                self._names = found
            if query not in self._names:
                return None
            data = read_json(self.storage, generation_path(self._names[query]))
        live = next(Live.from_json(q) for q in data["setup"]["queries"] if q["asked"]["name"] == query)
        return live, next(query_from_json(q) for q in data["plan"]["queries"] if q["name"] == query)

    def told(self, measured: Mapping[int, Measured], last: int) -> list[dict[str, Any]]:
        """Every generation up to `last`, oldest first; costs are µs of all tasks per tuple."""
        found: list[dict[str, Any]] = []
        before = Measured()
        for number in range(last + 1):
            if number not in self._told:
                self._told[number] = _brief(read_json(self.storage, generation_path(number)))
            sums = measured.get(number) or self._measured(number)
            costs = {"batches": sums.batches, "measured_before": micros(before.recent), "measured": sums.micros}
            found.append({**self._told[number], **costs})
            before = sums if sums.batches else before
        return found

    def _measured(self, number: int) -> Measured:
        path = _measured(number)
        return Measured.from_json(read_json(self.storage, path)) if self.storage.exists(path) else Measured()

    def _records(self) -> Iterator[str]:
        return (name for name in self.storage.list(FOLDER) if name.endswith(".json") and ".measured." not in name)


def _brief(data: Mapping[str, Any]) -> dict[str, Any]:
    old, new = data["predicted"] or (None, None)
    return {
        "generation": data["number"],
        "batch": data["batch"],
        "reason": data["reason"],
        "queries": [query["asked"]["name"] for query in data["setup"]["queries"]],
        "workers": data["setup"]["workers"],
        "stores": len(data["plan"]["stores"]),
        "cost": data["plan"]["cost"],
        "predicted_old": old,
        "predicted_new": new,
    }


def _measured(number: int) -> str:
    return generation_path(number).replace(".json", ".measured.json")


def _number(name: str) -> int:
    return int(name.partition(".")[0])
