"""The supported operators and functions, which are the only values of `Call.op`, with Spark's semantics.

What `clash.expressions` implements when it evaluates them:

- ANSI mode, Spark 4's default: integer overflow, division by zero, a cast of a value that does not fit and a malformed string raise an
  error; nothing wraps around or becomes NULL. Predicates may be evaluated in any order, as in Spark.
- Arguments of different types are first cast to `coercion.common` of their types; these implicit casts are not part of the expression.
- A NULL argument gives NULL, except for `and`/`or` (three-valued), `isnull`, `isnotnull`, `<=>`, `coalesce`, `case`, and
  `greatest`/`least`, which skip NULLs.
- `/` of integers gives a double; `%` has the sign of the dividend; NaN = NaN, NaN is the largest number, -0.0 = 0.0.
- `round` is half up (away from zero); `floor` and `ceil` give bigint (decimals stay decimals).
- The arguments of `in` are a value, then literals; those of `case` are condition, value, condition, value, …, else; `like` has a literal
  pattern with `%`, `_` and an escape character (an optional third argument, by default `\\`). `substring` counts from 1, or from the end if
  the start is negative.
- Patterns, separators, lengths and units of text and calendar functions are literals where `result_types` says so.
- An interval is whole microseconds. Its whole days, added to a timestamp, keep the local time of the session's time zone, so that a day is
  23 or 25 hours over a change of the clock; the rest is elapsed time. `timestamp - timestamp` is an interval: the difference of their local
  times. A timestamp_ntz knows no zone. An interval of months is never a value of its own, but the argument of `add_months`, which keeps
  the day of the month, or takes the last one, and the local time. Days that are added to a date wrap around at 32 bits.
- `year` … `second`, a cast between date and timestamp, and a timestamp literal without offset are in the session's time zone.
- The normal form has no `>`, `>=` (operands are swapped), `between` or `if`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clash.model.coercion import INTERVAL, TIMES, VOID
from clash.model.expressions import Call
from clash.model.types import UNKNOWN, family, is_atomic, is_numeric
from clash.sql import result_types as result
from clash.sql.result_types import Args, MismatchError


@dataclass(frozen=True, slots=True)
class Function:
    """The signature of one operator or function."""

    sql_name: str
    min_args: int
    max_args: int | None
    """None allows any number of arguments."""
    argument_kinds: tuple[str, ...]
    """The kind of each argument, a key of `_KINDS`; the last one also applies to all further arguments."""
    result_type: Callable[[Args], str]
    """The type of the result; raises `MismatchError` if the arguments do not fit together."""


_KINDS: dict[str, Callable[[str], bool]] = {
    "any": lambda t: True,
    "boolean": lambda t: t == "boolean",
    "number": is_numeric,
    "number or interval": lambda t: is_numeric(t) or t == INTERVAL,
    "integer": lambda t: family(t) == "integer",
    "int": lambda t: t in ("int", "smallint", "tinyint"),
    "floating number": lambda t: family(t) == "floating",
    "integer or floating number": lambda t: family(t) in ("integer", "floating"),
    "string": lambda t: t == "string",
    "date": lambda t: t == "date",
    "timestamp with time zone": lambda t: t == "timestamp",
    "string or binary": lambda t: t in ("string", "binary"),
    "date or timestamp": lambda t: t in ("date", *TIMES),
    "timestamp": lambda t: t in TIMES,
    "atomic": lambda t: is_atomic(t) or t == INTERVAL,
}


def _f(sql_name: str, min_args: int, max_args: int | None, result_type: Callable[[Args], str], *kinds: str) -> Function:
    """A row of the table below; without `kinds`, arguments of any type are accepted."""
    return Function(sql_name, min_args, max_args, kinds or ("any",), result_type)


FUNCTIONS: dict[str, Function] = {
    "+": _f("+", 2, 2, result.arithmetic_of("+")),
    "-": _f("-", 2, 2, result.arithmetic_of("-")),
    "*": _f("*", 2, 2, result.arithmetic_of("*")),
    "/": _f("/", 2, 2, result.arithmetic_of("/")),
    "%": _f("%", 2, 2, result.arithmetic_of("%")),
    "neg": _f("-", 1, 1, result.first, "number or interval"),
    "=": _f("=", 2, 2, result.comparison, "atomic"),
    "<>": _f("<>", 2, 2, result.comparison, "atomic"),
    "<": _f("<", 2, 2, result.comparison, "atomic"),
    "<=": _f("<=", 2, 2, result.comparison, "atomic"),
    ">": _f(">", 2, 2, result.comparison, "atomic"),
    ">=": _f(">=", 2, 2, result.comparison, "atomic"),
    "<=>": _f("<=>", 2, 2, result.comparison, "atomic"),
    "in": _f("IN", 2, None, result.comparison, "atomic"),
    "and": _f("AND", 1, None, result.always("boolean"), "boolean"),
    "or": _f("OR", 1, None, result.always("boolean"), "boolean"),
    "not": _f("NOT", 1, 1, result.always("boolean"), "boolean"),
    "isnull": _f("IS NULL", 1, 1, result.always("boolean")),
    "isnotnull": _f("IS NOT NULL", 1, 1, result.always("boolean")),
    "like": _f("LIKE", 2, 3, result.always("boolean"), "string"),
    "case": _f("CASE", 3, None, result.case),
    "field": _f("a field", 2, 2, result.field),
    "cast": _f("CAST", 1, 1, result.first, "atomic"),
    "coalesce": _f("COALESCE", 1, None, result.common_of, "atomic"),
    "greatest": _f("GREATEST", 2, None, result.common_of, "atomic"),
    "least": _f("LEAST", 2, None, result.common_of, "atomic"),
    "abs": _f("ABS", 1, 1, result.first, "number"),
    "round": _f("ROUND", 1, 2, result.rounded, "number", "integer"),
    "floor": _f("FLOOR", 1, 1, result.floor, "number"),
    "ceil": _f("CEIL", 1, 1, result.floor, "number"),
    "lower": _f("LOWER", 1, 1, result.always("string"), "string"),
    "upper": _f("UPPER", 1, 1, result.always("string"), "string"),
    "length": _f("LENGTH", 1, 1, result.always("int"), "string or binary"),
    "trim": _f("TRIM", 1, 2, result.with_literals("string", 1), "string"),
    "substring": _f("SUBSTRING", 2, 3, result.always("string"), "string", "integer"),
    "concat": _f("CONCAT", 1, None, result.always("string"), "string"),
    "ltrim": _f("LTRIM", 1, 2, result.with_literals("string", 1), "string"),
    "rtrim": _f("RTRIM", 1, 2, result.with_literals("string", 1), "string"),
    "startswith": _f("STARTSWITH", 2, 2, result.with_literals("boolean", 1), "string"),
    "endswith": _f("ENDSWITH", 2, 2, result.with_literals("boolean", 1), "string"),
    "contains": _f("CONTAINS", 2, 2, result.with_literals("boolean", 1), "string"),
    "replace": _f("REPLACE", 3, 3, result.with_literals("string", 1, 2), "string"),
    "concat_ws": _f("CONCAT_WS", 2, None, result.always("string"), "string"),
    "repeat": _f("REPEAT", 2, 2, result.with_literals("string", 1), "string", "int"),
    "reverse": _f("REVERSE", 1, 1, result.always("string"), "string"),
    "octet_length": _f("OCTET_LENGTH", 1, 1, result.always("int"), "string or binary"),
    "lpad": _f("LPAD", 3, 3, result.padded, "string", "int", "string"),
    "rpad": _f("RPAD", 3, 3, result.padded, "string", "int", "string"),
    "instr": _f("INSTR", 2, 2, result.with_literals("int", 1), "string"),
    "split_part": _f("SPLIT_PART", 3, 3, result.split_part, "string", "string", "int"),
    "div": _f("DIV", 2, 2, result.always("bigint"), "integer"),
    "pmod": _f("PMOD", 2, 2, result.common_of, "integer or floating number"),
    "sqrt": _f("SQRT", 1, 1, result.always("double"), "number"),
    "exp": _f("EXP", 1, 1, result.always("double"), "number"),
    "ln": _f("LN", 1, 1, result.always("double"), "number"),
    "log2": _f("LOG2", 1, 1, result.always("double"), "number"),
    "log10": _f("LOG10", 1, 1, result.always("double"), "number"),
    "log": _f("LOG", 2, 2, result.always("double"), "number"),
    "power": _f("POWER", 2, 2, result.always("double"), "number"),
    "rint": _f("RINT", 1, 1, result.always("double"), "number"),
    "sign": _f("SIGN", 1, 1, result.always("double"), "number"),
    "isnan": _f("ISNAN", 1, 1, result.always("boolean"), "floating number"),
    "nanvl": _f("NANVL", 2, 2, result.common_of, "floating number"),
    "&": _f("&", 2, 2, result.common_of, "integer"),
    "|": _f("|", 2, 2, result.common_of, "integer"),
    "^": _f("^", 2, 2, result.common_of, "integer"),
    "~": _f("~", 1, 1, result.first, "integer"),
    "date_add": _f("DATE_ADD", 2, 2, result.always("date"), "date", "int"),
    "date_sub": _f("DATE_SUB", 2, 2, result.always("date"), "date", "int"),
    "add_months": _f("ADD_MONTHS", 2, 2, result.first, "date or timestamp", "int"),
    "datediff": _f("DATEDIFF", 2, 2, result.always("int"), "date"),
    "last_day": _f("LAST_DAY", 1, 1, result.always("date"), "date"),
    "next_day": _f("NEXT_DAY", 2, 2, result.next_day, "date", "string"),
    "make_date": _f("MAKE_DATE", 3, 3, result.always("date"), "int"),
    "trunc": _f("TRUNC", 2, 2, result.truncated("date", 1, result.DATE_UNITS), "date", "string"),
    "date_trunc": _f("DATE_TRUNC", 2, 2, result.truncated("timestamp", 0, result.TIME_UNITS), "string", "timestamp"),
    "quarter": _f("QUARTER", 1, 1, result.always("int"), "date or timestamp"),
    "dayofweek": _f("DAYOFWEEK", 1, 1, result.always("int"), "date or timestamp"),
    "weekday": _f("WEEKDAY", 1, 1, result.always("int"), "date or timestamp"),
    "dayofyear": _f("DAYOFYEAR", 1, 1, result.always("int"), "date or timestamp"),
    "weekofyear": _f("WEEKOFYEAR", 1, 1, result.always("int"), "date or timestamp"),
    "yearofweek": _f("EXTRACT(YEAROFWEEK …)", 1, 1, result.always("int"), "date or timestamp"),
    "dayname": _f("DAYNAME", 1, 1, result.always("string"), "date or timestamp"),
    "monthname": _f("MONTHNAME", 1, 1, result.always("string"), "date or timestamp"),
    "second_fraction": _f("EXTRACT(SECOND …)", 1, 1, result.always("decimal(8,6)"), "timestamp"),
    "unix_date": _f("UNIX_DATE", 1, 1, result.always("int"), "date"),
    "date_from_unix_date": _f("DATE_FROM_UNIX_DATE", 1, 1, result.always("date"), "int"),
    "unix_timestamp": _f("UNIX_TIMESTAMP", 1, 1, result.always("bigint"), "date or timestamp"),
    "unix_seconds": _f("UNIX_SECONDS", 1, 1, result.always("bigint"), "timestamp with time zone"),
    "unix_millis": _f("UNIX_MILLIS", 1, 1, result.always("bigint"), "timestamp with time zone"),
    "unix_micros": _f("UNIX_MICROS", 1, 1, result.always("bigint"), "timestamp with time zone"),
    "timestamp_seconds": _f("TIMESTAMP_SECONDS", 1, 1, result.always("timestamp"), "integer"),
    "timestamp_millis": _f("TIMESTAMP_MILLIS", 1, 1, result.always("timestamp"), "integer"),
    "timestamp_micros": _f("TIMESTAMP_MICROS", 1, 1, result.always("timestamp"), "integer"),
    "year": _f("YEAR", 1, 1, result.always("int"), "date or timestamp"),
    "month": _f("MONTH", 1, 1, result.always("int"), "date or timestamp"),
    "day": _f("DAY", 1, 1, result.always("int"), "date or timestamp"),
    "hour": _f("HOUR", 1, 1, result.always("int"), "timestamp"),
    "minute": _f("MINUTE", 1, 1, result.always("int"), "timestamp"),
    "second": _f("SECOND", 1, 1, result.always("int"), "timestamp"),
}
# Names of functions that users may write, for hints in errors; those at the end are converted to functions above.
NAMES = sorted(
    {f.sql_name for op, f in FUNCTIONS.items() if op.isidentifier() and op == f.sql_name.lower()} - {"AND", "OR", "NOT", "IN", "DIV"}
    | {"IF", "NULLIF", "NVL", "NVL2", "LEFT", "RIGHT", "EXTRACT", "TO_DATE", "TO_TIMESTAMP"}
)


def typed(op: str, args: Args) -> Call:
    """The call with the type of its result; raises `MismatchError` if `op` does not accept these arguments."""
    function = FUNCTIONS[op]
    least, most = function.min_args, function.max_args
    if len(args) < least or (most is not None and len(args) > most):
        counts = f"{least} or more" if most is None else f"{least}" if most == least else f"{least} to {most}"
        raise MismatchError(f"{function.sql_name} has the wrong number of arguments", f"{len(args)}", f"it takes {counts}")
    for at, arg in enumerate(args):
        kind = function.argument_kinds[min(at, len(function.argument_kinds) - 1)]
        if arg.type in (UNKNOWN, VOID) or _KINDS[kind](arg.type):
            continue
        if kind == "atomic":
            raise MismatchError(f"{function.sql_name} does not work on nested types", arg.type, "use a column of an atomic type")
        needs = f"{function.sql_name} needs {'an' if kind[0] in 'aeiou' else 'a'} {kind}"
        numbers = "number" in kind or kind == "integer"
        if (numbers and arg.type == "string") or (kind == "string" and is_numeric(arg.type)):
            target = "int" if kind == "integer" else "double" if numbers else "string"
            raise MismatchError(needs, f"this is {arg.type}", f"write CAST(… AS {target})")
        raise MismatchError(needs, f"this is {arg.type}", "CAST it, or use another column")
    return Call(op, args, function.result_type(args))
