"""Small random data for the queries of a suite, made so that their answers have rows.

Values of a column come from the constants that queries compare it with, and from a few others; keys are few, so that joins meet. Dates of a
calendar agree with each other, because queries ask for years and months and compare dates.
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
_SHARE = 0.8  # of values that some query asks for


def constants(texts: Iterable[str]) -> dict[str, list[str]]:
    """By column, what the queries compare it with."""
    found: dict[str, set[str]] = defaultdict(set)
    for text in texts:
        for node in sqlglot.parse_one(text, dialect="spark").find_all(
            exp.EQ, exp.In, exp.Between, exp.GT, exp.LT, exp.GTE, exp.LTE, exp.Like
        ):
            names = {column.name.lower() for column in node.find_all(exp.Column)}
            if len(names) == 1 and node.find(exp.Query) is None:
                found[names.pop()] |= {literal.name for literal in node.find_all(exp.Literal)}
    return {name: sorted(values) for name, values in found.items()}


def tables(schema: Schema, texts: Iterable[str], seed: int) -> dict[str, pa.Table]:
    """The rows of all tables."""
    random, asked = Random(seed), constants(texts)
    made = {}
    for table, columns in schema.items():
        count = _FACTS if table in _FACT_TABLES else _KEYS
        rows = [_row(table, columns, asked, random, number) for number in range(count)]
        made[table] = pa.Table.from_pylist(rows, pa.schema([(name, _arrow(kind)) for name, kind in columns.items()]))
    return made


def _row(table: str, columns: dict[str, str], asked: dict[str, list[str]], random: Random, number: int) -> dict[str, Any]:
    row = {name: _value(name, kind, asked.get(name, []), random) for name, kind in columns.items()}
    if table == "date_dim":
        row |= _day(random, asked)
    if table not in _FACT_TABLES:
        row[next(iter(columns))] = number + 1
    return row


def _day(random: Random, asked: dict[str, list[str]]) -> dict[str, Any]:
    """The columns of a calendar's row that are about its day: often one of a year and month that some query asks for."""
    dates = [text for text in asked.get("d_date", []) if _DATE.fullmatch(text)]
    years = [int(text) for text in asked.get("d_year", []) if re.fullmatch("[12][0-9]{3}", text)] or [2000]
    months = [int(text) for text in asked.get("d_moy", []) if text.isdigit() and 1 <= int(text) <= 12] or [1, 4, 12]
    day = datetime.date(random.choice(years), random.choice(months), random.randrange(1, 29))
    if dates and random.random() < 0.4:
        day = datetime.date.fromisoformat(random.choice(dates)) + datetime.timedelta(days=random.randrange(-20, 50))
    month_seq = (day.year - 1900) * 12 + day.month - 1
    return {
        "d_date": day, "d_year": day.year, "d_moy": day.month, "d_dom": day.day, "d_qoy": (day.month + 2) // 3,
        "d_dow": day.isoweekday() % 7, "d_month_seq": month_seq, "d_week_seq": day.toordinal() // 7, "d_day_name": day.strftime("%A"),
        "d_quarter_name": f"{day.year}Q{(day.month + 2) // 3}", "d_quarter_seq": month_seq // 3,
    }  # fmt: skip


def _value(name: str, kind: str, asked: list[str], random: Random) -> Any:
    if random.random() < 0.03:
        return None
    if name.endswith(("_sk", "key")) or (kind in ("int", "bigint") and name.endswith(("_number", "_linenumber"))):
        return random.randrange(1, _KEYS + 1)
    wanted = random.choice(asked) if asked and random.random() < _SHARE else None
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
