"""JSON of rows is what Spark's to_json writes, for every type that results can have."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions

from clash.delivery.json_rows import json_rows

FORMATS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}
VALUES = {
    "tinyint": ["1", "-128"],
    "smallint": ["-300"],
    "int": ["0", "2147483647"],
    "bigint": ["-9223372036854775808"],
    "float": ["0.1", "'NaN'", "'-Infinity'", "1.5E-38", "3.4028235E38", "100", "16777216", "0.001", "-0.0"],
    "double": ["1e7", "1e-3", "1e-5", "123456.789", "'NaN'", "'Infinity'", "2.2250738585072014E-308", "0", "1e300", "-0.0D"],
    "decimal(10,2)": ["12.5", "-0.01", "0"],
    "decimal(20,10)": ["0.0000001", "0", "1.5e-8", "-1234567890.5"],
    "decimal(38,10)": ["-1234567890123456789012345678.1234567890BD"],
    "boolean": ["true", "false"],
    "string": [
        "''",
        r"""'quoted "text" with \\ and / '""",
        r"'\u0000\u0001\u001f\u007f \t\n\r\b\u000c end'",
        "'é 😀 \u2028'",
    ],
    "binary": ["X''", "X'00ff10'"],
    "date": ["'2024-02-29'", "'+12345-01-01'", "'0001-01-01'", "'-0044-03-15'"],
    "timestamp": ["'2024-07-01 12:00:00.123456'", "'2024-01-01 00:00:00'", "'1850-01-01 00:00:00'", "'0001-02-03 04:05:06.7'"],
    "timestamp_ntz": ["'2024-07-01 12:00:00.1'", "'+12345-07-01 12:00:00.1'", "'-0044-07-01 12:00:00'"],
    "interval day to second": ["interval '1 02:03:04.5' day to second", "interval '-0 00:00:00.000001' day to second", "interval '9' day"],
    "array<int>": ["array(1,null,2)", "array()"],
    "array<array<string>>": ["array(array('a', null), null, array())"],
    "array<struct<x:int,y:string>>": ["array(named_struct('x', 1, 'y', null), null)"],
    "struct<x:int,y:struct<z:double>>": ["named_struct('x', null, 'y', named_struct('z', 1.5D))", "named_struct('x', 1, 'y', null)"],
    'struct<`a"b`:int>': ["named_struct('a\"b', 1)"],
    "map<string,int>": ["map('a', 1, 'b\"', null)", "map()"],
    "map<int,array<date>>": ["map(1, array(date'2024-01-01'))"],
    "map<date,timestamp>": ["map(date'2024-01-01', timestamp'2024-01-01 00:00:00.5')"],
    "map<timestamp,boolean>": ["map(timestamp'2024-01-01 00:00:00.5', true)"],
    "map<double,struct<x:int>>": ["map(1.5D, named_struct('x', 1), 1e10D, null)"],
    "map<decimal(20,10),int>": ["map(1e-8, 1)"],
    "map<boolean,binary>": ["map(true, X'00ff')"],
    "void": [],
}


@pytest.mark.parametrize("timezone", ["UTC", "Europe/Berlin", "America/St_Johns", "-03:30"])
def test_every_type_is_written_as_spark_writes_it(spark: Any, timezone: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", timezone)
    try:
        rows = max(len(values) for values in VALUES.values()) + 1
        columns = [[f"cast({value} as {kind})" for value in (*values, *["null"] * (rows - len(values)))] for kind, values in VALUES.items()]
        table = ", ".join(f"({row}, {', '.join(column[row] for column in columns)})" for row in range(rows))
        names = ", ".join(f"`{at} {kind.replace('`', '')}`" for at, kind in enumerate(VALUES))
        frame = spark.sql(f"select * from values {table} as t(n, {names})")
        expected = {json.loads(row[0])["n"]: row[0] for row in frame.select(functions.to_json(functions.struct("*"), FORMATS)).collect()}
        table = frame.toArrow().combine_chunks()
        for batch in (*table.to_batches(), *table.slice(1).to_batches(), *table.slice(2, 3).to_batches()):
            for n, text in zip(batch["n"].to_pylist(), json_rows(_plain(batch), timezone).to_pylist(), strict=True):
                assert text == expected[n]
                json.loads(text)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """With the types of our result files: times are labelled UTC."""

    def plain(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            return pa.timestamp("us", tz="UTC")
        if pa.types.is_map(kind):
            return pa.map_(plain(kind.key_type), plain(kind.item_type))
        if pa.types.is_list(kind):
            return pa.list_(plain(kind.value_type))
        if pa.types.is_struct(kind):
            return pa.struct([pa.field(field.name, plain(field.type)) for field in kind])
        return kind

    return pa.RecordBatch.from_arrays([column.cast(plain(column.type)) for column in batch.columns], batch.schema.names)


def test_no_columns_and_no_rows() -> None:
    assert json_rows(pa.RecordBatch.from_arrays([], names=[]), "UTC").to_pylist() == []
    assert json_rows(pa.record_batch({"a": pa.array([], pa.int64())}), "UTC").to_pylist() == []
    assert json_rows(pa.record_batch({"a": pa.array([None], pa.int64())}), "UTC").to_pylist() == ["{}"]
