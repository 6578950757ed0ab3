"""How files of results and of late rows are named: tasks stage them, the coordinator publishes them.

Invariant: a file is written under a name that no other attempt uses, in a folder that readers leave out, and is moved to its place only
after the commit of its batch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

STAGING = "_staging"
LATE = "late/"
RESULT_FILE = re.compile(r"part-\d{9}-[0-9a-f]{8}-.*\.parquet")


def file_name(batch: int, attempt: str, task: str, number: int) -> str:
    return f"part-{batch:09d}-{attempt}-{task}-{number}.parquet"


def file_location(uri: str, sinks: Mapping[str, tuple[str, str]], destination: str) -> tuple[str, str]:
    """The storage and the folder for the files of a destination; late rows stay under the checkpoint."""
    return (uri, destination) if destination.startswith(LATE) else sinks[destination]


def staged_path(folder: str, name: str) -> str:
    return f"{folder}/{STAGING}/{name}" if folder else f"{STAGING}/{name}"


def published_path(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
