"""Streams of JSON files, and a plain Spark query over them: what the offset log and the batch gate are tested with."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clash.spark.batch_gate import BatchGate
from clash.state.storage import open_storage

Rows = list[tuple[str, int]]


class JsonFiles:
    """Streams of JSON files, one per batch, and a plain Spark query over some of them that records what it has read."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark, self.root = spark, root
        self.read: list[tuple[int, Rows]] = []
        self.gate = BatchGate()
        self.before: Callable[[int], None] = lambda batch: None

    def put(self, stream: str, file: int) -> None:
        (self.root / stream).mkdir(exist_ok=True)
        (self.root / stream / f"{file:03d}.json").write_text("\n".join(json.dumps({"a": file * 10 + row}) for row in range(3)))

    def source(self, stream: str) -> Any:
        from pyspark.sql import functions as F  # noqa: N812

        frame = self.spark.readStream.schema("a bigint").option("maxFilesPerTrigger", 1).json(str(self.root / stream))
        return frame.select(F.lit(stream).alias("stream"), "a")

    def union(self, streams: str) -> Any:
        first, *others = map(self.source, streams)
        for other in others:
            first = first.union(other)
        return first

    def start(self, df: Any, **trigger: Any) -> Any:
        def batch(rows: Any, number: int) -> None:
            with self.gate.batch():
                self.before(number)
                self.read.append((number, [tuple(row) for row in rows.collect()]))

        writer = df.writeStream.foreachBatch(batch).option("checkpointLocation", str(self.root / "spark"))
        return writer.trigger(**trigger).start() if trigger else writer.start()

    def run(self, df: Any) -> None:
        self.start(df, availableNow=True).awaitTermination(300)

    @property
    def storage(self) -> Any:
        return open_storage(str(self.root / "spark"))

    def check(self, files: dict[str, int]) -> None:
        """Every row of every file once."""
        found = Counter(row for _, rows in self.read for row in rows)
        assert found == Counter((stream, file * 10 + row) for stream, upto in files.items() for file in range(upto) for row in range(3))
        assert [number for number, _ in self.read] == list(range(len(self.read)))
