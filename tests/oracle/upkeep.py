"""State holds nothing that no live query can use: looked at after every batch, and more closely when windows have passed."""

from __future__ import annotations

from collections.abc import Iterator

from clash.driver.driver import Driver
from clash.planner.orders import StoreKey
from clash.topology.names import store_id


class Upkeep:
    """`old`: rows in layouts of earlier generations, after each quiet batch so far. Not `swept`: an attempt failed in a process that went
    on; what it left is swept at the next start."""

    def __init__(self) -> None:
        self.old: list[int] = []
        self.swept = True

    def look(self, driver: Driver, quiet: bool) -> Iterator[str]:
        records, stores, laid = driver.manifest.containers, driver.topology.store, driver.generation.laid
        held = {store_id(StoreKey(s.name, None)) for s in driver.generation.setup.streams if s.keep == "all"}
        for record in records:
            if record.store not in stores and record.store not in held:
                yield f"{record.path} is of a store that is not there"
            begun = driver.generation.introduced.get(record.store)
            if begun is not None and record.generation < begun.generation:
                yield f"{record.path} is from before its store was introduced"
        files = {f"state/{name}" for name in driver.storage.list("state", recursive=True)}
        if self.swept and files != {record.path for record in records}:
            yield f"files that are not listed, or listed and not there: {sorted(files ^ {record.path for record in records})}"
        if self.swept and len(driver.storage.list("plans")) > 2:
            yield f"{len(driver.storage.list('plans'))} topologies"
        mine = [record for record in records if record.store in stores]
        self.old.append(sum(record.rows for record in mine if record.generation != laid[record.store].generation))
        if not quiet:
            self.old = []
        elif len(self.old) > 4 + int(driver.job.epoch) - 3 and self.old[-1] and self.old[-1] >= self.old[-2]:
            yield f"rows in old layouts do not get fewer: {self.old}"
