"""Streams onto shared columns and back, without Spark."""

from __future__ import annotations

import pyarrow as pa

from clash.spark.column_packing import assign_packed_columns, quoted, unpack_streams


def test_columns_of_one_type_share_places() -> None:
    places = assign_packed_columns(
        {
            "R": [("a", "bigint"), ("b", "bigint"), ("t", "timestamp")],
            "S": [("x", "string"), ("a", "bigint")],
            "T": [],
            "U": [("n", "struct<A:int>"), ("m", "struct<a:int>"), ("k", "struct<A:int>")],
        }
    )
    assert places == (
        ("R", (("a", "c0_0"), ("b", "c0_1"), ("t", "c1_0"))),
        ("S", (("x", "c2_0"), ("a", "c0_0"))),
        ("T", ()),
        ("U", (("n", "c3_0"), ("m", "c4_0"), ("k", "c3_1"))),
    )


def test_runs_of_rows_come_back_as_their_stream() -> None:
    places = assign_packed_columns({"R": [("a", "bigint"), ("b", "bigint")], "S": [("b", "bigint")], "T": []})
    packed = pa.record_batch(
        {
            "stream": pa.array([1, 1, 0, 2, 2, 2, 0], pa.int32()),
            "c0_0": pa.array([10, 11, 1, None, None, None, 2]),
            "c0_1": pa.array([None, None, 5, None, None, None, 6]),
        }
    )
    found = list(unpack_streams([packed.slice(0, 0), packed], places))
    assert [(stream, rows.schema.names, rows.num_rows) for stream, rows in found] == [
        ("S", ["b"], 2),
        ("R", ["a", "b"], 1),
        ("T", [], 3),
        ("R", ["a", "b"], 1),
    ]
    assert found[0][1].to_pydict() == {"b": [10, 11]}
    assert found[3][1].to_pydict() == {"a": [2], "b": [6]}


def test_odd_names() -> None:
    assert quoted("a.b`c") == "`a.b``c`"
