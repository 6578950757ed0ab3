"""JSON records against Spark's own `from_json`: the same value, or the record is rejected; and what Spark rejects is rejected."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from clash.records import RecordFormat, decode

from .comparable import plain
from .json_cases import DOCUMENTS, STRICTER, TYPES, tokens

DUPLICATES = ('"bad","x"', '"a":[],"a"')  # of a field that occurs twice only the last value is looked at: documented


def ours(kind: str, documents: Sequence[bytes], timezone: str) -> tuple[dict[int, Any], dict[int, str]]:
    """The values of the accepted records, and the reasons of the others, by number."""
    decoded = decode(RecordFormat("json", (("a", kind),)), documents, timezone)
    values = decoded.columns["a"]
    values.validate(full=True)
    numbers = range(len(documents)) if decoded.accepted is None else decoded.accepted.tolist()
    assert sorted([*numbers, *decoded.rejected]) == list(range(len(documents)))
    return dict(zip(numbers, plain(values), strict=True)), decoded.rejected


def sparks(spark: Any, kinds: Sequence[str], documents: Sequence[bytes], timezone: str) -> dict[str, list[Any]]:
    """By type, one value per document, or None for a document that FAILFAST would raise for; all in one job.

    In the default mode such a document is in the column `_corrupt_record`; for an empty one Spark gives no row at all.
    """
    spark.conf.set("spark.sql.session.timeZone", timezone)
    frame = spark.createDataFrame([(bytearray(document),) for document in documents], "v binary").coalesce(1)
    rows = frame.selectExpr(*(f"from_json(CAST(v AS string), 'a {kind}, _corrupt_record string') AS r{n}" for n, kind in enumerate(kinds)))
    columns = [f"r{n}.a AS a{n}" for n in range(len(kinds))]
    table = rows.selectExpr(*columns, *(f"r{n} IS NULL OR r{n}._corrupt_record IS NOT NULL AS bad{n}" for n in range(len(kinds)))).toArrow()
    found = {}
    for number, kind in enumerate(kinds):
        values, bad = plain(table[f"a{number}"].combine_chunks()), table[f"bad{number}"].to_pylist()
        found[kind] = [None if is_bad else value for value, is_bad in zip(values, bad, strict=True)]
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    return found


def compare(spark: Any, kinds: Sequence[str], documents: Sequence[bytes], timezone: str) -> dict[str, list[int]]:
    """Assert that no accepted record differs; return, by type, the documents that only Spark accepts."""
    stricter = {}
    for kind, theirs in sparks(spark, kinds, documents, timezone).items():
        accepted, rejected = ours(kind, documents, timezone)
        differing = [
            (kind, documents[number][:100], value, theirs[number])
            for number, value in accepted.items()
            if value != theirs[number] and not any(pair in documents[number].decode() for pair in DUPLICATES)
        ]
        assert differing == []
        stricter[kind] = [number for number in rejected if theirs[number] is not None]
    return stricter


@pytest.mark.parametrize("timezone", ["UTC", "Europe/Berlin"])
def test_tokens_of_all_kinds_for_all_types(spark: Any, timezone: str) -> None:
    cases = tokens()
    stricter = compare(spark, TYPES, [f'{{"a":{token}}}'.encode() for token in cases], timezone)
    found = {kind: {cases[number] for number in numbers} for kind, numbers in stricter.items() if numbers}
    if timezone == "UTC":
        assert found == STRICTER
    assert all(rejected <= STRICTER[kind] for kind, rejected in found.items())  # the first and last times differ by zone


def test_whole_documents(spark: Any) -> None:
    compare(spark, ("int", "string", "double"), DOCUMENTS, "UTC")


def _value(random_: random.Random, depth: int) -> Any:
    choice = random_.randrange(12 if depth else 8)
    if choice == 0:
        return random_.choice([None, True, False, "", "NaN", "-Infinity", "2024-02-29", "2024-02-29T12:34:56.789Z", "1.25", "QUJD"])
    if choice <= 2:
        return random_.randrange(-(10 ** random_.randrange(1, 20)), 10 ** random_.randrange(1, 20))
    if choice <= 4:
        return float(f"{random_.randrange(10 ** random_.randrange(1, 9))}e{random_.randrange(-8, 2)}")
    if choice <= 6:
        return "".join(random_.choices('aé\U0001d4b3"\\\n\t\x01/ 0', k=random_.randrange(5)))
    if choice == 7:
        year, month, day = random_.randrange(1, 9999), random_.randrange(1, 13), random_.randrange(1, 31)
        return f"{year:04}-{month:02}-{day:02} {random_.randrange(25)}:{random_.randrange(60):02}:00.{random_.randrange(10**6)}"
    if choice <= 9:
        return [_value(random_, depth - 1) for _ in range(random_.randrange(4))]
    return {random_.choice('xyzké\U0001d4b3"'): _value(random_, depth - 1) for _ in range(random_.randrange(4))}


def test_random_documents(spark: Any) -> None:
    random_ = random.Random(14)
    documents = [json.dumps({"a": _value(random_, 3), "b": _value(random_, 3)}, ensure_ascii=n % 2 == 0).encode() for n in range(3000)]
    stricter = compare(spark, TYPES, documents, "Europe/Berlin")
    assert len(stricter["double"]) == len(stricter["bigint"]) == 0


@pytest.mark.parametrize("document", ['{"a":1.5}', '{"a":1', '{"a":"1"}'])
def test_what_is_in_the_corrupt_column_fails_a_strict_reader(spark: Any, document: str) -> None:
    from pyspark.sql.functions import from_json

    frame = spark.createDataFrame([(document,)], "v string")
    with pytest.raises(Exception, match="MALFORMED_RECORD"):
        frame.select(from_json("v", "a int", {"mode": "FAILFAST"})).collect()
