"""Type coercion as in Spark 4 in ANSI mode: which types an operator accepts, and the type of its result."""

from __future__ import annotations

from clash.model import types
from clash.model.expressions import Expr, Lit
from clash.model.types import UNKNOWN, family, is_numeric

VOID = "void"  # the type of a bare NULL
INTERVAL = "interval"
TIMES = ("timestamp", "timestamp_ntz")
_WIDENING = ("tinyint", "smallint", "int", "bigint", "float", "double")
_UNTYPED = (UNKNOWN, VOID)


def decimal(precision: int, scale: int) -> str:
    """The decimal type of this precision and scale; beyond 38 digits, Spark's rule drops fraction digits but keeps six.

    >>> decimal(12, 2), decimal(40, 10)
    ('decimal(12,2)', 'decimal(38,8)')
    """
    if precision > 38:
        scale = max(38 - (precision - scale), min(scale, 6))
        precision = 38
    return f"decimal({precision},{scale})"


def digits(kind: str, expr: Expr | None = None) -> tuple[int, int]:
    """Precision and scale of a decimal, or of an integer read as a decimal; an integer literal counts its own digits."""
    if isinstance(expr, Lit) and isinstance(expr.value, int) and not kind.startswith("decimal("):
        return max(1, len(str(abs(expr.value)))), 0
    return types.digits(kind)


def common(a: str, b: str) -> str | None:
    """The type to which both are cast before they are compared or are branches of one CASE; None if there is none.

    >>> common("int", "bigint"), common("int", "float"), common("int", "string")
    ('bigint', 'double', None)
    """
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
            integer_digits, scale = max(p - s, q - t), max(s, t)
            return f"decimal({min(38, integer_digits + scale)},{min(scale, 38 - integer_digits)})"  # unlike arithmetic, integer digits win
        wider = max(a, b, key=_WIDENING.index)
        return "double" if wider == "float" else wider  # an integer with a float: a double, as Spark does, to avoid rounding
    if {a, b} <= {"date", *TIMES}:
        return "timestamp" if "timestamp" in (a, b) else "timestamp_ntz"
    return None


def arithmetic(op: str, left: Expr, right: Expr) -> str | None:
    """Type of `left op right` for + - * / %; None if Spark has no such operator, or it is not supported here."""
    a, b = left.type, right.type
    if INTERVAL in (a, b) or a in TIMES or b in TIMES:
        return _time_result(op, a, b)
    if not all(t in _UNTYPED or is_numeric(t) for t in (a, b)):
        return None
    if a in _UNTYPED or b in _UNTYPED:
        return UNKNOWN if UNKNOWN in (a, b) else (b if a == VOID else a)
    if "floating" in (family(a), family(b)):
        return "double" if op == "/" else common(a, b)
    if a.startswith("decimal") or b.startswith("decimal"):
        return _decimal_result(op, *digits(a, left), *digits(b, right))
    return "double" if op == "/" else common(a, b)


def _decimal_result(op: str, p: int, s: int, q: int, t: int) -> str:
    """Type of an operator between decimal(p,s) and decimal(q,t)."""
    if op in "+-":
        return decimal(max(p - s, q - t) + max(s, t) + 1, max(s, t))
    if op == "*":
        return decimal(p + q + 1, s + t)
    if op == "/":
        scale = max(6, s + q + 1)
        return decimal(p - s + t + scale, scale)
    return decimal(min(p - s, q - t) + max(s, t), max(s, t))


def _time_result(op: str, a: str, b: str) -> str | None:
    """Type of `a op b` where at least one is a timestamp or an interval; None if there is no such operator."""
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
    """Whether Spark's ANSI mode has this cast. Whether a particular value fits is only known at run time."""
    if source in _UNTYPED or source == target or target == "string":
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
