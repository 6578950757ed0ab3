"""`make demo-kafka`: a real broker, a shop's events in topics, four joins over them, and their results in topics; all checked with DuckDB.

The broker comes from Maven (`scripts/test_servers.py`), listens on loopback, and is gone at the end.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.servers import KafkaServer, find  # noqa: E402

import clash  # noqa: E402
from clash.cli.demo import QUERIES, STREAMS  # noqa: E402
from clash.cli.demo_data import SLICE, history  # noqa: E402

MINUTES, PAUSE, WINDOW, LATENESS = 10, 0.5, "10 minutes", "1 minute"
NAMES = ("fulfilment", "tracking", "conversion", "complaints")
RATES = {"clicks": 300.0, "orders": 400.0, "tickets": 50.0}  # a minute; the other streams follow from the orders


def main() -> None:
    console = Console()
    with TemporaryDirectory(prefix="clash-demo-kafka-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "broker").mkdir()
        server = KafkaServer(folder / "broker")
        try:
            with console.status("starting a Kafka broker on this machine"):
                server.start()
                server.create(*STREAMS, partitions=3)
            console.print(f"a broker at {server.servers}, with the topics {', '.join(STREAMS)}")
            tables = history(MINUTES, RATES)
            results = run_shop(console, server, folder, tables)
            compare(console, tables, results)
        finally:
            server.kill()


def run_shop(console: Console, server: KafkaServer, folder: Path, tables: Mapping[str, pa.Table]) -> dict[str, Counter[Any]]:
    """Runs while events are produced; what the result topics have at the end."""
    builder = SparkSession.builder.master("local[2]").appName("clash demo-kafka")
    for key, value in {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.ui.showConsoleProgress": "false"}.items():
        builder = builder.config(key, value)
    with console.status("starting Spark on this machine"):
        spark = clash.configure(builder.config("spark.sql.session.timeZone", "UTC"), kafka=find("kafka-connector") or True).getOrCreate()
    source = clash.sources.Kafka(spark, server.servers)
    engine = clash.Engine(spark, checkpoint=folder / "checkpoint", workers=2)
    for stream, (columns, _) in STREAMS.items():
        topic = source.json(stream, ", ".join(f"{column} {kind}" for column, kind in columns.items()))
        engine.stream(stream, topic, time="ts", window=WINDOW, lateness=LATENESS)
    for query in NAMES:
        sink = clash.sinks.Kafka(f"results-{query}", servers=server.servers, key="order_id", create=2)
        engine.query(query, QUERIES[query][1], sink=sink)
        console.print(f"  {query}: {QUERIES[query][0]}  → topic results-{query}")
    run = engine.start()
    rows = sum(table.num_rows for table in tables.values())
    feeder = threading.Thread(target=produce, args=(server, tables), name="clash-demo-producer", daemon=True)
    feeder.start()
    try:
        while feeder.is_alive() or sum(run.progress["totals"]["input"].values()) < rows:
            time.sleep(3)
            if not run.is_active:
                run.await_termination(0)  # raises what it failed with
            progress = run.progress
            read = sum(progress["totals"]["input"].values())
            found = ", ".join(f"{query} {progress['totals']['results'].get(query, 0):,}" for query in NAMES)
            console.print(f"  {read:,} of {rows:,} events in {progress['totals']['batches']} batches; results: {found}", soft_wrap=True)
        run.process_all_available()
    finally:
        run.stop()
        spark.stop()
    sample = Table("key", "value", title=f"the last messages of results-{NAMES[0]}", title_justify="left")
    results: dict[str, Counter[Any]] = {}
    for query in NAMES:
        messages = server.consume(f"results-{query}")
        results[query] = Counter(canonical(json.loads(message.value(), parse_float=Decimal)) for message in messages)
        for message in messages[-3:] if query == NAMES[0] else ():
            sample.add_row(message.key().decode(), message.value().decode())
    console.print(sample)
    return results


def produce(server: KafkaServer, tables: Mapping[str, pa.Table]) -> None:
    """Thirty seconds of the shop twice a second."""
    for number in range(MINUTES * 60 * 1_000_000 // SLICE):
        for stream, table in tables.items():
            start, end = np.searchsorted(table["slice"].to_numpy(), [number, number + 1])
            rows = table.drop_columns("slice").slice(start, end - start).to_pylist()
            server.produce(stream, [json.dumps(row, default=str) for row in rows])
        time.sleep(PAUSE)


def compare(console: Console, tables: Mapping[str, pa.Table], results: Mapping[str, Counter[Any]]) -> None:
    """With the batch joins of the same events."""
    with duckdb.connect() as connection:
        connection.execute("SET timezone = 'UTC'")
        for stream, table in tables.items():
            connection.register(stream, table)
        for query in NAMES:
            used = [stream for stream in STREAMS if f" {stream}" in QUERIES[query][1]]
            times = ", ".join(f"{stream}.ts" for stream in used)
            text = f"{QUERIES[query][1]} WHERE greatest({times}) - least({times}) <= INTERVAL '{WINDOW}'"
            expected = Counter(map(canonical, connection.sql(text).to_arrow_table().to_pylist()))
            if results[query] != expected:
                console.print(f"[red]{query}: {results[query].total():,} results, DuckDB has {expected.total():,}; this is a bug of ours")
                sys.exit(1)
            console.print(f"  {query}: {expected.total():,} results, exactly once, equal to DuckDB's batch join")


def canonical(row: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, str(value)) for name, value in row.items()))


if __name__ == "__main__":
    main()
