"""What the programs of the documentation take for granted: a shop's streams, an engine, a run; and places for what they write."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import clash

QUERIES = {
    "paid": "SELECT o.id, p.amount FROM orders o JOIN payments p ON o.id = p.id",
    "opened": "SELECT o.id, t.text FROM orders o JOIN tickets t ON o.id = t.order_id",
}
COLUMNS = {
    "orders": "id, id AS order_id, id % 5 AS customer, id * 2.0D AS total, ts",
    "payments": "id, id AS order_id, id * 1.5D AS amount, ts",
    "clicks": "id % 5 AS customer, concat('/', id) AS page, ts",
    "refunds": "id, id * 0.5D AS amount, ts",
    "customers": "id, concat('region ', id % 2) AS region, ts",
    "tickets": "id AS order_id, concat('text ', id) AS text, ts",
}


class Shop:
    def __init__(self, spark: Any, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self._runs: list[Any] = []
        self._started: list[Any] = []
        self._declares_streams = False
        rows = spark.range(20).selectExpr("id", "timestamp_seconds(1700000000 + id) AS ts")
        for name, columns in COLUMNS.items():
            rows.selectExpr(*re.split(r", (?![^(]*\))", columns)).coalesce(1).write.parquet(f"{folder}/in/{name}")

    def scope(self) -> dict[str, Any]:
        import os

        import pyarrow
        from pyspark.sql import SparkSession

        from clash.delivery.avro_rows import avro_schema

        statistics = clash.Statistics(default_rate=100, default_selectivity=0.01)
        streams = [clash.Stream.of(name, dict(self.frame(name).dtypes), time="ts", window="10 minutes") for name in COLUMNS]
        return {
            "clash": clash, "spark": self._spark, "SparkSession": SparkSession, "os": os, "pyarrow": pyarrow, "avro_schema": avro_schema,
            "queries": {"paid": QUERIES["paid"]}, "statistics": statistics, "streams": streams, "password": "",
            "plan": clash.optimize({"paid": QUERIES["paid"]}, statistics), "engine": self.engine(),
            **{f"{name}_df": self.frame(name) for name in COLUMNS},
        }  # fmt: skip

    def frame(self, name: str) -> Any:
        path = f"{self._folder}/in/{name}"
        return self._spark.readStream.schema(self._spark.read.parquet(path).schema).parquet(path)

    def engine(self) -> Any:
        engine = clash.Engine(self._spark, checkpoint=self._place(), workers=2, epoch=1)
        for name in ("orders", "payments", "clicks", "customers"):
            engine.stream(name, self.frame(name), time="ts", window="10 minutes", lateness="5 seconds")
        return engine

    def prepare(self, text: str, scope: dict[str, Any]) -> None:
        """A block that calls the run without starting it gets one; a block that declares a query gets an engine that is not started."""
        self._declares_streams |= "engine.stream(" in text
        if re.search(r"\brun\b", text) and "engine.start(" not in text and "run" not in scope:
            engine = scope["engine"] if self._declares_streams else self.engine()
            engine.query("shown", "SELECT o.order_id FROM orders o JOIN payments p ON o.order_id = p.order_id")
            scope["run"] = engine.start()
            scope["run"].process_all_available()
            self._started.append(engine)
        if "engine.start(" in text and "engine.query(" not in text:
            scope["engine"].query("paid", QUERIES["paid"])
        if "engine.query(" in text and scope["engine"] in self._started:
            scope["engine"] = self.engine()

    def finish(self, scope: dict[str, Any]) -> None:
        """Keeps what was started, so that it ends; a run that a page has ended is no longer there for the next block."""
        run = scope.get("run")
        if run is not None and run not in self._runs:
            self._runs.append(run)
            self._started.append(scope["engine"])
            if run.is_active:
                run.process_all_available()

    def placed(self, text: str, addresses: dict[str, str]) -> str:
        """The program with places and addresses of this test in it."""
        text = re.sub(r'checkpoint="[^"]*"', f'checkpoint="{self._place()}"', text)
        for shown, real in addresses.items():
            text = text.replace(shown, real)
        return text

    def close(self) -> None:
        for run in self._runs:
            run.stop()

    def _place(self) -> str:
        number = len(list(self._folder.glob("checkpoint-*"))) + 1
        (self._folder / f"checkpoint-{number}").mkdir()
        return f"{self._folder}/checkpoint-{number}/state"
