"""Functions by the names that Spark has for them, where sqlglot reads them as functions of other databases or does not know them.

`spark_parser` leaves calls of these names as they are written. Each is an operator of `functions`, or an expression of several of them.
"""

from __future__ import annotations

from collections.abc import Callable

from clash.model.coercion import TIMES, VOID
from clash.model.expressions import Call, Expr, Lit
from clash.model.types import UNKNOWN
from clash.sql.functions import typed
from clash.sql.result_types import Args, MismatchError

Builder = Callable[[Args], Expr]


def _op(op: str) -> Builder:
    return lambda args: typed(op, args)


def _on_date(op: str, dates: int = 1) -> Builder:
    """A function whose first arguments are dates. As in Spark, a timestamp stands for the day that it has in the session's time zone."""
    return lambda args: typed(op, (*map(as_date, args[:dates]), *args[dates:]))


def as_date(arg: Expr) -> Expr:
    """A timestamp as a date; anything else as it is."""
    return Call("cast", (arg,), "date") if arg.type in TIMES else arg


def _rewritten(name: str, least: int, most: int, build: Builder) -> Builder:
    """A function that is an expression of others."""

    def checked(args: Args) -> Expr:
        if not least <= len(args) <= most:
            counts = f"{least}" if least == most else f"{least} to {most}"
            raise MismatchError(f"{name} has the wrong number of arguments", f"{len(args)}", f"it takes {counts}")
        return build(args)

    return checked


def _case(condition: Expr, value: Expr, other: Expr) -> Expr:
    """CASE WHEN condition THEN value ELSE other END; a bare NULL gets the type of the whole."""
    call = typed("case", (condition, value, other))
    branches = (Lit(None, call.type) if isinstance(branch, Lit) and branch.type == VOID else branch for branch in (value, other))
    return Call("case", (condition, *branches), call.type)


def _right(args: Args) -> Expr:
    text, count = args
    rest = typed("substring", (text, typed("neg", (count,))))
    return Call(
        "case", (typed("isnull", (text,)), Lit(None, "string"), typed("<=", (count, Lit(0, "int"))), Lit("", "string"), rest), "string"
    )


def _to_time(target: str) -> Builder:
    def build(args: Args) -> Expr:
        (value,) = args
        if value.type not in ("string", "date", *TIMES, VOID, UNKNOWN):
            raise MismatchError(f"TO_{target.upper()} needs a string, date or timestamp", f"this is {value.type}", "CAST it to string")
        return value if value.type == target else Call("cast", (value,), target)

    return build


def _date_part(args: Args) -> Expr:
    if not isinstance(args[0], Lit) or not isinstance(args[0].value, str):
        raise MismatchError("DATE_PART needs a literal field", "", "write e.g. date_part('year', R.ts)")
    return extract(args[0].value, args[1])


def extract(field: str, value: Expr) -> Expr:
    """EXTRACT(field FROM value)."""
    for op, names in _FIELDS.items():
        if field.upper() in names:
            if op in ("hour", "minute", "second_fraction") and value.type == "date":
                value = Call("cast", (value,), "timestamp")
            if op == "dayofweek_iso":
                return typed("+", (typed("weekday", (value,)), Lit(1, "int")))
            return typed(op, (value,))
    raise MismatchError("not a field of a date or timestamp", field, f"fields are {', '.join(names[0] for names in _FIELDS.values())}")


_FIELDS: dict[str, tuple[str, ...]] = {
    "year": ("YEAR", "Y", "YEARS", "YR", "YRS"),
    "yearofweek": ("YEAROFWEEK",),
    "quarter": ("QUARTER", "QTR"),
    "month": ("MONTH", "MON", "MONS", "MONTHS"),
    "weekofyear": ("WEEK", "W", "WEEKS"),
    "day": ("DAY", "D", "DAYS"),
    "dayofweek": ("DAYOFWEEK", "DOW"),
    "dayofweek_iso": ("DAYOFWEEK_ISO", "DOW_ISO"),
    "dayofyear": ("DOY",),
    "hour": ("HOUR", "H", "HOURS", "HR", "HRS"),
    "minute": ("MINUTE", "M", "MIN", "MINS", "MINUTES"),
    "second_fraction": ("SECOND", "S", "SEC", "SECONDS", "SECS"),
}


def _concat_ws(args: Args) -> Expr:
    """NULLs are left out of the arguments, and with them those that are always NULL."""
    if args and args[0].type == VOID:
        return Lit(None, "string")
    return typed("concat_ws", (*args[:1], *(arg for arg in args[1:] if arg.type != VOID)))


NAMED: dict[str, Builder] = {
    **{name.upper(): _op(name) for name in (
        "pmod", "sqrt", "exp", "ln", "log2", "log10", "power", "rint", "sign", "nanvl",
        "startswith", "endswith", "contains", "repeat", "reverse", "octet_length",
        "instr", "split_part", "make_date", "unix_date", "date_from_unix_date", "unix_timestamp", "unix_seconds", "unix_millis",
        "unix_micros", "timestamp_seconds", "timestamp_millis", "timestamp_micros", "isnull", "isnotnull",
        "quarter", "dayofweek", "weekday", "dayofyear", "weekofyear", "dayname", "monthname",
    )},
    **{name.upper(): _on_date(name) for name in ("date_add", "date_sub", "add_months", "last_day", "next_day", "trunc")},
    "DATEDIFF": _on_date("datediff", 2),
    "ISNAN": _rewritten("ISNAN", 1, 1, lambda args: Lit(False, "boolean") if args[0].type == VOID else typed("isnan", args)),
    "LOG": _rewritten("LOG", 1, 2, lambda args: typed("ln" if len(args) == 1 else "log", args)),
    "POW": _op("power"),
    "SIGNUM": _op("sign"),
    "DATEADD": _on_date("date_add"),
    "DATE_DIFF": _on_date("datediff", 2),
    "TO_UNIX_TIMESTAMP": _op("unix_timestamp"),
    "DATE_TRUNC": _rewritten("DATE_TRUNC", 2, 2, lambda args: typed("date_trunc", (
        args[0], args[1] if args[1].type in ("timestamp", VOID) else Call("cast", (args[1],), "timestamp")))),
    "DATE_PART": _rewritten("DATE_PART", 2, 2, _date_part),
    "DATEPART": _rewritten("DATEPART", 2, 2, _date_part),
    "TO_DATE": _rewritten("TO_DATE", 1, 1, _to_time("date")),
    "TO_TIMESTAMP": _rewritten("TO_TIMESTAMP", 1, 1, _to_time("timestamp")),
    "REPLACE": _rewritten("REPLACE", 2, 3, lambda args: typed("replace", (*args, Lit("", "string"))[:3])),
    "LPAD": _rewritten("LPAD", 2, 3, lambda args: typed("lpad", (*args, Lit(" ", "string"))[:3])),
    "RPAD": _rewritten("RPAD", 2, 3, lambda args: typed("rpad", (*args, Lit(" ", "string"))[:3])),
    "BTRIM": _op("trim"),
    "CONCAT_WS": _concat_ws,
    "LOCATE": _rewritten("LOCATE", 2, 2, lambda args: typed("instr", args[::-1])),
    "LEFT": _rewritten("LEFT", 2, 2, lambda args: typed("substring", (args[0], Lit(1, "int"), args[1]))),
    "RIGHT": _rewritten("RIGHT", 2, 2, _right),
    "NVL2": _rewritten("NVL2", 3, 3, lambda args: _case(typed("isnotnull", args[:1]), args[1], args[2])),
    "EQUAL_NULL": _rewritten("EQUAL_NULL", 2, 2, lambda args: typed("<=>", args)),
    "ZEROIFNULL": _rewritten("ZEROIFNULL", 1, 1, lambda args: typed("coalesce", (args[0], Lit(0, "int")))),
    "NULLIFZERO": _rewritten("NULLIFZERO", 1, 1, lambda args: _case(typed("=", (args[0], Lit(0, "int"))), Lit(None, VOID), args[0])),
    "NEGATIVE": _op("neg"),
}  # fmt: skip
