"""Counts what of TPC-H and TPC-DS is accepted: `python -m tests.suites [tpch|tpcds] [answers]`.

With `answers`, all that are accepted whole are run as streams, and their results compared with those of Spark's batch.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.servers.programs import find
from tests.suites.answers import differing, write_files
from tests.suites.data import tables
from tests.suites.survey import Survey, local_spark
from tests.suites.texts import Schema, schema

_AT_ONCE = 7  # queries of one engine


def main() -> None:
    jar = find("spark-tests")
    if jar is None:
        sys.exit("the texts cannot be had: scripts/test_servers.py spark-tests")
    spark = local_spark()
    names = [name for name in sys.argv[1:] if name != "answers"]
    for suite in names or ("tpch", "tpcds"):
        survey = Survey(spark, jar, suite)
        sys.stdout.writelines(f"{line}\n" for line in _report(suite, survey))
        if len(names) < len(sys.argv) - 1:
            sys.stdout.writelines(f"{line}\n" for line in _answers(spark, schema(jar, suite), survey.whole))
    spark.stop()


def _answers(spark: Any, tables_of: Schema, queries: dict[str, str]) -> Iterator[str]:
    for at in range(0, len(queries), _AT_ONCE):
        some = dict(list(queries.items())[at : at + _AT_ONCE])
        with TemporaryDirectory() as folder:
            write_files(Path(folder), tables(tables_of, some.values(), at))
            wrong, counts = differing(spark, Path(folder), tables_of, some)
        yield from (f"  {name:6} {wrong.get(name, f'equal, {count} rows')}" for name, count in counts.items())


def _report(suite: str, survey: Survey) -> Iterator[str]:
    yield f"{suite}: {survey.summary()}"
    for name, found in survey.found.items():
        accepted = "whole" if not found.whole else "cores" if found.has_cores and not found.refused_cores else "-"
        yield f"  {name:6} {accepted:6} {found.whole}"
        yield from (f"         core: {reason}" for reason in found.refused_cores)
    for reason, count in Counter(found.whole.split(":")[0] for found in survey.found.values() if found.whole).most_common():
        yield f"  {count:4} {reason}"


if __name__ == "__main__":
    main()
