"""What all storages share: which file names are allowed, the names of temporary files, and the messages for errors of the system.

A file name is a relative POSIX path without `.` and `..`. Hence no name refers to a file outside of a storage's root.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import secrets
from pathlib import Path

from clash.errors import StateError

_NAME = re.compile(r"(?!\.{1,2}(?:/|$))[^/\0]+(?:/(?!\.{1,2}(?:/|$))[^/\0]+)*")
_TEMPORARY = re.compile(r"\.\d+-\d+-[0-9a-f]{8}\.tmp")

# Processes on one host differ by their id, also if they were forked after the import and share the token. Hosts that write to one file
# system differ by the token.
_TOKEN = secrets.token_hex(4)
_COUNTER = itertools.count()

_HINTS = {
    errno.ENOENT: "a file that is in use was removed by hand, or the location is wrong",
    errno.ENOSPC: "free some space on that file system, then start again: the batch in work is run again",
    errno.EDQUOT: "free some space or raise the quota, then start again: the batch in work is run again",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f), then start again",
    errno.EACCES: "give the user that runs the engine access to that location",
    errno.EPERM: "give the user that runs the engine access to that location",
    errno.EROFS: "choose a location on a file system that can be written to",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "raise the system's limit on open files (fs.file-max)",
    errno.ENOMEM: "raise the limit on mapped files (vm.max_map_count), or give the process more memory",
    errno.ENOTDIR: "a file lies where a folder is needed: choose another location",
    errno.EISDIR: "a folder lies where a file is needed: choose another location",
    errno.ENAMETOOLONG: "choose a location with a shorter path",
}


def check_name(path: str) -> str:
    """The path itself if it may name a file; otherwise StateError."""
    if _NAME.fullmatch(path) is None or not _is_text(path):
        raise StateError("a file name is not allowed in a state", repr(path), "names are relative, with / between folders and without ..")
    return path


def _is_text(path: str) -> bool:
    """Not halves of characters, which no file system takes."""
    try:
        return path.isascii() or bool(path.encode())
    except UnicodeEncodeError:
        return False


def check_folder(path: str) -> str:
    """The path itself if it may name a folder; otherwise StateError. The empty path is the root."""
    return path and check_name(path)


def absolute_location(location: str | os.PathLike[str]) -> str:
    """An absolute path, or a URI as it is."""
    text = os.fspath(location)
    return (text if ":/" in text else str(Path(text).expanduser().absolute())).rstrip("/")


def temporary_name() -> str:
    """A name that no other writer uses, and that neither Spark nor `Storage.list` shows."""
    return f".{os.getpid()}-{next(_COUNTER)}-{_TOKEN}.tmp"


def is_temporary(path: str) -> bool:
    return path.endswith(".tmp") and _TEMPORARY.fullmatch(path.rpartition("/")[2]) is not None


def missing_file(name: str) -> StateError:
    """The error for a file that does not exist; `name` is its full name."""
    return StateError("a file of the state is missing", name, _HINTS[errno.ENOENT])


def storage_error(action: str, name: str, error: Exception, other_hint: str = "see what the file system says") -> StateError:
    """An error of the system for the user: `action` is the past participle of what failed, `name` the full name of the file;
    `other_hint`: for errors that have no hint of their own."""
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENOENT or isinstance(error, FileNotFoundError):
        return missing_file(name)
    reason = os.strerror(number) if number else " ".join(str(error).split())
    hint = _HINTS.get(number or 0, other_hint)
    return StateError(f"a file of the state cannot be {action}", f"{name}: {reason}", hint)
