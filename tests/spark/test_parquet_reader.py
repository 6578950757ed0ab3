"""Files that tasks read give the rows of Spark's scan; where that is not certain, they are not read."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

import clash
from clash.expressions.arrow_types import arrow_type
from clash.model.expressions import Call, Col, Expr, Lit
from clash.model.relation import Relation
from clash.spark.parquet_reader import FileColumn, FileRead, FileReads, FileSlice, FileSlices, read_slices, readable_files

UTC = pa.timestamp("us", tz="UTC")
KINDS = {
    "b": "boolean",
    "i8": "tinyint",
    "i16": "smallint",
    "i32": "int",
    "i64": "bigint",
    "f": "float",
    "d": "double",
    "s": "string",
    "raw": "binary",
    "day": "date",
    "at": "timestamp",
    "wall": "timestamp_ntz",
    "small": "decimal(5,2)",
    "long": "decimal(18,4)",
    "wide": "decimal(38,10)",
    "list": "array<int>",
    "names": "array<string>",
    "inner": "struct<x:int,y:string,z:array<timestamp>>",
    "table": "map<string,bigint>",
    "deep": "array<struct<k:string,v:map<string,array<date>>>>",
}


def value(kind: str, at: int) -> Any:
    old, day = dt.datetime(1, 1, 1) + dt.timedelta(days=at * 999), dt.date(1, 1, 1) + dt.timedelta(days=at * 3000)
    special = [float("nan"), -0.0, float("inf"), 1.5]
    listed = [] if at % 5 == 0 else [at, None]
    found: dict[str, Any] = {
        "b": at % 2 == 0, "i8": at % 256 - 128, "i16": at - 300, "i32": at - (1 << 31), "i64": (1 << 63) - 1 - at,
        "f": special[at % 4], "d": special[at % 4], "s": "ä" * (at % 7), "raw": bytes([at % 256, 0, 255]), "day": day,
        "at": old.replace(tzinfo=dt.UTC), "wall": old, "small": Decimal(at - 300) / 100, "long": Decimal(at) / 10000,
        "wide": Decimal(10) ** 27 + at, "list": listed, "names": [str(at)] * (at % 3),
        "inner": {"x": None if at % 3 else at, "y": "", "z": [old.replace(tzinfo=dt.UTC), None]}, "table": [("k", at), ("n", None)],
        "deep": [None, {"k": None, "v": [("a", [day, None]), ("b", None)]}],
    }  # fmt: skip
    return None if at % 11 == 3 else found[kind]


def rows_of(count: int, first: int = 0) -> pa.Table:
    return pa.table({name: pa.array([value(name, first + at) for at in range(count)], arrow_type(kind)) for name, kind in KINDS.items()})


def counted(table: pa.Table) -> Counter[str]:
    return Counter(map(str, table.to_pylist()))


def wanted(kinds: dict[str, str], *filters: Expr) -> FileRead:
    return FileRead(tuple(FileColumn(name, name, kind) for name, kind in kinds.items()), filters)


def slice_files(path_by_stream: dict[str, list[str]], reads: FileReads, parts: int, plain_calendar: bool) -> list[FileSlices] | None:
    files = readable_files(path_by_stream, reads, plain_calendar)
    return None if files is None else files.slices(parts)


def directly(paths: list[Path], kinds: dict[str, str], parts: int = 3) -> pa.Table | None:
    reads = {"R": wanted(kinds)}
    pieces = slice_files({"R": [str(path) for path in paths]}, reads, parts, True)
    if pieces is None:
        return None
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in kinds.items()])
    sizes = [sum(piece.rows for piece in part) for part in pieces]
    assert max(sizes) - min(sizes) <= 1
    return pa.Table.from_batches([batch for part in pieces for _, batch in read_slices(part, reads, 0)], schema)


def scanned(spark: Any, paths: list[Path], kinds: dict[str, str]) -> pa.Table:
    schema = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    table = spark.read.schema(schema).parquet(*map(str, paths)).toArrow()
    return table.cast(pa.schema([(name, arrow_type(kind)) for name, kind in kinds.items()]))


def test_every_type_comes_out_as_from_a_scan(spark: Any, tmp_path: Path) -> None:
    pq.write_table(rows_of(600), tmp_path / "a.parquet", row_group_size=37)
    few = rows_of(50, 600).drop_columns(["s", "deep", "at"]).append_column("more", pa.array(range(50)))
    pq.write_table(few, tmp_path / "b.parquet", compression="zstd", use_dictionary=False, version="1.0")
    pq.write_table(rows_of(0), tmp_path / "c.parquet")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    rows = rows_of(90, 700)
    spark.createDataFrame(rows, from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)).coalesce(1).write.parquet(str(tmp_path / "d"))
    spark.conf.unset("spark.sql.parquet.outputTimestampType")
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet", tmp_path / "c.parquet", *(tmp_path / "d").glob("*.parquet")]
    found = directly(paths, KINDS)
    assert found is not None
    assert found.num_rows == 740
    assert counted(found) == counted(scanned(spark, paths, KINDS))


@pytest.mark.parametrize(
    ("stored", "kind"),
    [
        (pa.array([1, None], pa.timestamp("ms", tz="UTC")), "timestamp"),
        (pa.array([-1, None], pa.timestamp("ms")), "timestamp_ntz"),
        (pa.array([1, None], pa.timestamp("us", tz="Europe/Berlin")), "timestamp"),
        (pa.array(["a", None], pa.large_string()), "string"),
        (pa.array(["a", None, "a"]).dictionary_encode(), "string"),
        (pa.array([b"a", None], pa.large_binary()), "binary"),
    ],
    ids=str,
)
def test_a_plain_cast_is_what_a_scan_does(spark: Any, tmp_path: Path, stored: pa.Array, kind: str) -> None:
    pq.write_table(pa.table({"v": stored}), tmp_path / "f.parquet")
    found = directly([tmp_path / "f.parquet"], {"v": kind})
    assert found is not None
    assert counted(found) == counted(scanned(spark, [tmp_path / "f.parquet"], {"v": kind}))


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        (pa.table({"v": pa.array([1], pa.int32())}), "bigint"),
        (pa.table({"v": pa.array([1], pa.int64())}), "int"),
        (pa.table({"v": pa.array([1], pa.uint32())}), "bigint"),
        (pa.table({"v": pa.array([1.0], pa.float32())}), "double"),
        (pa.table({"v": pa.array([1], pa.timestamp("ns", tz="UTC"))}), "timestamp"),
        (pa.table({"v": pa.array([1], pa.timestamp("us"))}), "timestamp"),
        (pa.table({"v": pa.array([1], pa.timestamp("us", tz="UTC"))}), "timestamp_ntz"),
        (pa.table({"v": pa.array([1], pa.decimal128(10, 2))}), "decimal(10,3)"),
        (pa.table({"v": pa.array([b"ab"], pa.binary(2))}), "binary"),
        (pa.table({"v": pa.array([b"ab"])}), "string"),
        (pa.table({"v": pa.array([{"y": 1, "x": 1}], pa.struct([("y", pa.int32()), ("x", pa.int32())]))}), "struct<x:int,y:int>"),
        (pa.table({"v": pa.array([{"x": 1}], pa.struct([("x", pa.int32())]))}), "struct<x:int,y:int>"),
        (pa.table({"V": pa.array([1])}), "bigint"),
        (pa.table({"v": pa.array([1]), "V": pa.array([1])}), "bigint"),
        (pa.table({"w": pa.array([1])}), "bigint"),
    ],
    ids=str,
)
def test_what_may_mean_something_else_is_left_to_spark(tmp_path: Path, table: pa.Table, kind: str) -> None:
    pq.write_table(table, tmp_path / "f.parquet")
    assert directly([tmp_path / "f.parquet"], {"v": kind}) is None


def test_old_calendars_and_int96_are_left_to_spark(tmp_path: Path) -> None:
    path, days = tmp_path / "f.parquet", pa.table({"v": pa.array([dt.date(1500, 1, 1)])})
    for metadata, plain in ((None, True), ({"org.apache.spark.version": "2.4.8"}, False), ({"org.apache.spark.version": "4.2.1"}, True)):
        pq.write_table(days.replace_schema_metadata(metadata), path)
        assert (directly([path], {"v": "date"}) is not None) == plain
    pq.write_table(days.replace_schema_metadata({"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""}), path)
    assert directly([path], {"v": "date"}) is None
    pq.write_table(days, path)
    assert slice_files({"R": [str(path)]}, {"R": wanted({"v": "date"})}, 1, False) is None
    pq.write_table(pa.table({"v": pa.array([1], UTC)}), path, use_deprecated_int96_timestamps=True)
    assert directly([path], {"v": "timestamp"}) is None


def test_lists_in_two_levels_are_left_to_spark(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"v": pa.array([[1]], pa.list_(pa.int32()))}), path, use_compliant_nested_type=False)
    assert directly([path], {"v": "array<int>"}) is not None  # `item` for `element` changes nothing
    pq.write_table(pa.table({"v.w": pa.array([1])}), path)
    assert directly([path], {"v.w": "bigint"}) is None


def test_a_file_that_cannot_be_opened_is_sparks_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    path, reads = tmp_path / "f.parquet", {"R": wanted({"v": "bigint"})}
    path.write_bytes(b"this is not Parquet, but long enough for a footer")
    assert directly([path], {"v": "bigint"}) is None
    pq.write_table(pa.table({"v": range(1000)}), path)
    pieces = slice_files({"R": [str(path)]}, reads, 1, True)
    assert pieces == [(FileSlice(("R",), str(path), (0,), 0, 1000),)]
    damaged = bytearray(path.read_bytes())
    damaged[4:400] = bytes(396)
    path.write_bytes(bytes(damaged))
    with pytest.raises(clash.SourceError) as found:
        list(read_slices(pieces[0], reads, 7))
    assert found.value.what == "stream R cannot be read"
    assert f"batch 7, file file://{path}, " in found.value.detail
    pq.write_table(pa.table({"v": range(10)}), path)
    with pytest.raises(clash.SourceError, match="990 rows less"):
        list(read_slices(pieces[0], reads, 7))


def test_streams_out_of_one_file_read_it_once(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    kinds = ["a", "b", None, "a", "c"] * 200
    pq.write_table(pa.table({"kind": kinds, "v": range(1000), "w": range(1000, 2000)}), path, row_group_size=300)

    def of(kind: str) -> Expr:
        return Call("=", (Col(Relation("files"), "kind", "string"), Lit(kind, "string")), "boolean")

    reads = {
        "A": wanted({"v": "bigint"}, of("a")),
        "B": FileRead((FileColumn("renamed", "w", "bigint"), FileColumn("absent", "x", "int")), (of("b"),)),
        "none": wanted({"v": "bigint"}, of("d")),
        "all": wanted({"kind": "string"}),
    }
    pieces = slice_files({stream: [str(path)] for stream in reads}, reads, 3, True)
    assert pieces is not None
    assert sum(piece.rows for part in pieces for piece in part) == 1000
    found: dict[str, list[dict[str, Any]]] = {stream: [] for stream in reads}
    for part in pieces:
        for stream, rows in read_slices(part, reads, 0):
            found[stream] += rows.to_pylist()
    assert found == {
        "A": [{"v": at} for at, kind in enumerate(kinds) if kind == "a"],
        "B": [{"renamed": at + 1000, "absent": None} for at, kind in enumerate(kinds) if kind == "b"],
        "none": [],
        "all": [{"kind": kind} for kind in kinds],
    }
