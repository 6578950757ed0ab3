"""All plain file streams of a Spark query as one source of Spark's, which delivers the names of the files of each batch.

Spark resolves, plans and records each of its sources in every batch. The one source here, a class of ours in Java, lets Spark's own file
source of each stream decide which files a batch has, in the folders of the checkpoint that these sources have without it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from clash.spark.java_classes import FILE_STREAMS


class FileStreams:
    """`java`: the class in Java; `streams`: in the order of the checkpoint, what identifies the source of each stream, and Spark's
    description of it (`DataSource`). Streams out of one DataFrame have one source, as in Spark, which numbers sources in this order."""

    def __init__(self, spark: Any, java: Any, streams: Sequence[tuple[Hashable, Any]]) -> None:
        self._spark, self._java = spark, java
        sources = dict(streams)
        numbers = {relation: number for number, relation in enumerate(sources)}
        self._key = java.declare(list(sources.values()), [numbers[relation] for relation, _ in streams])

    def frame(self) -> Any:
        """A streaming DataFrame without rows, whose batches are those of the files."""
        from pyspark.sql import functions as F  # noqa: N812

        return self._spark.readStream.format(FILE_STREAMS).option("streams", self._key).load().where(F.lit(False))

    def files(self, query: str) -> dict[int, list[str]]:
        """By number of the stream, the URIs of its files in the batch that the Spark query with this id works on."""
        found: dict[int, list[str]] = {}
        for line in self._java.files(self._spark._jsparkSession, query, self._key).splitlines():
            number, _, name = line.partition(" ")
            found.setdefault(int(number), []).append(name)
        return found

    def relation(self, query: str, number: int) -> Any:
        """Spark's relation over the files of one stream in that batch."""
        return self._java.relation(self._spark._jsparkSession, query, self._key, number)

    def backlog(self) -> list[int]:
        """Per stream, the files that Spark has listed and not yet assigned to a batch."""
        return [int(count) for count in self._java.backlog(self._key).split()]

    def close(self) -> None:
        """The Spark query has ended."""
        self._java.forget(self._key)
