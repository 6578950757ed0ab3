"""Result files and late rows: where they are, and what becomes of them after a commit.

Invariant: a file is moved to its place only after the manifest that names it is written, and moving it again does no harm. Files that are
handed over to functions stay until the next batch has begun.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from clash.coordinator.checkpoint.manifest import Manifest
from clash.coordinator.control.setup import Live
from clash.state.storage import Storage, open_storage
from clash.workers.result_writer import LATE, STAGING, place, published, staged


class Outputs:
    """`known`: the queries whose results it has met, by name."""

    def __init__(self, uri: str, queries: Iterable[Live]) -> None:
        self.uri = uri
        self.known: Mapping[str, Live] = {}
        self.learn(queries)

    def learn(self, queries: Iterable[Live]) -> None:
        self.known = {**self.known, **{query.name: query for query in queries}}  # anew: others may be looking

    @property
    def sinks(self) -> dict[str, tuple[str, str]]:
        """Per query the storage and the folder in it."""
        return {name: query.place(self.uri) for name, query in self.known.items()}

    def publish(self, manifest: Manifest) -> dict[str, list[str]]:
        """Moves the files to their place, unless they are there already; their full names, by query."""
        results: dict[str, list[str]] = {}
        for file in manifest.files:
            storage, folder = self._place(file["destination"])
            here, there = staged(folder, file["name"]), published(folder, file["name"])
            if storage.exists(here):
                storage.move(here, there)
            elif self._is_handed(file["destination"]) and not storage.exists(there):
                continue  # handed over before
            results.setdefault(file["destination"], []).append(storage.url(there))
        return results

    def handed_over(self, manifest: Manifest) -> None:
        """The functions that wanted them have the batch's results: their files can go."""
        for file in manifest.files:
            if self._is_handed(file["destination"]):
                storage, folder = self._place(file["destination"])
                storage.delete([published(folder, file["name"])])

    def sweep(self, manifest: Manifest, streams: Iterable[str]) -> None:
        """Deletes the files of attempts that failed or were killed."""
        named = {(file["destination"], file["name"]) for file in manifest.files}
        for destination in (*self.known, *(f"{LATE}{stream}" for stream in streams)):
            storage, folder = self._place(destination)
            waiting = storage.list(published(folder, STAGING))
            storage.delete([staged(folder, name) for name in waiting if (destination, name) not in named])
            if self._is_handed(destination):
                over = [name for name in storage.list(folder) if (destination, name) not in named]
                storage.delete([published(folder, name) for name in over])

    def sweep_torn(self) -> None:
        """Deletes what killed writers left half written."""
        for uri, folder in self.sinks.values():
            open_storage(uri).sweep(published(folder, STAGING))

    def _place(self, destination: str) -> tuple[Storage, str]:
        uri, folder = place(self.uri, self.sinks, destination)
        return open_storage(uri), folder

    def _is_handed(self, destination: str) -> bool:
        return destination in self.known and self.known[destination].asked.sink.handed_over
