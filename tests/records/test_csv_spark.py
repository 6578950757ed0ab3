"""CSV records against Spark's own `from_csv`: the same value, or the record is rejected; and what Spark rejects is rejected."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from clash.records import RecordFormat, decode

from .comparable import plain
from .csv_cases import FIELDS, LINES, STRICTER, TYPES


def sparks(spark: Any, schemas: Sequence[str], values: Sequence[bytes], separator: str = ",") -> list[list[Any]]:
    """By schema, for each value the columns as text, or None for a value that FAILFAST would raise for; all in one job."""
    frame = spark.createDataFrame([(bytearray(value),) for value in values], "v binary").coalesce(1)
    options = f"map('sep', '{separator}')"
    rows = frame.selectExpr(
        *(f"from_csv(CAST(v AS string), '{schema}, _corrupt_record string', {options}) AS r{n}" for n, schema in enumerate(schemas))
    )
    table = rows.toArrow()
    found = []
    for number in range(len(schemas)):
        row = table[f"r{number}"].combine_chunks()
        *columns, corrupt = row.flatten()
        texts = zip(*(plain(column) for column in columns), strict=True)
        found.append([None if bad is not None else text for text, bad in zip(texts, corrupt.to_pylist(), strict=True)])
    return found


def ours(schema: str, values: Sequence[bytes], separator: str = ",") -> tuple[dict[int, Any], dict[int, str]]:
    columns = tuple(tuple(column.rsplit(" ", 1)) for column in schema.split(", "))
    decoded = decode(RecordFormat("csv", columns, separator=separator), values, "UTC")  # type: ignore[arg-type]
    for array in decoded.columns.values():
        array.validate(full=True)
    numbers = range(len(values)) if decoded.accepted is None else decoded.accepted.tolist()
    assert sorted([*numbers, *decoded.rejected]) == list(range(len(values)))
    rows = zip(*(plain(array) for array in decoded.columns.values()), strict=True)
    return dict(zip(numbers, rows, strict=True)), decoded.rejected


def test_fields_of_all_kinds_for_all_types(spark: Any) -> None:
    values = [field.encode() for field in FIELDS]
    stricter = {}
    for kind, theirs in zip(TYPES, sparks(spark, [f"a {kind}" for kind in TYPES], values), strict=True):
        accepted, rejected = ours(f"a {kind}", values)
        assert [(kind, values[n], row, theirs[n]) for n, row in accepted.items() if row != theirs[n]] == []
        stricter[kind] = {FIELDS[n] for n in rejected if theirs[n] is not None} - {""}
    days = stricter.pop("date")
    assert {kind: fields for kind, fields in stricter.items() if fields} == STRICTER
    assert all(field.strip().lstrip("+-").isdigit() for field in days)  # which Spark takes for days since 1970


def test_whole_lines(spark: Any) -> None:
    [theirs] = sparks(spark, ["a string, b string"], LINES)
    accepted, rejected = ours("a string, b string", LINES)
    assert [(LINES[n], row, theirs[n]) for n, row in accepted.items() if row != theirs[n]] == []
    assert len(rejected) < len(LINES) // 2


def test_random_lines(spark: Any) -> None:
    random_ = random.Random(14)
    pieces = ['"', '"', "\\", ";", ";", ";", "x", "é", "1", " ", "\n", ",", "2024-02-29"]
    values = ["".join(random_.choices(pieces, k=random_.randrange(1, 12))).encode() for _ in range(4000)]
    values += [f'"{a}";"{b}"'.encode() for a, b in zip(values[::2], values[1::2], strict=True) for a, b in [(a.decode(), b.decode())]]
    [theirs] = sparks(spark, ["a string, b string"], values, ";")
    accepted, _ = ours("a string, b string", values, ";")
    assert [(values[n], row, theirs[n]) for n, row in accepted.items() if row != theirs[n]] == []
    assert len(accepted) > 500


def test_random_numbers(spark: Any) -> None:
    random_ = random.Random(15)
    kinds = [kind for kind in TYPES if kind not in ("string", "binary")]
    values = ["".join(random_.choices("0123456789.eE+-:T Z", k=random_.randrange(1, 9))).encode() for _ in range(2000)]
    values += [f"{random_.uniform(-1, 1) * 10 ** random_.randrange(-60, 60)}".encode() for _ in range(500)]
    for kind, theirs in zip(kinds, sparks(spark, [f"a {kind}" for kind in kinds], values), strict=True):
        accepted, _ = ours(f"a {kind}", values)
        assert [(kind, values[n], row, theirs[n]) for n, row in accepted.items() if row != theirs[n]] == []
