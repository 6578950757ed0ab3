"""Literals: numbers, text, dates, timestamps and intervals, typed as in Spark; see `Lit.value` for their representation."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from clash.errors import OptionError
from clash.model.coercion import INTERVAL, TIMES
from clash.model.durations import LONGEST, parse_duration, unit_micros
from clash.model.expressions import Expr, Lit
from clash.model.types import family
from clash.sql.functions import MismatchError

_DATE = re.compile(r"\s*(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_TIME = re.compile(r"[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?", re.ASCII)
_ZONE = re.compile(r"\s*(?:(Z|UTC)|([+-])(\d{1,2}):(\d{2}))", re.ASCII)
_PLAIN_DECIMAL = re.compile(r"\d{1,38}(\.\d{1,37})?", re.ASCII)
_INTEGER_LIMITS = {"tinyint": 2**7, "smallint": 2**15, "int": 2**31, "bigint": 2**63}
_MAX_NUMBER_LENGTH = 100


def number(text: str) -> Lit:
    """An unsigned number: an int or bigint if it fits, a double with an exponent, otherwise a decimal.

    >>> number("5").type, number("3000000000").type, number("1.50").type, number("1e3").type
    ('int', 'bigint', 'decimal(3,2)', 'double')
    """
    if len(text) > _MAX_NUMBER_LENGTH:
        raise MismatchError("a number is too long", f"{len(text)} characters", "38 digits at most")
    if text.isascii() and text.isdigit():
        value = int(text)
        kind = next((k for k in ("int", "bigint") if value < _INTEGER_LIMITS[k]), None)
        return Lit(value, kind) if kind else _decimal(Decimal(value))
    try:
        if "e" in text.lower():
            floating = float(text)
            if floating in (float("inf"), float("-inf")):
                raise MismatchError("a number is too large for a double", "", "write a smaller number")
            return Lit(floating, "double")
        return _decimal(Decimal(text))
    except (InvalidOperation, ValueError):
        raise MismatchError("not a number", "", "write e.g. 12, 1.5 or 1e3") from None


def _decimal(value: Decimal) -> Lit:
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits), scale)
    if precision > 38:
        raise MismatchError("a number has too many digits", f"{precision}", "38 digits at most; write it as a double, e.g. 1e40")
    return Lit(format(value, "f"), f"decimal({precision},{scale})")


def negative(lit: Lit) -> Lit | None:
    """The negated literal; None if it is not a number or interval."""
    if isinstance(lit.value, int | float) and not isinstance(lit.value, bool):
        return Lit(-lit.value, lit.type)
    if isinstance(lit.value, str) and lit.type.startswith("decimal"):
        return Lit(lit.value.removeprefix("-") if lit.value.startswith("-") else f"-{lit.value}", lit.type)
    return None


def interval(node: exp.Interval) -> Lit:
    """A day-time interval in microseconds; months and years have no fixed length and are refused."""
    hint = "write e.g. INTERVAL 5 SECONDS or INTERVAL '1 hour 30 minutes'"
    unit, value = node.args.get("unit"), node.this
    if not isinstance(value, exp.Literal) or (unit is not None and not isinstance(unit, exp.Var)):
        raise MismatchError("this kind of INTERVAL is not supported", "", hint)
    text = value.this.strip()
    sign = -1 if text.startswith("-") else 1
    text = text.lstrip("+-").strip()
    word = unit.name if isinstance(unit, exp.Var) else text
    if re.search(r"(?i)\b(month|year|quarter)s?\b", word):
        raise MismatchError("months and years have no fixed length", "", "write days, e.g. INTERVAL 30 DAYS")
    try:
        if unit is None:
            return Lit(sign * parse_duration(text, "the interval"), INTERVAL)
        micros = unit_micros(unit.name)
        total = Decimal(text) * (micros or 0)
    except (OptionError, InvalidOperation):
        raise MismatchError("not an INTERVAL", "", hint) from None
    if micros is None or not total.is_finite() or total != total.to_integral_value() or abs(total) > LONGEST:
        raise MismatchError("not an INTERVAL", "", hint)
    return Lit(sign * int(total), INTERVAL)


def cast_literal(lit: Lit, target: str) -> Expr | None:
    """The literal cast to `target`, where the result is certain; None leaves the cast to run time."""
    if lit.value is None:
        return Lit(None, target)
    if target in ("date", *TIMES) and lit.type == "string" and isinstance(lit.value, str):
        return day(lit.value) if target == "date" else moment(lit.value, target)
    if isinstance(lit.value, int) and family(lit.type) == family(target) == "integer":
        return Lit(lit.value, target) if -_INTEGER_LIMITS[target] <= lit.value < _INTEGER_LIMITS[target] else None
    if target == "double" and (lit.type.startswith("decimal") or family(lit.type) == "integer"):
        return Lit(float(str(lit.value)), "double")
    if target.startswith("decimal") and lit.type == "string" and _PLAIN_DECIMAL.fullmatch(str(lit.value)):
        exact = _decimal(Decimal(str(lit.value)))
        return exact if exact.type == target else None
    return None


def day(text: str) -> Lit:
    """A date in ISO format."""
    match = _DATE.fullmatch(text.rstrip())
    try:
        if match:
            return Lit(date(*map(int, match.groups())).isoformat(), "date")
    except ValueError:
        pass
    raise MismatchError("not a date", "", "write DATE '2024-12-31'")


def moment(text: str, kind: str) -> Lit:
    """A timestamp in ISO format; one with an offset is converted to UTC, so that equal moments are equal literals."""
    text = text.rstrip()
    try:
        if match := _DATE.match(text):
            value, at = datetime(*map(int, match.groups())), match.end()  # type: ignore[arg-type]
            if clock := _TIME.match(text, at):
                hour, minute, second, fraction = clock.groups(default="0")
                micros = int(fraction.ljust(6, "0"))
                value, at = value.replace(hour=int(hour), minute=int(minute), second=int(second), microsecond=micros), clock.end()
                zone = _ZONE.match(text, at) if kind == "timestamp" else None
                if zone:
                    shift = timedelta() if zone[1] else timedelta(hours=int(zone[3]), minutes=int(zone[4])) * (-1 if zone[2] == "-" else 1)
                    value, at = (value - shift).replace(tzinfo=UTC), zone.end()
            if at == len(text):
                return Lit(value.isoformat(), kind)
    except (ValueError, OverflowError):
        pass
    raise MismatchError("not a timestamp", "", "write TIMESTAMP '2024-12-31 23:59:59', with +01:00 or such behind it if need be")
