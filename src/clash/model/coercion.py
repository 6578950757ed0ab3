"""Spark's types of operators: what may be compared, and what type comes out (Spark 4, ANSI mode)."""

from __future__ import annotations

from clash.model import types
from clash.model.expressions import Expr, Lit
from clash.model.types import UNKNOWN, family, is_numeric

VOID = "void"  # of a bare NULL
INTERVAL = "interval"
TIMES = ("timestamp", "timestamp_ntz")
_LADDER = ("tinyint", "smallint", "int", "bigint", "float", "double")
_LOOSE = (UNKNOWN, VOID)


def decimal(precision: int, scale: int) -> str:
    """With Spark's rule for what does not fit 38 digits: give up fraction digits, but keep six."""
    if precision > 38:
        scale = max(38 - (precision - scale), min(scale, 6))
        precision = 38
    return f"decimal({precision},{scale})"


def digits(kind: str, expr: Expr | None = None) -> tuple[int, int]:
    """Precision and scale of a decimal, or of an integer taken as one: a literal by its own length."""
    if isinstance(expr, Lit) and isinstance(expr.value, int) and not kind.startswith("decimal("):
        return max(1, len(str(abs(expr.value)))), 0
    return types.digits(kind)


def common(a: str, b: str) -> str | None:
    """The type to which both are brought before they are compared or chosen between; None if there is none."""
    if a == b:
        return a
    if a == VOID or b == VOID:
        return b if a == VOID else a
    if UNKNOWN in (a, b):
        return UNKNOWN
    if is_numeric(a) and is_numeric(b):
        if a.startswith("decimal") or b.startswith("decimal"):
            if "floating" in (family(a), family(b)):
                return "double"
            (p, s), (q, t) = digits(a), digits(b)
            whole, scale = max(p - s, q - t), max(s, t)
            return f"decimal({min(38, whole + scale)},{min(scale, 38 - whole)})"  # whole digits first, other than in arithmetic
        wider = max(a, b, key=_LADDER.index)
        return "double" if wider == "float" else wider  # an integer and a float: Spark avoids the rounding
    if {a, b} <= {"date", *TIMES}:
        return "timestamp" if "timestamp" in (a, b) else "timestamp_ntz"
    return None


def arithmetic(op: str, left: Expr, right: Expr) -> str | None:
    """Type of `left op right` for + - * / %; None if Spark, or we, have no such operator."""
    a, b = left.type, right.type
    if INTERVAL in (a, b) or a in TIMES or b in TIMES:
        return _of_times(op, a, b)
    if not all(t in _LOOSE or is_numeric(t) for t in (a, b)):
        return None
    if a in _LOOSE or b in _LOOSE:
        return UNKNOWN if UNKNOWN in (a, b) else (b if a == VOID else a)
    if "floating" in (family(a), family(b)):
        return "double" if op == "/" else common(a, b)
    if a.startswith("decimal") or b.startswith("decimal"):
        return _of_decimals(op, *digits(a, left), *digits(b, right))
    return "double" if op == "/" else common(a, b)


def _of_decimals(op: str, p: int, s: int, q: int, t: int) -> str:
    if op in "+-":
        return decimal(max(p - s, q - t) + max(s, t) + 1, max(s, t))
    if op == "*":
        return decimal(p + q + 1, s + t)
    if op == "/":
        scale = max(6, s + q + 1)
        return decimal(p - s + t + scale, scale)
    return decimal(min(p - s, q - t) + max(s, t), max(s, t))


def _of_times(op: str, a: str, b: str) -> str | None:
    if op not in "+-":
        return None
    if a == b == INTERVAL:
        return INTERVAL
    if op == "-" and a in TIMES and b in (a, UNKNOWN):
        return INTERVAL
    if op == "-" and a == UNKNOWN and b in TIMES:
        return INTERVAL
    if b == INTERVAL and a in (*TIMES, UNKNOWN):
        return a
    return b if op == "+" and a == INTERVAL and b in (*TIMES, UNKNOWN) else None


def castable(source: str, target: str) -> bool:
    """May Spark's ANSI mode cast at all? Whether a value fits is only known when it is there."""
    if source in _LOOSE or source == target or target == "string":
        return source not in (INTERVAL,)
    if is_numeric(source):
        return is_numeric(target) or target in ("boolean", "timestamp")
    if source == "string":
        return True
    if source == "boolean":
        return is_numeric(target)
    if source == "timestamp":
        return is_numeric(target) or target in ("date", *TIMES)
    return source in ("date", "timestamp_ntz") and target in ("date", *TIMES)
