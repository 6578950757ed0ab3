"""Rows of random values of every type, beside the table of edge values: numbers of any size, texts of several scripts, any moment."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from struct import pack, unpack
from typing import Any

import pyarrow as pa

from clash.expressions import arrow_type

from .harness import EDGES

_LETTERS = "abAZ09 _%-.,'\\äßÉİıΣςДж本語カ한ไ\u0301\u200d😀𝒳\t\n"
_DAY = timedelta(days=1)


def random_table(rows: int, seed: int) -> pa.Table:
    """A value in twelve is NULL."""
    random = Random(seed)
    data = {}
    for name, (kind, _) in EDGES.items():
        values = [None if random.random() < 1 / 12 else _value(kind, random) for _ in range(rows)]
        data[name] = pa.array(values, arrow_type(kind))
    return pa.table(data)


def _value(kind: str, random: Random) -> Any:
    if kind.startswith("decimal"):
        precision, scale = map(int, kind[8:-1].split(","))
        return _sign(random) * Decimal(random.randrange(10 ** random.randint(1, precision))).scaleb(-scale)
    return _BY_KIND[kind](random)


def _sign(random: Random) -> int:
    return random.choice((1, -1))


def _integer(bits: int) -> Callable[[Random], int]:
    """Of any number of digits: small ones are as frequent as large ones."""
    return lambda random: random.randrange(2 ** random.randint(0, bits - 1)) * _sign(random)


def _double(random: Random) -> float:
    kind = random.randrange(3)
    if kind == 0:  # any bits: any exponent
        return float(unpack("<d", pack("<Q", random.getrandbits(64)))[0])
    return round(random.uniform(-1e4, 1e4), random.randrange(5)) if kind == 1 else random.gauss(0, 10 ** random.randint(-8, 18))


def _float(random: Random) -> float:
    if random.random() < 0.3:
        return float(unpack("<f", pack("<I", random.getrandbits(32)))[0])
    return float(unpack("<f", pack("<f", random.uniform(-1000, 1000)))[0])


def _text(random: Random) -> str:
    kind = random.randrange(6)
    if kind == 0:
        return str(_double(random))
    if kind == 1:
        return str(_value(random.choice(("int", "bigint", "decimal(10,2)")), random))
    if kind == 2:
        return str(_BY_KIND[random.choice(("date", "timestamp_ntz"))](random))
    return "".join(random.choices(_LETTERS, k=random.randrange(12)))


def _moment(zone: Any) -> Callable[[Random], datetime]:
    """Mostly of times for which zones have rules, sometimes of any year."""

    def moment(random: Random) -> datetime:
        first, last = (date(1, 1, 2), date(9998, 1, 1)) if random.random() < 0.1 else (date(1890, 1, 1), date(2100, 1, 1))
        day = first + random.randrange((last - first).days) * _DAY
        return datetime(day.year, day.month, day.day, tzinfo=zone) + timedelta(microseconds=random.randrange(86_400_000_000))

    return moment


def _day(random: Random) -> date:
    return _moment(None)(random).date()


def _struct(random: Random) -> dict[str, Any]:
    return {
        "a": _BY_KIND["int"](random),
        "B": _text(random),
        "c": {"d": _value("decimal(10,2)", random), "e": _moment(UTC)(random)},
    }


_BY_KIND: dict[str, Callable[[Random], Any]] = {
    "tinyint": _integer(8),
    "smallint": _integer(16),
    "int": _integer(32),
    "bigint": _integer(64),
    "float": _float,
    "double": _double,
    "string": _text,
    "boolean": lambda random: random.random() < 0.5,
    "binary": lambda random: _text(random).encode(),  # bytes that are no text have no cast to it
    "date": _day,
    "timestamp": _moment(UTC),
    "timestamp_ntz": _moment(None),
    EDGES["st"][0]: _struct,
}
