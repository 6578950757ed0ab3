"""Literals: numbers, text, dates, timestamps and intervals, typed as in Spark; see `Lit.value` for their representation."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from clash.model.coercion import INTERVAL, TIMES
from clash.model.durations import LONGEST, unit_micros
from clash.model.expressions import Expr, Lit
from clash.model.time_text import CLOCK, DATE, WHITE_SPACE, fixed_offset
from clash.model.types import family
from clash.sql.result_types import MismatchError

_DATE = re.compile(DATE, re.ASCII | re.DOTALL)
_CLOCK = re.compile(CLOCK, re.ASCII | re.DOTALL)
_INTERVAL_PART = re.compile(r"([+-]?)\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([a-z]+)(?:\s+|$)", re.ASCII | re.IGNORECASE)
_PLAIN_DECIMAL = re.compile(r"\d{1,38}(\.\d{1,37})?", re.ASCII)
_MALFORMED_OFFSET = re.compile(r"[^/]*[+-][0-9:]*", re.ASCII)
_MOMENT = "write TIMESTAMP '2024-12-31 23:59:59', with +01:00 or such behind it if need be"
_MONTHS = {"month": 1, "year": 12}
DAY = 86_400_000_000
"""The microseconds of a day."""
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
    """The negated literal; None if it is not a number or interval, or if its type cannot hold it."""
    if isinstance(lit.value, int | float) and not isinstance(lit.value, bool):
        return None if -lit.value == _INTEGER_LIMITS.get(lit.type) else Lit(-lit.value, lit.type)
    if isinstance(lit.value, str) and lit.type.startswith("decimal"):
        return Lit(lit.value.removeprefix("-") if lit.value.startswith("-") else f"-{lit.value}", lit.type)
    return None


def negative_number(lit: Lit) -> Lit | None:
    """A number behind a minus sign, of which the sign is part in Spark: -2147483648 is an int, though 2147483648 is a bigint."""
    if isinstance(lit.value, int) and lit.value == _INTEGER_LIMITS["int"]:
        return Lit(-lit.value, "int")
    if lit.value == str(_INTEGER_LIMITS["bigint"]):
        return Lit(-_INTEGER_LIMITS["bigint"], "bigint")
    return negative(lit)


def months(node: exp.Expression) -> int | None:
    """The months of an interval of years and months, or of a sum of such; None for anything else."""
    if isinstance(node, exp.Paren | exp.Neg):
        inner = months(node.this)
        return None if inner is None else -inner if isinstance(node, exp.Neg) else inner
    if isinstance(node, exp.Add | exp.Sub):
        right = months(node.expression)  # first: a long sum of other things must not be walked down to its beginning
        left = None if right is None else months(node.this)
        return None if left is None or right is None else left + right if isinstance(node, exp.Add) else left - right
    total = 0
    for sign, count, unit in _interval_parts(node):
        if unit not in _MONTHS or "." in count:
            return None
        total += int(sign + count) * _MONTHS[unit]
    return total if isinstance(node, exp.Interval) and _interval_parts(node) and abs(total) < 2**31 else None


def has_days_only(node: exp.Expression) -> bool:
    """Whether an interval is one of whole days by its units, as Spark's type INTERVAL DAY is; 24 hours are not."""
    if isinstance(node, exp.Paren | exp.Neg):
        return has_days_only(node.this)
    if isinstance(node, exp.Add | exp.Sub):
        return has_days_only(node.expression) and has_days_only(node.this)
    parts = _interval_parts(node)
    return bool(parts) and all(unit in ("day", "week") and "." not in count for _, count, unit in parts)


def _interval_parts(node: exp.Expression) -> list[tuple[str, str, str]]:
    """Sign, number and unit of each part of an INTERVAL literal; empty for anything else."""
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        return []
    unit = node.args.get("unit")
    if unit is not None and not isinstance(unit, exp.Var):
        return []
    text = node.this.this.strip(WHITE_SPACE) + (f" {unit.name}" if unit is not None else "")
    return [(match[1], match[2], match[3].lower().removesuffix("s")) for match in _INTERVAL_PART.finditer(text)]


def interval(node: exp.Interval) -> Lit:
    """A day-time interval in microseconds; months and years have no fixed length and are refused. Each part has a sign of its own."""
    hint = "write e.g. INTERVAL 5 SECONDS or INTERVAL '1 hour 30 minutes'"
    unit, value = node.args.get("unit"), node.this
    if not isinstance(value, exp.Literal) or (unit is not None and not isinstance(unit, exp.Var)):
        raise MismatchError("this kind of INTERVAL is not supported", "", hint)
    text = value.this.strip(WHITE_SPACE) + (f" {unit.name}" if unit is not None else "")
    total, at = Decimal(0), 0
    while match := _INTERVAL_PART.match(text, at):
        if match[3].lower().removesuffix("s") in ("month", "year", "quarter"):
            hint = "add them to a date or timestamp, apart from days: R.ts + INTERVAL 1 MONTH + INTERVAL 5 DAYS"
            raise MismatchError("months and years have no fixed length", "", hint)
        total += Decimal(match[1] + match[2]) * (unit_micros(match[3]) or Decimal("NaN"))
        at = match.end()
    if at == 0 or at < len(text) or not total.is_finite() or total != total.to_integral_value() or abs(total) > LONGEST:
        raise MismatchError("not an INTERVAL", "", hint)
    return Lit(int(total), INTERVAL)


def cast_literal(lit: Lit, target: str) -> Expr | None:
    """The literal cast to `target`, where the result is certain; None leaves the cast to run time."""
    if lit.value is None:
        return Lit(None, target)
    if target in ("date", *TIMES) and lit.type == "string" and isinstance(lit.value, str):
        return time(lit.value, target)
    if isinstance(lit.value, int) and family(lit.type) == family(target) == "integer":
        return Lit(lit.value, target) if -_INTEGER_LIMITS[target] <= lit.value < _INTEGER_LIMITS[target] else None
    if target == "double" and (lit.type.startswith("decimal") or family(lit.type) == "integer"):
        return Lit(float(str(lit.value)), "double")
    if target.startswith("decimal") and lit.type == "string" and _PLAIN_DECIMAL.fullmatch(str(lit.value)):
        exact = _decimal(Decimal(str(lit.value)))
        return exact if exact.type == target else None
    return None


def time(text: str, target: str) -> Lit | None:
    """A text as a date or timestamp, in the forms that a cast of a column reads; None leaves the cast to run time.

    One with an offset is converted to UTC, so that equal moments are equal literals. A timestamp_ntz ignores a zone.
    """
    what, hint = ("not a date", "write DATE '2024-12-31'") if target == "date" else ("not a timestamp", _MOMENT)
    match = _DATE.fullmatch(text.strip(WHITE_SPACE))
    clock = _CLOCK.fullmatch(match["clock"] or "") if match and target != "date" else None
    if match is None or (clock is None and target != "date"):
        raise MismatchError(what, "", hint)
    try:
        day = datetime(int(match["year"]), int(match["month"] or 1), int(match["day"] or 1))
        if clock is None:
            return Lit(day.date().isoformat(), "date")
        hour, minute, second = (int(clock[part] or 0) for part in ("hour", "minute", "second"))
        moment = day.replace(hour=hour, minute=minute, second=second, microsecond=int((clock["rest"] or "")[:6].ljust(6, "0")))
        zone = (clock["zone"] or "").strip(" ")
        offset = fixed_offset(zone) if zone else None
        if zone and offset is None:
            if _MALFORMED_OFFSET.fullmatch(zone):
                raise MismatchError(what, "", hint)
            return None  # a region, which workers look up
        if offset is not None and target == "timestamp":
            moment = (moment - timedelta(microseconds=offset)).replace(tzinfo=UTC)
        return Lit(moment.isoformat(), target)
    except OverflowError:
        return None  # as a year below: Python's dates do not have it
    except ValueError:
        if int(match["year"]) in range(1, 10_000):
            raise MismatchError(what, "", hint) from None
        return None
