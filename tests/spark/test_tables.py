"""Reference tables on Spark: files that are refreshed, expressions that Spark computes of them, reads that fail, restarts."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import clash

PAIR = "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id"
COMPUTED = "SELECT o.id, soundex(c.name) AS s FROM orders o JOIN customers c ON o.customer = c.id WHERE c.at.city[0] <> 'nowhere'"
CUSTOMERS = pa.struct([("city", pa.list_(pa.string()))])


class Shop:
    """Orders come as files; customers are files that are replaced."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark, self.root, self.batches = spark, root, 0
        for folder in ("orders", "customers"):
            (root / folder).mkdir()

    def orders(self, *customers: int | None) -> None:
        ids = [100 * self.batches + at for at in range(len(customers))]
        rows = pa.table({"id": pa.array(ids, pa.int64()), "customer": pa.array(customers, pa.int64())})
        pq.write_table(rows, self.root / "orders" / f"{self.batches}.parquet")
        self.batches += 1

    def customers(self, file: int, **named: int | None) -> None:
        columns = {
            "id": pa.array(named.values(), pa.int64()),
            "name": pa.array(named.keys(), pa.string()),
            "at": pa.array([{"city": ["here"]}] * len(named), CUSTOMERS),
        }
        pq.write_table(pa.table(columns), self.root / "customers" / f"{file}.parquet")

    def read(self) -> Any:
        return self.spark.read.schema("id long, name string, at struct<city: array<string>>").parquet(str(self.root / "customers"))

    def engine(self, checkpoint: str, frame: Any = None, refresh: str | None = None, **queries: str) -> Any:
        engine = clash.Engine(self.spark, checkpoint=checkpoint, workers=2, epoch=1)
        engine.stream("orders", self.spark.readStream.schema("id long, customer long").parquet(str(self.root / "orders")))
        engine.table("customers", self.read() if frame is None else frame, refresh)
        for name, text in (queries or {"pair": PAIR}).items():
            engine.query(name, text)
        return engine


@pytest.fixture
def shop(spark: Any, tmp_path: Path) -> Shop:
    return Shop(spark, tmp_path)


def found(run: Any, query: str = "pair") -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in run.results(query).collect())


def wait(until: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not until():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_table_of_files_is_refreshed_by_call(shop: Shop, checkpoint: str) -> None:
    shop.customers(0, ann=1, bob=2)
    shop.orders(1, 2, 3, None)
    run = shop.engine(checkpoint, pair=PAIR, computed=COMPUTED).start()
    run.process_all_available()
    assert found(run) == {(0, "ann"): 1, (1, "bob"): 1}
    assert found(run, "computed") == {(0, "A500"): 1, (1, "B100"): 1}
    shop.customers(1, cid=3, dan=1)  # a further file, and one that is replaced
    shop.customers(0, bob=2)
    change = run.refresh("customers")
    shop.orders(1, 2, 3)
    run.process_all_available()
    assert change.wait("30 seconds") == 1
    assert found(run) == {(0, "ann"): 1, (1, "bob"): 1, (100, "dan"): 1, (101, "bob"): 1, (102, "cid"): 1}
    shown = run.progress["tables"]["customers"]
    assert (shown["version"], shown["rows"], shown["error"]) == (2, 3, None)
    assert shown["age"] >= 0
    assert "\ncustomers" in str(run.progress)
    assert "tables: 1" in str(run)
    assert "\nTABLES" in run.explain()
    added = run.add_query("later", "SELECT o.id, levenshtein(c.name, 'dan') AS d FROM orders o JOIN customers c ON o.customer = c.id")
    run.table("regions", shop.spark.createDataFrame([(1, "north")], "id long, region string"))
    both = "SELECT o.id, c.name, r.region FROM orders o JOIN customers c ON o.customer = c.id JOIN regions r ON r.id = c.id"
    run.add_query("both", both)
    shop.orders(1, 2)
    run.process_all_available()
    assert added.complete_from == added.batch == 2
    assert found(run, "later") == {(200, 0): 1, (201, 3): 1}
    assert found(run, "both") == {(200, "dan", "north"): 1}
    run.stop()
    with pytest.raises(clash.ClashError):
        run.refresh("customers")


def test_a_program_that_starts_again_goes_on_with_all_of_it(shop: Shop, checkpoint: str) -> None:
    shop.customers(0, ann=1)
    shop.orders(1)
    engine = shop.engine(checkpoint)
    run = engine.start()
    run.add_query("later", "SELECT o.id, soundex(c.name) AS s FROM orders o JOIN customers c ON o.customer = c.id")
    shop.orders(1)
    run.process_all_available()
    run.stop()
    shop.customers(0, ben=1)
    shop.orders(1)
    run = shop.engine(checkpoint).start(available_now=True)  # "later" needs a column that this program does not name
    run.await_termination()
    assert found(run)[200, "ben"] == 1
    assert found(run, "later")[200, "B500"] == 1
    other = shop.read().selectExpr("id", "id AS name")
    with pytest.raises(clash.CheckpointError) as refused:
        shop.engine(checkpoint, other).start()
    assert refused.value.what == "the checkpoint belongs to another job"
    assert "column customers.name was string, now bigint" in refused.value.detail


def test_a_table_is_read_again_after_its_interval(shop: Shop, checkpoint: str, caplog: pytest.LogCaptureFixture) -> None:
    shop.customers(0, ann=1)
    shop.orders(1)
    works = [True]

    def read() -> Any:
        if not works[0]:
            raise OSError("the disk is away")
        return shop.read()

    run = shop.engine(checkpoint, read, "1 second").start()
    run.process_all_available()
    shop.customers(0, bob=1)
    wait(lambda: run.progress["tables"]["customers"]["version"] == 2)
    shop.orders(1)
    run.process_all_available()
    works[0] = False
    with caplog.at_level(logging.CRITICAL, "clash"):
        wait(lambda: run.progress["tables"]["customers"]["error"] is not None)
        assert run.progress["tables"]["customers"]["error"] == "a table cannot be read: table customers: the disk is away"
        with pytest.raises(clash.SourceError, match="a table cannot be read") as failed:
            run.refresh("customers")
        assert failed.value.hint
        shop.orders(1)
        run.process_all_available()  # the stream goes on
        assert found(run) == {(0, "ann"): 1, (100, "bob"): 1, (200, "bob"): 1}
        run.stop()
        shop.orders(1)
        run = shop.engine(checkpoint, shop.read().where("id / 0 > 1")).start(available_now=True)
        run.await_termination()  # it cannot be read, and the checkpoint has a version with the same columns
        assert found(run)[300, "bob"] == 1
        other = shop.read().selectExpr("*", "id / 0 AS x")
        assert refused(shop.engine(checkpoint, other).start).what == "a table has other columns than its last version"


def refused(call: Callable[[], object]) -> clash.ClashError:
    with pytest.raises(clash.ClashError) as error:
        call()
    assert error.value.hint
    return error.value


def test_what_is_not_a_table_is_refused(shop: Shop, spark: Any, checkpoint: str) -> None:
    engine = clash.Engine(spark, checkpoint=checkpoint)
    stream = spark.readStream.schema("id long").parquet(str(shop.root / "orders"))
    assert refused(lambda: engine.table("t", stream)).what == "the DataFrame is a stream"
    assert refused(lambda: engine.stream("t", spark.range(3))).what == "the DataFrame is not a stream"
    assert refused(lambda: engine.table("t", 5)).what == "table t is not a DataFrame"
    assert refused(lambda: engine.table("t", lambda: 5)).what == "table t is not a DataFrame"
    assert refused(lambda: engine.table("1t", spark.range(3))).what == "not a valid table name"
    assert refused(lambda: engine.table("t", spark.range(3), "soon")).what
    assert refused(lambda: engine.table("t", spark.range(3), "1 millisecond")).what == "the refresh interval is too short"
    assert refused(lambda: engine.table("t", spark.range(3).selectExpr("id", "id AS ID"))).what == "two columns of one name"
    engine.table("t", spark.range(3).selectExpr("id", "id / 0 AS x"))
    assert "of that name already" in refused(lambda: engine.table("T", spark.range(3))).what
    assert refused(lambda: engine.query("q", "SELECT id FROM t")).what == "the query reads no stream"
    engine.view("large", "SELECT id, x FROM t WHERE id > 1")  # of a table alone, but queries join it with streams
    engine.stream("s", stream)
    engine.query("q", "SELECT v.x FROM s JOIN large v ON s.id = v.id")
    error = refused(engine.start)
    assert error.what == "a table cannot be read"
    assert "DIVIDE_BY_ZERO" in error.detail
