"""What all storages share: which names are allowed, what temporary files are called, how an error of the system is told.

A name is a relative POSIX path without `.` and `..`, so nothing outside a storage's root can be named.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import secrets

from clash.errors import StateError

_NAME = re.compile(r"(?!\.{1,2}(?:/|$))[^/\0]+(?:/(?!\.{1,2}(?:/|$))[^/\0]+)*")
_TEMPORARY = re.compile(r"\.\d+-\d+-[0-9a-f]{8}\.tmp")

# The token tells hosts apart that write to one file system; processes forked after the import share it, and differ by their id.
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
    """`path` itself if it names a file below the root."""
    if _NAME.fullmatch(path) is None:
        raise StateError("a file name is not allowed in a state", repr(path), "names are relative, with / between folders and without ..")
    return path


def check_folder(path: str) -> str:
    """`path` itself if it names a folder below the root; the empty path is the root."""
    return path and check_name(path)


def temporary_name() -> str:
    """A name that no other writer uses, and that Spark and `list` do not show."""
    return f".{os.getpid()}-{next(_COUNTER)}-{_TOKEN}.tmp"


def is_temporary(path: str) -> bool:
    return path.endswith(".tmp") and _TEMPORARY.fullmatch(path.rpartition("/")[2]) is not None


def missing(name: str) -> StateError:
    return StateError("a file of the state is missing", name, _HINTS[errno.ENOENT])


def failure(action: str, name: str, error: Exception) -> StateError:
    """What the user sees when the system refuses: `action` is a past participle, `name` says where in full."""
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENOENT or isinstance(error, FileNotFoundError):
        return missing(name)
    reason = os.strerror(number) if number else " ".join(str(error).split())
    hint = _HINTS.get(number or 0, "see what the file system says")
    return StateError(f"a file of the state cannot be {action}", f"{name}: {reason}", hint)
