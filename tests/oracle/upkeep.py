"""State holds nothing that no live query can use: looked at after every batch, and more closely when windows have passed."""

from __future__ import annotations

from collections.abc import Iterator

from clash.coordinator.coordinator import Coordinator
from clash.coordinator.lifecycle.split_points import remaining_rows
from clash.protocol.tables import FOLDER, paths_of


class Upkeep:
    """`old`: rows in layouts of earlier generations, after each quiet batch so far. Not `swept`: an attempt failed in a process that went
    on; what it left is swept at the next start."""

    def __init__(self) -> None:
        self.old: list[float] = []
        self.swept = True

    def look(self, driver: Coordinator, quiet: bool) -> Iterator[str]:
        records, stores, laid = driver.manifest.containers, driver.loaded_plan.topology.store, driver.generation.stores.layouts
        for record in records:
            if record.store not in stores:
                yield f"{record.path} is of a store that is not there"
            begun = driver.generation.stores.introduced.get(record.store)
            if begun is not None and record.generation < begun.generation:
                yield f"{record.path} is from before its store was introduced"
        files = {f"state/{name}" for name in driver.storage.list("state", recursive=True)}
        if self.swept and files != {record.path for record in records}:
            yield f"files that are not listed, or listed and not there: {sorted(files ^ {record.path for record in records})}"
        tables = {f"{FOLDER}/{name}" for name in driver.storage.list(FOLDER, recursive=True)}
        if self.swept and tables != paths_of(driver.manifest.tables):
            yield f"files of tables that are not listed, or listed and not there: {sorted(tables ^ paths_of(driver.manifest.tables))}"
        if self.swept and len(driver.storage.list("plans")) > 2:
            yield f"{len(driver.storage.list('plans'))} topologies"
        self.old.append(sum(remaining_rows(r) for r in records if r.generation != laid[r.store].generation))
        if not quiet:
            self.old = []
        elif len(self.old) > 4 + int(driver.job.epoch) - 3 and self.old[-1] and self.old[-1] >= self.old[-2]:
            yield f"rows in old layouts do not get fewer: {self.old}"
