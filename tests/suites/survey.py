"""Which queries of a suite are accepted whole, and which by their join cores; why others are not."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.suites.cores import Core, join_cores, without_order
from tests.suites.texts import schema, texts

import clash
from clash.model.stream import Stream
from clash.spark.computed_columns import ExpressionTypes
from clash.sql import parse_with_spark


@dataclass(frozen=True)
class Found:
    """What became of one query."""

    whole: str
    """Why it is refused; empty if it is accepted."""
    has_cores: bool
    refused_cores: tuple[str, ...]


class Survey:
    """`found` has all queries of the suite, by name, or those named by `only`."""

    def __init__(self, spark: Any, jar: Path, suite: str, only: Collection[str] = ()) -> None:
        self._spark, self._schema = spark, schema(jar, suite)
        self._frames = {table: empty_stream(spark, columns) for table, columns in self._schema.items()}
        for table, columns in self._schema.items():
            spark.createDataFrame([], ", ".join(f"`{name}` {kind}" for name, kind in columns.items())).createOrReplaceTempView(table)
        self.texts = {name: without_order(text) for name, text in texts(jar, suite).items() if not only or name in only}
        with tempfile.TemporaryDirectory() as folder:
            engine = clash.Engine(spark, folder)
            for table, frame in self._frames.items():
                engine.stream(table, frame)
            self.found = {name: self._survey(engine, name, text) for name, text in self.texts.items()}

    def summary(self) -> str:
        numbers = {name: "".join(filter(str.isdigit, name)) for name in self.found}
        refused = {numbers[name] for name, found in self.found.items() if found.whole}
        joins = [found for found in self.found.values() if found.has_cores]
        cores = sum(not found.refused_cores for found in joins)
        count = len(set(numbers.values()))
        return f"{count - len(refused)} of {count} whole, all join cores of {cores} of {len(joins)}"

    def _survey(self, engine: clash.Engine, name: str, text: str) -> Found:
        cores = join_cores(text, self._schema)
        refused = [reason for core in cores if (reason := self._refused_core(core))]
        try:
            engine.query(name, text)
        except clash.ClashError as error:
            return Found(refusal(error), bool(cores), tuple(refused))
        return Found("", bool(cores), tuple(refused))

    @property
    def whole(self) -> dict[str, str]:
        """The texts that are accepted."""
        return {name: self.texts[name] for name, found in self.found.items() if not found.whole}

    def _refused_core(self, core: Core) -> str:
        try:
            tables = {name: self._spark.sql(sql).schema for name, sql in core.tables.items()}
        except Exception as error:
            return f"cannot be analysed: {str(error).splitlines()[0]}"
        frames = dict(self._frames)
        for name, found in tables.items():
            frames[name] = empty_stream(self._spark, _columns(found))
        streams = {name: Stream.of(name, _columns(frame.schema)) for name, frame in frames.items()}
        try:
            parse_with_spark("core", core.text, streams, None, ExpressionTypes(self._spark, frames, {}))
        except clash.ClashError as error:
            return refusal(error)
        return ""


def _columns(found: Any) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in found.fields}


def refusal(error: clash.ClashError) -> str:
    return f"{error.what}: {error.detail}"


def empty_stream(spark: Any, columns: dict[str, str]) -> Any:
    """A streaming DataFrame of these columns, for declarations."""
    made = spark.readStream.format("rate").load()
    return made.selectExpr(*(f"CAST(NULL AS {kind}) AS `{name}`" for name, kind in columns.items()))


def local_spark() -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "UTC")
    session = clash.configure(builder).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session
