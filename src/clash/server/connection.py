"""How commands find a run: a file in the folder of its checkpoint, with the address and the token, that only its owner can read."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from clash.errors import OptionError, StateError

FILE = "server.json"
_MAX_SIZE = 10_000


@dataclass(frozen=True)
class Connection:
    address: str
    token: str
    pid: int
    job: str | None


def local_folder(checkpoint: str) -> Path | None:
    """The folder of a checkpoint on this machine; None for one in another storage."""
    if checkpoint.startswith("file:"):
        return Path("/" + checkpoint.removeprefix("file:").lstrip("/"))
    return None if ":/" in checkpoint else Path(checkpoint)


def write_connection(folder: Path, connection: Connection) -> Path:
    """Never readable by others, not even for a moment; replaces what a killed run has left."""
    path, new = folder / FILE, folder / f".{FILE}.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as file:
            json.dump(asdict(connection), file)
        new.replace(path)
    except OSError as error:
        raise StateError("the address of the run cannot be written", f"{path}: {error.strerror}", "make the folder writable") from None
    return path


def remove_connection(path: Path, connection: Connection) -> None:
    """Unless another run has written its own there meanwhile."""
    if _read(path) == connection:
        path.unlink(missing_ok=True)


def find_connection(checkpoint: str) -> Connection:
    """The run of a checkpoint; OptionError if none is there."""
    folder = local_folder(checkpoint)
    if folder is None:
        raise OptionError("a run over this storage is found by its address", checkpoint, "write --job http://HOST:PORT --token-file FILE")
    found = _read(folder / FILE)
    if found is None:
        raise OptionError(
            "no run serves this checkpoint", str(folder), "start it with `clash run JOB`, without --no-ui; or write --job http://HOST:PORT"
        )
    return found


def _read(path: Path) -> Connection | None:
    try:
        with path.open() as file:
            data = json.loads(file.read(_MAX_SIZE))
        return Connection(str(data["address"]), str(data["token"]), int(data["pid"]), data["job"] and str(data["job"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
