"""Explains why Spark could not write: a full disk, a quota, a file system that is read-only, a remote one that does not answer.

What is written by us names its file already (`clash.state.paths`). Spark's own messages name one at times only. Outside of a batch Spark
writes its half of the checkpoint, within one its scratch folders: where no file is named, these are.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clash.errors import StateError
from clash.state.paths import storage_error

_ON_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)  # only ever said of something that is written
_REASONS = {os.strerror(number): number for number in (*_ON_WRITING, errno.EACCES, errno.EIO)}
_NAMED = re.compile(rf"(/[^\n]*?) \((?:{'|'.join(map(re.escape, _REASONS))})\)")  # as Java names the file
_FOLDER_NOT_MADE = re.compile(r"[Mm]kdirs?(?: failed to create| of) (?:file:)?(/[^\s(]+)")


_UNREACHABLE = re.compile(  # as Java says it of a storage on another machine
    r"java\.net\.(?:ConnectException|NoRouteToHostException|UnknownHostException|SocketException|SocketTimeoutException)"
    r"|SdkClientException|AWSServiceIOException|AWSClientIOException|NoHttpResponseException"
    r"|java\.io\.EOFException: End of File Exception between|java\.io\.IOException: (?:Failed on local exception|All datanodes)"
    r"|org\.apache\.hadoop\.(?:net\.ConnectTimeoutException|ipc\.\w+|hdfs\.BlockMissingException)|SafeModeException"
)


@dataclass(frozen=True)
class WrittenFolders:
    """What Spark writes for a run."""

    half: str
    """Its half of the checkpoint."""
    scratch: tuple[str, ...]
    """Where it keeps what its tasks exchange."""

    @classmethod
    def of(cls, spark: Any, half: str) -> WrittenFolders:
        configured = os.environ.get("SPARK_LOCAL_DIRS") or spark.sparkContext._conf.get("spark.local.dir", "/tmp")
        return cls(half, tuple(folder for folder in configured.split(",") if folder))


def explain_disk_failure(texts: Sequence[str], batch: int | None, folders: WrittenFolders) -> StateError | None:
    """The error for a failure with these messages, outermost first, if it is one of writing. `batch`: in which it happened."""
    for text in reversed(texts):
        reason = next((reason for reason in _REASONS if reason in text), None)
        named = _NAMED.search(text) or _FOLDER_NOT_MADE.search(text)
        owner = None if named is None else _owner(named[1], folders)
        if owner is None and (reason is None or _REASONS[reason] not in _ON_WRITING):
            continue  # not of a disk, or of a file that is read
        if named is not None:
            return _error(owner, named[1], reason, batch)
        return _error("half", folders.half, reason, None) if batch is None else _error("scratch", ", ".join(folders.scratch), reason, batch)
    found = [text for text in texts if _UNREACHABLE.search(text)]
    unreachable = next((text for text in found if _UNREACHABLE.match(text)), found[-1] if found else None)  # the outermost names the server
    if unreachable is None or batch is not None or "://" not in folders.half or folders.half.startswith("file:"):
        return None
    hint = "see what that storage says, and start again when it answers: the batch in work is run again"
    return StateError("Spark's half of the checkpoint cannot be reached", f"{folders.half}: {unreachable.strip().splitlines()[0]}", hint)


def _owner(file: str, folders: WrittenFolders) -> str | None:
    """Which of the folders a file is in."""
    local = folders.half.removeprefix("file://")
    if file.startswith(f"{local}/") or file == local:
        return "half"
    return "scratch" if any(file.startswith(f"{folder.rstrip('/')}/") for folder in folders.scratch) else None


def _error(owner: str | None, file: str, reason: str | None, batch: int | None) -> StateError:
    where = "" if batch is None else f"batch {batch}, "
    if reason is None:
        reason, hint = "a folder cannot be created", "see whether that file system is full, read-only or not accessible; then start again"
    else:
        hint = storage_error("written", file, OSError(_REASONS[reason], reason)).hint
    if owner == "scratch":
        return scratch_error(f"{where}{file}: {reason}", hint)
    what = "a file" if owner is None else "Spark's half of the checkpoint"
    return StateError(f"{what} cannot be written", f"{where}{file}: {reason}", hint)


def scratch_error(detail: str, hint: str) -> StateError:
    return StateError("Spark's scratch folder cannot be written", f"{detail} (spark.local.dir)", hint)
