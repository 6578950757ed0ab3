"""Large payloads of messages between tasks of one machine: through files, past the JVM.

Through Spark's shuffle a payload is copied to the JVM, into its heap, to a file, and all the way back. Through a file of ours it is written
once, and mapped by the task that reads it. The message itself still goes through the shuffle, with a reference in place of its payload, so
Spark decides as before which task runs when, and what fails with what.

Invariant: a file is complete before a task of the next stage begins, and never changes afterwards: blocks may be views of it for as long as
they like, also when it is deleted.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa

from clash.errors import StateError
from clash.protocol.messages import Packed
from clash.spark.disk_failures import scratch_error
from clash.state.paths import storage_error

MIN_BYTES = 32 << 10  # of a payload that pays for its reference
_REFERENCE = struct.Struct("<iiqq")  # stage, partition, offset, length
REFERENCE_BYTES = _REFERENCE.size
_ALIGNMENT = 64  # bytes: a payload begins at a multiple of it, so that the arrays in it stay aligned


class PayloadWriter:
    """The payloads of one task. `stage`: of the batch, 0 for ingest and then the number of the round."""

    def __init__(self, folder: str, stage: int, partition: int) -> None:
        self._path, self._stage, self._partition = _path(folder, stage, partition), stage, partition
        self._file: Any = None
        self._end = 0

    def put(self, payload: Packed) -> bytes:
        """Writes a payload; the reference to it."""
        data = memoryview(payload)
        try:
            if self._file is None:
                self._file = self._path.open("wb", buffering=0)
            written = self._file.seek(self._end) - self._end
            while written < len(data):
                written += self._file.write(data[written:])
        except OSError as error:
            raise scratch_error(f"{self._path}: {error.strerror}", storage_error("written", str(self._path), error).hint) from error
        reference = _REFERENCE.pack(self._stage, self._partition, self._end, len(data))
        self._end += len(data) + -len(data) % _ALIGNMENT
        return reference

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class PayloadReader:
    """The payloads that tasks of earlier stages wrote."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._mapped: dict[tuple[int, int], pa.MemoryMappedFile] = {}

    def get(self, reference: bytes) -> pa.Buffer:
        stage, partition, offset, length = _REFERENCE.unpack(reference)
        if (stage, partition) not in self._mapped:
            path = str(_path(self._folder, stage, partition))
            try:
                self._mapped[stage, partition] = pa.memory_map(path)
            except OSError as error:
                raise StateError(
                    "a file in Spark's scratch folder cannot be read",
                    f"{path}: {error} (spark.local.dir)",
                    "start again: the batch is run again; see that no program deletes what is in that folder",
                ) from error
        mapped = self._mapped[stage, partition]
        mapped.seek(offset)
        return mapped.read_buffer(length)  # a view; `read_at` would copy


@contextmanager
def payload_folder(parent: str) -> Iterator[str]:
    """A folder for the payloads of one batch, while its job runs."""
    try:
        Path(parent).mkdir(parents=True, exist_ok=True)  # a run may outlive what cleans up temporary folders
        folder = mkdtemp(prefix="clash-payloads-", dir=parent)
    except OSError as error:
        raise scratch_error(f"{parent}: {error.strerror}", storage_error("written", parent, error).hint) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # what is left is deleted with the folder of Spark's session


def _path(folder: str, stage: int, partition: int) -> Path:
    return Path(folder) / f"{stage}-{partition}"
