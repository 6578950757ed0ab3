"""Where histories are played."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .inprocess import InProcess
from .spark_place import Cluster, SparkPlace
from .starts import Place


@contextmanager
def open_place(where: str) -> Iterator[Place]:
    place: Place = InProcess() if where == "inprocess" else SparkPlace(Cluster() if where == "cluster" else None)
    try:
        yield place
    finally:
        place.close()
