"""Two streams of files with nested columns, and Spark's batch answers over them."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import clash

SCHEMA = "k bigint, x string, st struct<city:string,n:bigint>, arr array<bigint>, j string, ts timestamp"
ROWS = 50


class Job:
    def __init__(self, spark: Any, root: Path) -> None:
        self.spark, self.root, self.files = spark, root, 0
        spark.udf.register("twice", lambda value: None if value is None else value * 2, "bigint")
        spark.udf.register("labelled", lambda text, number: f"{text}:{number}", "string")

    def write(self) -> None:
        at = self.files
        for stream in "RS":
            (self.root / stream).mkdir(exist_ok=True)
            rows = [
                {
                    "k": i % 7 + at,
                    "x": f"Name{i % 5}" if i % 9 else None,
                    "st": {"city": f"c{i % 3}", "n": i},
                    "arr": [i, i + 1],
                    "j": f'{{"a": {i % 4}}}',
                    "ts": dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=5 * i + at),
                }
                for i in range(ROWS)
            ]
            pq.write_table(pa.Table.from_pylist(rows), self.root / stream / f"{at}.parquet")
        self.files += 1

    def engine(self, queries: dict[str, str], change: Any = lambda df: df, sinks: Mapping[str, Any] = MappingProxyType({})) -> clash.Engine:
        engine = clash.Engine(self.spark, self.root / "ck", workers=2, epoch=1)
        for stream in "RS":
            source = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
            engine.stream(stream, change(source.parquet(str(self.root / stream))))
        for name, text in queries.items():
            engine.query(name, text, sink=sinks.get(name))
        return engine

    def expected(self, text: str, files: int | None = None, first: int = 0) -> Counter[str]:
        """Spark's batch answer over all files of each stream, or those from `first` on and before `files`."""
        for stream in "RS":
            paths = [str(self.root / stream / f"{number}.parquet") for number in range(first, self.files if files is None else files)]
            self.spark.read.schema(SCHEMA).parquet(*paths).createOrReplaceTempView(stream)
        return values(self.spark.sql(text))

    def check(self, run: Any, queries: dict[str, str]) -> None:
        for name, text in queries.items():
            found = values(run.results(name))
            assert found == self.expected(text), name
            assert found, name


def values(df: Any) -> Counter[str]:
    """The rows, without the names of their columns."""
    return Counter(str([*row]) for row in df.collect())
