"""Small random data for the queries of a suite, made so that their answers have rows.

Values of a column come from the constants that queries compare it with, and from a few others; keys are few, so that joins meet. Beside
these rows, each query has groups of rows of its own: one key for all tables, so that they all join, and values that this query asks for.
Dates of a calendar agree with each other, because queries ask for years and months and compare dates.
"""

from __future__ import annotations

import datetime
import re
from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from tests.suites.texts import Schema

_KEYS = 14  # distinct values of each key, and rows of a table that has a key of its own
_FACTS = 500  # rows of others
_FACT_TABLES = {
    "store_sales", "store_returns", "catalog_sales", "catalog_returns", "web_sales", "web_returns", "inventory", "lineitem", "partsupp",
}  # fmt: skip
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_QUARTER = re.compile(r"(\d{4})Q([1-4])")
_SHARE = 0.8  # of values that some query asks for
_GROUPS = 25  # of rows that are made for one query
_FACTS_OF_GROUP = 2  # of each such table


def constants(texts: Iterable[str]) -> dict[str, list[str]]:
    """By column, what the queries compare it with."""
    found: dict[str, set[str]] = defaultdict(set)
    for text in texts:
        for node in sqlglot.parse_one(text, dialect="spark").find_all(
            exp.EQ, exp.In, exp.Between, exp.GT, exp.LT, exp.GTE, exp.LTE, exp.Like
        ):
            names = {column.name.lower() for column in node.find_all(exp.Column)}
            if len(names) == 1 and node.find(exp.Query) is None:
                found[names.pop()] |= {_written(literal) for literal in node.find_all(exp.Literal)}
    return {name: sorted(values) for name, values in found.items()}


def _written(literal: exp.Literal) -> str:
    return f"-{literal.name}" if isinstance(literal.parent, exp.Neg) else str(literal.name)


def tables(schema: Schema, texts: Iterable[str], seed: int) -> dict[str, pa.Table]:
    """The rows of all tables."""
    texts = list(texts)
    random, asked = Random(seed), constants(texts)
    by_query = [constants([text]) for text in texts]
    made = {}
    for table, columns in schema.items():
        is_fact = table in _FACT_TABLES
        rows = [_row(table, columns, asked, random, number) for number in range(_FACTS if is_fact else _KEYS)]
        for group in range(len(texts) * _GROUPS):
            wanted, key = by_query[group // _GROUPS], _KEYS + 1 + group
            rows += [_row_of_group(table, columns, wanted, random, key) for _ in range(_FACTS_OF_GROUP if is_fact else 1)]
        made[table] = pa.Table.from_pylist(rows, pa.schema([(name, _arrow(kind)) for name, kind in columns.items()]))
    return made


def _row(table: str, columns: dict[str, str], asked: dict[str, list[str]], random: Random, number: int) -> dict[str, Any]:
    row = {name: _value(name, kind, asked.get(name, []), random) for name, kind in columns.items()}
    if table == "date_dim":
        row |= _day(random, asked)
    if table not in _FACT_TABLES:
        row[next(iter(columns))] = number + 1
    return row


def _row_of_group(table: str, columns: dict[str, str], asked: dict[str, list[str]], random: Random, key: int) -> dict[str, Any]:
    """All its keys are the group's, and what the query asks for is what it gets."""
    row = {name: key if _is_key(name, kind) else _value(name, kind, asked.get(name, []), random, 1.0) for name, kind in columns.items()}
    if table == "date_dim":
        row |= _day(random, asked)
    if table not in _FACT_TABLES:
        row[next(iter(columns))] = key
    return row


def _is_key(name: str, kind: str) -> bool:
    return name.endswith(("_sk", "key")) or (kind in ("int", "bigint") and name.endswith(("_number", "_linenumber")))


def _day(random: Random, asked: dict[str, list[str]]) -> dict[str, Any]:
    """The columns of a calendar's row that are about its day: often one of a year and month that some query asks for."""
    dates = [text for text in asked.get("d_date", []) if _DATE.fullmatch(text)]
    years = [int(text) for text in asked.get("d_year", []) if re.fullmatch("[12][0-9]{3}", text)] or [2000]
    months = [int(text) for text in asked.get("d_moy", []) if text.isdigit() and 1 <= int(text) <= 12] or [1, 4, 12]
    day = datetime.date(random.choice(years), random.choice(months), random.randrange(1, 29))
    months_counted = [int(text) for text in asked.get("d_month_seq", []) if re.fullmatch("1[0-9]{3}", text)]
    quarters = [found for text in asked.get("d_quarter_name", []) if (found := _QUARTER.fullmatch(text))]
    if months_counted and random.random() < 0.5:
        month = random.choice(months_counted)
        day = datetime.date(1900 + month // 12, month % 12 + 1, day.day)
    if quarters and random.random() < 0.7:
        quarter = random.choice(quarters)
        day = datetime.date(int(quarter[1]), 3 * int(quarter[2]) - random.randrange(3), day.day)
    if dates and random.random() < 0.4:
        day = datetime.date.fromisoformat(random.choice(dates)) + datetime.timedelta(days=random.randrange(-20, 50))
    month_seq = (day.year - 1900) * 12 + day.month - 1
    return {
        "d_date": day, "d_year": day.year, "d_moy": day.month, "d_dom": day.day, "d_qoy": (day.month + 2) // 3,
        "d_dow": day.isoweekday() % 7, "d_month_seq": month_seq, "d_week_seq": day.toordinal() // 7, "d_day_name": day.strftime("%A"),
        "d_quarter_name": f"{day.year}Q{(day.month + 2) // 3}", "d_quarter_seq": month_seq // 3,
    }  # fmt: skip


def _value(name: str, kind: str, asked: list[str], random: Random, share: float = _SHARE) -> Any:
    if random.random() < 0.03:
        return None
    if _is_key(name, kind):
        return random.randrange(1, _KEYS + 1)
    wanted = random.choice(asked) if asked and random.random() < share else None
    if kind == "string":
        text = wanted if wanted is not None else random.choice(["", "a", "Unknown", "ese", "pri"])
        return re.sub("%", random.choice(["", "x"]), text)
    if kind == "date":
        day = datetime.date(1994, 1, 1) + datetime.timedelta(days=random.randrange(365 * 6))
        if wanted is not None and _DATE.fullmatch(wanted):
            day = datetime.date.fromisoformat(wanted) + datetime.timedelta(days=random.randrange(-20, 60))
        return day
    number = float(wanted) if wanted is not None and re.fullmatch(r"-?\d+(\.\d+)?", wanted) else random.randrange(0, 100)
    number += random.choice([0, 0, 1, -1])
    if kind.startswith("decimal"):
        return Decimal(f"{number:.2f}") % 10_000
    return int(number) if kind in ("int", "bigint") else number


def _arrow(kind: str) -> pa.DataType:
    if kind.startswith("decimal"):
        precision, scale = map(int, re.findall(r"\d+", kind))
        return pa.decimal128(precision, scale)
    return {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string(), "date": pa.date32(), "double": pa.float64()}[kind]
