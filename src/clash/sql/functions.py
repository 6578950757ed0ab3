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
- An interval is whole microseconds. Its whole days, added to a timestamp, keep the local time of the session's time zone, so that a day is
  23 or 25 hours over a change of the clock; the rest is elapsed time. `timestamp - timestamp` is an interval: the difference of their local
  times. A timestamp_ntz knows no zone.
- `year` … `second`, a cast between date and timestamp, and a timestamp literal without offset are in the session's time zone.
- The normal form has no `>`, `>=` (operands are swapped), `between` or `if`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clash.model.coercion import INTERVAL, TIMES, VOID, arithmetic, common, decimal, digits
from clash.model.expressions import Call, Expr, Lit
from clash.model.types import UNKNOWN, family, is_atomic, is_numeric

Args = tuple[Expr, ...]


class MismatchError(Exception):
    """An expression whose arguments do not fit; `convert` turns it into a `QueryError` with the place in the text."""

    def __init__(self, what: str, note: str, hint: str) -> None:
        super().__init__(what, note, hint)
        self.what, self.note, self.hint = what, note, hint


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
    "string": lambda t: t == "string",
    "string or binary": lambda t: t in ("string", "binary"),
    "date or timestamp": lambda t: t in ("date", *TIMES),
    "timestamp": lambda t: t in TIMES,
    "atomic": lambda t: is_atomic(t) or t == INTERVAL,
}


# ---- result types -------------------------------------------------------------------------------------------


def _first(args: Args) -> str:
    return args[0].type


def _always(kind: str) -> Callable[[Args], str]:
    return lambda args: kind


def _arithmetic(op: str) -> Callable[[Args], str]:
    def result(args: Args) -> str:
        kind = arithmetic(op, *args)
        if kind is None:
            raise _mismatch(f"{op} does not go with these types", args)
        return kind

    return result


def _comparison(args: Args) -> str:
    _common(args)
    return "boolean"


def _common(args: Args) -> str:
    """The type to which all arguments are cast."""
    kind = VOID
    for arg in args:
        wider = common(kind, arg.type)
        if wider is None:
            raise _mismatch("these types cannot be compared", args)
        kind = wider
    return kind


def _case(args: Args) -> str:
    for condition in args[:-1:2]:
        if condition.type not in ("boolean", UNKNOWN, VOID):
            raise MismatchError("a condition is not a boolean", f"it is {condition.type}", "write a comparison")
    return _common((*args[1::2], args[-1]))


def _floor(args: Args) -> str:
    kind = args[0].type
    if kind.startswith("decimal"):
        precision, scale = digits(kind)
        return kind if scale == 0 else decimal(precision - scale + 1, 0)
    return kind if kind == UNKNOWN else "bigint"


def _round(args: Args) -> str:
    kind, places = args[0].type, args[1] if len(args) > 1 else Lit(0, "int")
    if not isinstance(places, Lit) or not isinstance(places.value, int):
        raise MismatchError("ROUND needs a literal number of places", "", "write e.g. ROUND(R.a, 2)")
    if not kind.startswith("decimal"):
        return kind
    precision, scale = digits(kind)
    whole = precision - scale + 1
    if places.value < 0:
        return decimal(min(38, max(whole, 1 - places.value)), 0)
    return decimal(min(38, whole + min(scale, places.value)), min(scale, places.value))


def _mismatch(what: str, args: Args) -> MismatchError:
    """The error for types that do not fit together, with a hint for the combination at hand."""
    kinds = [a.type for a in args]
    note = " and ".join(dict.fromkeys(kinds))
    if "string" in kinds and any(is_numeric(k) for k in kinds):
        return MismatchError("a string and a number do not go together", note, "say what is meant: CAST(… AS string) or CAST(… AS double)")
    if INTERVAL in kinds:
        return MismatchError(what, note, "an INTERVAL goes with timestamps; CAST other types to timestamp")
    return MismatchError(what, note, "CAST one of them to the type of the other")


def _f(sql_name: str, min_args: int, max_args: int | None, result_type: Callable[[Args], str], *kinds: str) -> Function:
    """A row of the table below; without `kinds`, arguments of any type are accepted."""
    return Function(sql_name, min_args, max_args, kinds or ("any",), result_type)


FUNCTIONS: dict[str, Function] = {
    "+": _f("+", 2, 2, _arithmetic("+")),
    "-": _f("-", 2, 2, _arithmetic("-")),
    "*": _f("*", 2, 2, _arithmetic("*")),
    "/": _f("/", 2, 2, _arithmetic("/")),
    "%": _f("%", 2, 2, _arithmetic("%")),
    "neg": _f("-", 1, 1, _first, "number or interval"),
    "=": _f("=", 2, 2, _comparison, "atomic"),
    "<>": _f("<>", 2, 2, _comparison, "atomic"),
    "<": _f("<", 2, 2, _comparison, "atomic"),
    "<=": _f("<=", 2, 2, _comparison, "atomic"),
    ">": _f(">", 2, 2, _comparison, "atomic"),
    ">=": _f(">=", 2, 2, _comparison, "atomic"),
    "<=>": _f("<=>", 2, 2, _comparison, "atomic"),
    "in": _f("IN", 2, None, _comparison, "atomic"),
    "and": _f("AND", 1, None, _always("boolean"), "boolean"),
    "or": _f("OR", 1, None, _always("boolean"), "boolean"),
    "not": _f("NOT", 1, 1, _always("boolean"), "boolean"),
    "isnull": _f("IS NULL", 1, 1, _always("boolean")),
    "isnotnull": _f("IS NOT NULL", 1, 1, _always("boolean")),
    "like": _f("LIKE", 2, 3, _always("boolean"), "string"),
    "case": _f("CASE", 3, None, _case),
    "cast": _f("CAST", 1, 1, _first, "atomic"),
    "coalesce": _f("COALESCE", 1, None, _common, "atomic"),
    "greatest": _f("GREATEST", 2, None, _common, "atomic"),
    "least": _f("LEAST", 2, None, _common, "atomic"),
    "abs": _f("ABS", 1, 1, _first, "number"),
    "round": _f("ROUND", 1, 2, _round, "number", "integer"),
    "floor": _f("FLOOR", 1, 1, _floor, "number"),
    "ceil": _f("CEIL", 1, 1, _floor, "number"),
    "lower": _f("LOWER", 1, 1, _always("string"), "string"),
    "upper": _f("UPPER", 1, 1, _always("string"), "string"),
    "length": _f("LENGTH", 1, 1, _always("int"), "string or binary"),
    "trim": _f("TRIM", 1, 1, _always("string"), "string"),
    "substring": _f("SUBSTRING", 2, 3, _always("string"), "string", "integer"),
    "concat": _f("CONCAT", 1, None, _always("string"), "string"),
    "year": _f("YEAR", 1, 1, _always("int"), "date or timestamp"),
    "month": _f("MONTH", 1, 1, _always("int"), "date or timestamp"),
    "day": _f("DAY", 1, 1, _always("int"), "date or timestamp"),
    "hour": _f("HOUR", 1, 1, _always("int"), "timestamp"),
    "minute": _f("MINUTE", 1, 1, _always("int"), "timestamp"),
    "second": _f("SECOND", 1, 1, _always("int"), "timestamp"),
}
# Names of functions that users may write, for hints in errors; IF, NULLIF and NVL are converted to functions above.
NAMES = sorted(
    {f.sql_name for op, f in FUNCTIONS.items() if op.isalpha() and op == f.sql_name.lower()} - {"AND", "OR", "NOT", "IN"}
    | {"IF", "NULLIF", "NVL"}
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
