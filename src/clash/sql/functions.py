"""The listed operators and functions: the only values of `Call.op`, with Spark's semantics.

What whoever compiles them has to know:

- ANSI mode, Spark 4's default: integer overflow, division by zero, a cast of a value that does not fit and a malformed
  string raise; nothing wraps around or turns to NULL. Predicates may run in any order, as in Spark.
- Arguments of different types are first brought to `coercion.common` of them; no implicit casts are written into the tree.
- NULL in, NULL out, but for: `and`/`or` (three-valued), `isnull`, `isnotnull`, `<=>`, `coalesce`, `case`, and
  `greatest`/`least`, which skip NULLs.
- `/` of integers gives a double; `%` has the sign of the dividend; NaN = NaN, NaN is the largest number, -0.0 = 0.0.
- `round` is half up (away from zero); `floor` and `ceil` give bigint (decimals stay decimals).
- `in` is `x`, then literals; `case` is condition, value, condition, value, …, else; `like` has a literal pattern with
  `%`, `_` and an escape character (a third argument, `\\` unless told). `substring` counts from 1, from the end if negative.
- An interval is whole microseconds; a day is 24 hours, also where the session's time zone has summer time (there Spark's day
  is 23 or 25 hours twice a year). `timestamp - timestamp` is an interval.
- `year` … `second`, a cast between date and timestamp, and a timestamp literal without offset are in the session's time zone.
- In the normal form there is no `>`, `>=` (operands are swapped), `between` or `if`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clash.model.expressions import Call, Expr, Lit
from clash.model.types import UNKNOWN, family, is_atomic, is_numeric
from clash.model.coercion import INTERVAL, TIMES, VOID, arithmetic, common, decimal, digits

Args = tuple[Expr, ...]


class MismatchError(Exception):
    """Types that do not go together: what, note, hint; the caller knows the place."""

    def __init__(self, what: str, note: str, hint: str) -> None:
        super().__init__(what, note, hint)
        self.what, self.note, self.hint = what, note, hint


@dataclass(frozen=True, slots=True)
class Function:
    """`kinds` are those of the arguments, the last one repeats; `most` None means any number."""

    shown: str
    least: int
    most: int | None
    kinds: tuple[str, ...]
    result: Callable[[Args], str]


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


def _compared(args: Args) -> str:
    _shared(args)
    return "boolean"


def _shared(args: Args) -> str:
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
    return _shared((*args[1::2], args[-1]))


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
    kinds = [a.type for a in args]
    note = " and ".join(dict.fromkeys(kinds))
    if "string" in kinds and any(is_numeric(k) for k in kinds):
        return MismatchError("a string and a number do not go together", note, "say what is meant: CAST(… AS string) or CAST(… AS double)")
    if INTERVAL in kinds:
        return MismatchError(what, note, "an INTERVAL goes with timestamps; CAST other types to timestamp")
    return MismatchError(what, note, "CAST one of them to the type of the other")


def _any_type(shown: str, least: int, most: int | None, result: Callable[[Args], str], *kinds: str) -> Function:
    return Function(shown, least, most, kinds or ("any",), result)


_f = _any_type
FUNCTIONS: dict[str, Function] = {
    "+": _f("+", 2, 2, _arithmetic("+")),
    "-": _f("-", 2, 2, _arithmetic("-")),
    "*": _f("*", 2, 2, _arithmetic("*")),
    "/": _f("/", 2, 2, _arithmetic("/")),
    "%": _f("%", 2, 2, _arithmetic("%")),
    "neg": _f("-", 1, 1, _first, "number or interval"),
    "=": _f("=", 2, 2, _compared, "atomic"),
    "<>": _f("<>", 2, 2, _compared, "atomic"),
    "<": _f("<", 2, 2, _compared, "atomic"),
    "<=": _f("<=", 2, 2, _compared, "atomic"),
    ">": _f(">", 2, 2, _compared, "atomic"),
    ">=": _f(">=", 2, 2, _compared, "atomic"),
    "<=>": _f("<=>", 2, 2, _compared, "atomic"),
    "in": _f("IN", 2, None, _compared, "atomic"),
    "and": _f("AND", 1, None, _always("boolean"), "boolean"),
    "or": _f("OR", 1, None, _always("boolean"), "boolean"),
    "not": _f("NOT", 1, 1, _always("boolean"), "boolean"),
    "isnull": _f("IS NULL", 1, 1, _always("boolean")),
    "isnotnull": _f("IS NOT NULL", 1, 1, _always("boolean")),
    "like": _f("LIKE", 2, 3, _always("boolean"), "string"),
    "case": _f("CASE", 3, None, _case),
    "cast": _f("CAST", 1, 1, _first, "atomic"),
    "coalesce": _f("COALESCE", 1, None, _shared, "atomic"),
    "greatest": _f("GREATEST", 2, None, _shared, "atomic"),
    "least": _f("LEAST", 2, None, _shared, "atomic"),
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
# Names that users may write, for the nearest name in an error; IF, NULLIF, NVL become others above.
NAMES = sorted(
    {f.shown for op, f in FUNCTIONS.items() if op.isalpha() and op == f.shown.lower()} - {"AND", "OR", "NOT", "IN"}
    | {"IF", "NULLIF", "NVL"}
)


def typed(op: str, args: Args) -> Call:
    """The call with its type; `MismatchError` if `op` does not take these arguments."""
    function = FUNCTIONS[op]
    if len(args) < function.least or (function.most is not None and len(args) > function.most):
        counts = f"{function.least}" if function.most == function.least else f"{function.least} to {function.most}"
        counts = f"{function.least} or more" if function.most is None else counts
        raise MismatchError(f"{function.shown} has the wrong number of arguments", f"{len(args)}", f"it takes {counts}")
    for at, arg in enumerate(args):
        kind = function.kinds[min(at, len(function.kinds) - 1)]
        if arg.type in (UNKNOWN, VOID) or _KINDS[kind](arg.type):
            continue
        if kind == "atomic":
            raise MismatchError(f"{function.shown} does not work on nested types", arg.type, "use a column of an atomic type")
        needs = f"{function.shown} needs {'an' if kind[0] in 'aeiou' else 'a'} {kind}"
        numbers = "number" in kind or kind == "integer"
        if (numbers and arg.type == "string") or (kind == "string" and is_numeric(arg.type)):
            target = "int" if kind == "integer" else "double" if numbers else "string"
            raise MismatchError(needs, f"this is {arg.type}", f"write CAST(… AS {target})")
        raise MismatchError(needs, f"this is {arg.type}", "CAST it, or use another column")
    return Call(op, args, function.result(args))
