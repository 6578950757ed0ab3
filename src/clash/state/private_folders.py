"""Folders of a checkpoint that only its owner may enter: it holds rows of the streams, which not everybody on the machine may read.

Where the folder above is shared with a group (writable for it, and not for everybody), the group may enter, too: so workers may run under
another user. Folders that exist stay as they are.
"""

from __future__ import annotations

import contextlib
import stat
from pathlib import Path

_OWNER, _GROUP = 0o700, 0o070


def private_mode(above: Path) -> int:
    """The permissions of a new folder in the folder `above`."""
    try:
        mode = stat.S_IMODE(above.stat().st_mode)
    except OSError:
        return _OWNER
    is_shared = bool(mode & stat.S_IWGRP) and not mode & stat.S_IWOTH
    return _OWNER | (_GROUP & mode if is_shared else 0)


def make_private(folder: Path) -> None:
    """Create a folder unless it exists; those above it are ordinary ones. OSError if that is not possible."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=private_mode(folder.parent))
