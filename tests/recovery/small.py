"""A small job: R is lines of JSON, S is Parquet, one file of each per batch."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import clash

from .oracle import Rows, counted
from .shapes import set_age

ROWS = 200
KINDS = {"R": "a bigint, x string", "S": "a bigint, y bigint"}
TEXT = "SELECT R.x, S.y FROM R JOIN S ON R.a = S.a"


class Small:
    def __init__(self, spark: Any, root: Path) -> None:
        self.spark, self.root = spark, root
        self.checkpoint, self.out = root / "ck", root / "out"
        self.batches = 0

    def r(self, batch: int) -> Path:
        return self.root / "R" / f"{batch:03d}.json"

    def s(self, batch: int) -> Path:
        return self.root / "S" / f"{batch:03d}.parquet"

    def deliver(self, *, poisoned: str | None = None) -> None:
        """One file more of each stream; `poisoned`: a line in the middle of R's."""
        batch, rows = self.batches, range(ROWS)
        self.batches += 1
        for folder in "RS":
            (self.root / folder).mkdir(exist_ok=True)
        lines = [json.dumps({"a": (row * 7 + batch) % 90, "x": f"x{row}"}) for row in rows]
        self.r(batch).write_text("\n".join([*lines[:50], *([poisoned] if poisoned else []), *lines[50:]]))
        pq.write_table(pa.table({"a": [row % 80 for row in rows], "y": [row + batch * ROWS for row in rows]}), self.s(batch))
        set_age(self.r(batch), batch)
        set_age(self.s(batch), batch)

    def repair(self, batch: int) -> None:
        lines = self.r(batch).read_text().splitlines()
        self.r(batch).write_text("\n".join(line for line in lines if line.startswith('{"a": ') and line.endswith("}")))
        set_age(self.r(batch), batch)

    def engine(self, text: str = TEXT, sink: Any = None, kinds: dict[str, str] = KINDS, workers: int = 2) -> Any:
        made = clash.Engine(self.spark, self.checkpoint, workers=workers)
        source = self.spark.readStream.option("maxFilesPerTrigger", 1)
        made.stream("R", source.schema(kinds["R"]).option("mode", "FAILFAST").json(str(self.root / "R")))
        made.stream("S", source.schema(kinds["S"]).parquet(str(self.root / "S")))
        made.query("q", text, sink=clash.sinks.Parquet(self.out))
        if sink is not None:
            made.query("each", TEXT, sink=clash.sinks.ForeachBatch(sink))
        return made

    def run(self, **options: Any) -> None:
        assert self.engine(**options).start(available_now=True).await_termination(300)

    def fails(self, kind: type[clash.ClashError], **options: Any) -> clash.ClashError:
        """The error, which has three parts and shows no trace of Java; nothing of the failed batch is to be seen."""
        before = self.visible()
        with pytest.raises(kind) as caught:
            self.run(**options)
        error = caught.value
        assert type(error) is kind
        assert error.what == error.what.strip().rstrip(".")
        assert error.detail
        assert error.hint
        for part in (error.what, error.detail, error.hint):
            assert "\n" not in part
            assert "\tat " not in part
            assert "Py4J" not in part
        assert self.visible() >= before
        return error

    def visible(self) -> Rows:
        return sum((counted(pq.read_table(file)) for file in self.out.glob("*.parquet")), Counter())

    def expected(self, batches: int | None = None) -> Rows:
        upto = self.batches if batches is None else batches
        if not upto:
            return Counter()
        with duckdb.connect() as connection:
            r = [json.loads(line) for batch in range(upto) for line in self.r(batch).read_text().splitlines()]
            connection.register("R", pa.Table.from_pylist(r))
            connection.register("S", pa.concat_tables([pq.read_table(self.s(b)) for b in range(upto) if self.s(b).exists()]))
            return Counter(connection.sql(TEXT).fetchall())

    def last(self) -> int:
        return max((int(file.stem) for file in (self.checkpoint / "clash" / "manifests").glob("*.json")), default=-1)
