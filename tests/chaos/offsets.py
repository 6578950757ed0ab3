"""Logs of offsets: the model of Spark's half of a checkpoint for programs without Spark, and what is known of a log that gets damaged.

    metadata     the identity of the query
    offsets/N    how many files of each stream are read after batch N, written before the batch runs
    commits/N    the batch is done

The files have Spark's format, so that `SparkHalf` seals and verifies them as it does Spark's own. Where each stream was read to is one line
for all streams; logs of sources are not modelled.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar
from uuid import uuid4

from clash.coordinator.checkpoint.spark_half import COMMITS, OFFSETS
from clash.state.paths import storage_error

Entry = TypeVar("Entry")
_METADATA = "metadata"


class OffsetLog:
    """As Spark, it reads the logs when it starts, and knows from then on what it has written. `last`: the last batch on record."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.last, self._committed = self._newest(OFFSETS), self._newest(COMMITS)
        self._ends: dict[int, dict[str, int]] = {-1: {}}
        if not (folder / _METADATA).exists():
            self._write(_METADATA, json.dumps({"id": str(uuid4())}))

    def _newest(self, log: str) -> int:
        return max((int(file.name) for file in (self.folder / log).glob("*") if file.name.isdigit()), default=-1)

    def offsets(self, batch: int) -> dict[str, int]:
        if batch not in self._ends:
            self._ends[batch] = parse_offsets((self.folder / OFFSETS / str(batch)).read_text())
        return self._ends[batch]

    def next_batch(self, streams: tuple[str, ...], fed: int) -> int | None:
        """The batch to run; None if all is read."""
        if self.last > self._committed:
            return self.last
        before = self.offsets(self.last)
        after = {stream: min(before.get(stream, 0) + 1, fed) for stream in streams}
        if after == {stream: before.get(stream, 0) for stream in streams}:
            return None
        self._ends[self.last + 1] = before | after
        self._write(f"{OFFSETS}/{self.last + 1}", f"v1\n{{}}\n{json.dumps(before | after)}")
        self.last += 1
        return self.last

    def commit(self, batch: int) -> None:
        self._write(f"{COMMITS}/{batch}", "v1\n{}")
        self._committed = batch

    def _write(self, path: str, content: str) -> None:
        file = self.folder / path
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
            temporary.write_text(content)
            temporary.replace(file)
        except OSError as error:
            raise storage_error("written", str(file), error) from error


def parse_offsets(text: str) -> dict[str, int]:
    found: dict[str, int] = json.loads(text.splitlines()[2])
    return found


class Seen(Generic[Entry]):
    """What files say. Those that the history has damaged or removed count as they were before."""

    def __init__(self, parse: Callable[[str], Entry]) -> None:
        self._parse = parse
        self._entries: dict[Path, Entry] = {}
        self._damaged: dict[Path, bytes] = {}

    def read(self, file: Path) -> Entry | None:
        with suppress(OSError):
            self._add(file, file.read_bytes())
        return self._entries.get(file)

    def read_log(self, folder: Path) -> dict[int, Entry]:
        """By number, all entries of an offset log."""
        for file in folder.glob("[0-9]*"):
            self.read(file)
        entries = [file for file in self._entries if file.parent == folder]
        return {int(file.name): self._entries[file] for file in sorted(entries, key=lambda file: int(file.name))}

    def _add(self, file: Path, content: bytes) -> None:
        if self._damaged.get(file) != content:
            with suppress(ValueError, LookupError):
                self._entries[file] = self._parse(content.decode())

    def damaged(self, file: Path, before: bytes, after: bytes) -> None:
        """What the file is now does not count, but what it was."""
        self._add(file, before)
        self._damaged[file] = after

    def forget(self, base: Path) -> None:
        self._entries = {file: entry for file, entry in self._entries.items() if not file.is_relative_to(base)}
        self._damaged = {file: content for file, content in self._damaged.items() if not file.is_relative_to(base)}
