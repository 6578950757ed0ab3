"""Result files are Parquet that any reader takes: packed integers, everything else compressed, the same values."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import clash
from clash.protocol.result_files import staged_path
from clash.workers.result_writer import ResultWriter

from .batches import checkpoint, stream

LARGE = 10**17
VALUES: dict[str, tuple[pa.DataType, list[object]]] = {
    "long": (pa.int64(), [-(2**63), None, 2**63 - 1, 0]),
    "int": (pa.int32(), [-(2**31), 2**31 - 1, None, 7]),
    "short": (pa.int16(), [-5, 5, None, 1]),
    "byte": (pa.int8(), [-128, 127, None, 1]),
    "date": (pa.date32(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None, datetime.date(2026, 11, 18)]),
    "time": (pa.timestamp("us"), [datetime.datetime(1970, 1, 1), None, datetime.datetime(2262, 1, 1), datetime.datetime(1900, 1, 1)]),
    "small": (pa.decimal128(5, 2), [Decimal("-999.99"), Decimal("0.01"), None, Decimal("1.00")]),
    "money": (pa.decimal128(18, 2), [Decimal(-LARGE) / 100, Decimal(LARGE) / 100, None, Decimal("0.01")]),
    "wide": (pa.decimal128(38, 3), [Decimal("0.001"), Decimal(LARGE) * LARGE / 10, None, Decimal("-1.000")]),
    "text": (pa.string(), ["a", None, "", "é"]),
    "double": (pa.float64(), [0.5, None, -1e300, 0.0]),
    "flag": (pa.bool_(), [True, False, None, True]),
}
PACKED = {"long", "int", "short", "byte", "date", "time", "small", "money"}
NESTED: dict[str, tuple[pa.DataType, list[object]]] = {"list": (pa.list_(pa.int64()), [[1, None], [], None, [3]])}


def written(table: pa.Table, folder: Path) -> Path:
    """The file of a task whose results are these rows, in two pieces."""
    plan = clash.optimize({"q": "SELECT R.v FROM R JOIN S ON R.a = S.a"}, streams=[stream("R"), stream("S")], time_limit=0.0)
    spec = checkpoint(plan, uri=str(folder)).spec(sinks={"q": (str(folder), "results/q")})
    writer = ResultWriter(spec, "r1-w0")
    for piece in (table.slice(0, 1), table.slice(1)):
        writer.add("q", piece.combine_chunks().to_batches()[0])
    (file,) = writer.close()
    assert (file.destination, file.rows) == ("q", table.num_rows)
    return folder / staged_path("results/q", file.name)


@pytest.mark.parametrize("values", [VALUES, {**VALUES, **NESTED}])
def test_every_value_comes_back(values: dict[str, tuple[pa.DataType, list[object]]], tmp_path: Path) -> None:
    table = pa.table({name: pa.array(column, kind) for name, (kind, column) in values.items()})
    path = written(table, tmp_path)
    assert pq.read_table(path).equals(table)
    assert duckdb.sql(f"SELECT * FROM '{path}'").fetchall() == [tuple(row.values()) for row in table.to_pylist()]


def test_integers_are_packed_and_the_rest_is_compressed(tmp_path: Path) -> None:
    table = pa.table({name: pa.array(column, kind) for name, (kind, column) in VALUES.items()})
    group = pq.read_metadata(written(table, tmp_path)).row_group(0)
    for column in (group.column(number) for number in range(group.num_columns)):
        is_packed = column.path_in_schema in PACKED
        assert ("DELTA_BINARY_PACKED" in column.encodings, column.compression == "UNCOMPRESSED") == (is_packed, is_packed)
