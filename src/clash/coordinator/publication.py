"""Result files and late rows after the commit of their batch: moved to their place, handed over, swept.

Invariant: a file is moved to its place only after the manifest that lists it is written, and moving it again does no harm. A file that is
neither staged nor published is lost, and never taken as published. Files that are handed over to functions stay until the next batch is
decided. Only files of this checkpoint are swept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from clash.coordinator.checkpoint.manifest import Manifest
from clash.coordinator.control.setup import LiveQuery
from clash.errors import StateError
from clash.protocol.batch import BatchSpec
from clash.protocol.reports import ResultFile
from clash.protocol.result_files import (
    HANDOVER,
    STAGING,
    destinations_of_stream,
    file_location,
    is_of_stream,
    origin_of,
    published_path,
    staged_path,
    whose_files,
)
from clash.state.json_records import RESTORE
from clash.state.storage import Storage, open_storage


class ResultPublisher:
    """Publishes the results of the queries of the last batch and of the one in work. `uri` and `identity` are the checkpoint's."""

    def __init__(self, uri: str, identity: str, queries: Iterable[LiveQuery]) -> None:
        self.uri, self.identity = uri, identity
        self.queries: Mapping[str, LiveQuery] = {}
        self.add_queries(queries)

    def add_queries(self, queries: Iterable[LiveQuery]) -> None:
        self.queries = {**self.queries, **{query.name: query for query in queries}}  # a new mapping: other threads may read the old one

    def keep_queries(self, queries: Iterable[LiveQuery]) -> None:
        """Forgets all others, none of which has files to publish or to sweep: a run may see any number of queries."""
        self.queries = {query.name: query for query in queries}

    def publish(self, manifest: Manifest, queries: Collection[LiveQuery], is_handed_over: bool) -> dict[str, list[str]]:
        """Moves the files to their place, unless they are there already; their full names, by destination. StateError if one is lost.
        `queries`: those of the batch, of which some may be replaced by now; `is_handed_over`: whether functions have had their files, which
        may be deleted since."""
        results: dict[str, list[str]] = {}
        functions = _functions(queries) if is_handed_over else set()
        for file, storage, staged, published in self._places(manifest, queries):
            if storage.exists(staged):
                storage.move(staged, published)
            elif not storage.exists(published):
                if file.destination in functions:
                    continue
                raise lost_file(file, manifest.batch, storage.label(published))
            results.setdefault(file.destination, []).append(storage.url(published))
        return results

    def publish_staged(self, manifest: Manifest, queries: Iterable[LiveQuery]) -> None:
        """Moves the files to their place that are still staged. What is missing may have been published and taken away since."""
        for _, storage, staged, published in self._places(manifest, queries):
            if storage.exists(staged):
                storage.move(staged, published)

    def _places(self, manifest: Manifest, queries: Iterable[LiveQuery]) -> Iterator[tuple[ResultFile, Storage, str, str]]:
        """The batch's files, each with its storage and its path there while it is staged and when it is published."""
        locations = {query.name: query.result_location(self.uri) for query in queries}
        storages: dict[str, Storage] = {}  # a remote one has a connection of its own
        for file in manifest.files:
            uri, folder = file_location(self.uri, locations, file.destination)
            if uri not in storages:
                storages[uri] = open_storage(uri)
            yield file, storages[uri], staged_path(folder, file.name), published_path(folder, file.name)

    def delete_handed_over(self, manifest: Manifest, queries: Collection[LiveQuery]) -> None:
        """Deletes the batch's files for functions, which have had them. `queries`: those of the batch."""
        functions = _functions(queries)
        for file, storage, _, published in self._places(manifest, queries) if functions else ():
            if file.destination in functions:
                storage.delete([published])

    def delete_joined(self, spec: BatchSpec, files: Iterable[ResultFile]) -> None:
        """Deletes staged files of joined rows, of which the committed batch has the results in others."""
        paths: dict[str, list[str]] = {}
        for file in files:
            uri, folder = file_location(spec.uri, spec.sinks, file.destination)
            paths.setdefault(uri, []).append(staged_path(folder, file.name))
        for uri, staged in paths.items():
            open_storage(uri).delete(staged)

    def leftovers(self, manifest: Manifest, streams: Iterable[str]) -> list[tuple[Storage, list[str]]]:
        """The files of attempts that failed or were killed, which the caller deletes."""
        listed = {(file.destination, file.name) for file in manifest.files}
        found = []
        for destination in (*self.queries, *(name for stream in streams for name in destinations_of_stream(stream))):
            storage, folder = self._location(destination)
            paths = [(name, staged_path(folder, name)) for name in storage.list(published_path(folder, STAGING))]
            if self._is_function(destination):
                paths += [(name, published_path(folder, name)) for name in storage.list(folder)]
            found.append((storage, [path for name, path in paths if self._is_own(name) and (destination, name) not in listed]))
        return found

    def sweep_torn(self) -> None:
        """Deletes what killed writers left half written."""
        for query in self.queries:
            storage, folder = self._location(query)
            storage.sweep(published_path(folder, STAGING))

    def _location(self, destination: str) -> tuple[Storage, str]:
        of_stream = is_of_stream(destination)
        uri, folder = (self.uri, destination) if of_stream else self.queries[destination].result_location(self.uri)
        return open_storage(uri), folder

    def _is_function(self, destination: str) -> bool:
        return destination in self.queries and self.queries[destination].request.sink.is_function

    def _is_own(self, name: str) -> bool:
        """Whether a file is of this checkpoint; names of format 6 do not say it, and are in folders that belong to it."""
        origin = origin_of(name)
        return origin is not None and origin.checkpoint in (self.identity, None)


def _functions(queries: Iterable[LiveQuery]) -> set[str]:
    """The names of those whose results go to functions."""
    return {query.name for query in queries if query.request.sink.is_function}


def lost_file(file: ResultFile, batch: int, published: str) -> StateError:
    """The error for a file of a committed batch that is nowhere; `published`: where it should be."""
    taken = "; if it was published and taken away since, put a file of that name in its place until the run has started"
    return StateError(
        "a file of committed results is lost",
        f"{whose_files(file.destination)}, batch {batch}: {published} is neither staged nor published, it had {file.rows} rows",
        RESTORE if f"/{HANDOVER}" in published else RESTORE + taken,  # no reader takes files away that are for a function
    )
