"""How files of results, and of late and rejected rows, are named: tasks stage them, the coordinator publishes them.

Invariant: a file is written under a name that no other attempt and no other checkpoint uses, in a folder that readers leave out, and is
moved to its place only after the commit of its batch. Its name says which batch of which checkpoint it belongs to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from clash.model.query import query_of

STAGING = "_staging"
LATE, REJECTED = "late/", "rejected/"
_ROWS_OF_STREAMS = {LATE: "late rows of stream ", REJECTED: "rejected records of stream "}
JOINED_ROWS = "joined/"  # before the name of a join whose rows are not results: those are computed of them
HANDOVER = "handover/"
OUTER = "outer/"  # results of join cores, which outer queries read and delete
_FILE_NAME = re.compile(r"part-(\d{9})-(?:([0-9a-f]{12})-)?[0-9a-f]{8}-.*\.parquet")  # without an identity up to format 6


class FileOrigin(NamedTuple):
    """What the name of a result file says."""

    batch: int
    checkpoint: str | None
    """The identity of the checkpoint; None in names of format 6."""


def file_name(batch: int, checkpoint: str, attempt: str, task: str, number: int) -> str:
    """`checkpoint`: its identity, 12 hexadecimal digits."""
    return f"part-{batch:09d}-{checkpoint}-{attempt}-{task}-{number}.parquet"


def origin_of(name: str) -> FileOrigin | None:
    """None for a file that is not one of ours."""
    match = _FILE_NAME.fullmatch(name)
    return None if match is None else FileOrigin(int(match[1]), match[2])


def file_location(uri: str, sinks: Mapping[str, tuple[str, str]], destination: str) -> tuple[str, str]:
    """The storage and the folder for the files of a destination; late and rejected rows stay under the checkpoint, joined rows are with
    the results that are computed of them."""
    return (uri, destination) if is_of_stream(destination) else sinks[query_of(destination.removeprefix(JOINED_ROWS))]


def is_joined(destination: str) -> bool:
    """Whether files have joined rows, which are staged and never published."""
    return destination.startswith(JOINED_ROWS)


def destinations_of_stream(stream: str) -> tuple[str, ...]:
    """Where rows of a stream go that are not joined."""
    return tuple(f"{kind}{stream}" for kind in _ROWS_OF_STREAMS)


def is_of_stream(destination: str) -> bool:
    """Whether rows of a stream go there, and not the results of a query."""
    return destination.startswith(tuple(_ROWS_OF_STREAMS))


def whose_files(destination: str) -> str:
    """For messages.

    >>> whose_files("late/orders")
    'late rows of stream orders'
    """
    kind, slash, stream = destination.partition("/")
    return f"{_ROWS_OF_STREAMS[kind + slash]}{stream}" if is_of_stream(destination) else f"query {destination}"


def staged_path(folder: str, name: str) -> str:
    return f"{folder}/{STAGING}/{name}" if folder else f"{STAGING}/{name}"


def published_path(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
