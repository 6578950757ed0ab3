"""The same expression evaluated by tasks, by Spark of the joined rows, and by Spark where it reads the streams.

All variants give the same rows, which is checked. The functions that only Spark has (`try_add`, `try_multiply`) do there what the operators
of the evaluator do. In every round all variants run once, in another order, over the same files.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import clash
from clash.errors import ClashError
from clash_bench.monitor import Monitor, load
from clash_bench.tables import note, write

JOIN = "FROM R JOIN S ON R.k = S.k"
VARIANTS: Mapping[str, str] = {
    "evaluator": f"SELECT R.k, R.v * 3 + S.v AS sum, upper(R.x) AS x {JOIN} WHERE R.v * 7 + 1 > 0",
    "joined rows": f"SELECT R.k, try_add(try_multiply(R.v, 3), S.v) AS sum, upper(R.x) AS x {JOIN} WHERE R.v * 7 + 1 > 0",
    "scan": f"SELECT R.k, R.v * 3 + S.v AS sum, upper(R.x) AS x {JOIN} WHERE try_add(R.v * 7, 1) > 0",
    "both": f"SELECT R.k, try_add(try_multiply(R.v, 3), S.v) AS sum, upper(R.x) AS x {JOIN} WHERE try_add(R.v * 7, 1) > 0",
}


@dataclass(frozen=True)
class Measured:
    variant: str
    rows: int
    """Tuples of a batch, of both streams."""
    results: int
    """Of a batch."""
    milliseconds: float
    """Per batch, without the first."""
    cpu_milliseconds: float
    """Per batch, of all processes."""
    relative: float
    """CPU over that of the evaluator in the same round."""
    load: float


def run(rows: tuple[int, ...], batches: int, rounds: int, out: Path) -> None:
    from pyspark.sql import SparkSession

    spark = clash.configure(SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    measured: list[Measured] = []
    with TemporaryDirectory(prefix="clash-expressions-", ignore_cleanup_errors=True) as folder:
        for size in rows:
            root = Path(folder) / str(size)
            _write(root, size // 2, batches)
            for number in range(rounds + 1):  # the first one is not measured
                order = itertools.islice(itertools.cycle(VARIANTS), number, number + len(VARIANTS))
                found = {variant: _measure(spark, root / f"{number}-{variant}", root, variant, size, batches) for variant in order}
                if len({contents for _, contents in found.values()}) != 1:
                    raise ClashError("the variants have different results", f"{size} rows", "this is a defect: please report it")
                base = found["evaluator"][0].cpu_milliseconds
                for each, _ in found.values():
                    relative = Measured(**{**_fields(each), "relative": each.cpu_milliseconds / base})
                    note(f"{'warm-up ' if number == 0 else ''}{relative}")
                    measured += [relative] if number else []
    spark.stop()
    write(out / "expressions.csv", Measured, measured)
    for size, variant in itertools.product(rows, VARIANTS):
        of = [each for each in measured if each.variant == variant and each.rows == size]
        middle = statistics.median(each.relative for each in of)
        milliseconds = statistics.median(each.milliseconds for each in of)
        note(f"{size:>7} rows  {variant:<12} {milliseconds:7.0f} ms a batch  {middle:5.2f}× the CPU of the evaluator")


def _fields(measured: Measured) -> dict[str, Any]:
    return {name: getattr(measured, name) for name in Measured.__dataclass_fields__}


def _write(root: Path, rows: int, batches: int) -> None:
    random = np.random.default_rng(1)
    for stream in "RS":
        (root / stream).mkdir(parents=True)
        for batch in range(batches):
            # the keys of a batch are its own: state grows, results of a batch do not
            table = {"k": random.integers(0, max(1, rows), rows) + batch * rows, "v": random.integers(0, 1000, rows)}
            texts = pa.array([f"Text {value}" for value in random.integers(0, 100, rows)])
            pq.write_table(pa.table({**table, "x": texts}), root / stream / f"{batch:05}.parquet")


def _measure(spark: Any, checkpoint: Path, root: Path, variant: str, rows: int, batches: int) -> tuple[Measured, Any]:
    engine = clash.Engine(spark, checkpoint, workers=2, adaptive=False)
    for stream in "RS":
        source = spark.readStream.schema("k bigint, v bigint, x string").option("maxFilesPerTrigger", 1)
        engine.stream(stream, source.parquet(str(root / stream)))
    engine.query("q", VARIANTS[variant])
    before = load()
    with Monitor() as monitor:
        run = engine.start(available_now=True)
        run.await_termination()
    times = [entry["durationMs"]["triggerExecution"] for entry in run.recent_progress if "triggerExecution" in entry["durationMs"]]
    table = run.results("q").toArrow()
    contents = frozenset(Counter(zip(*(table[name].to_pylist() for name in table.column_names), strict=True)).items())
    cpu = 1000 * sum(monitor.cpu.values()) / batches
    return Measured(variant, rows, table.num_rows // batches, statistics.median(times[1:]), cpu, 1.0, before), contents
