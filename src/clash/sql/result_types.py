"""Types of the results of operators and functions, and what their arguments must be for that."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from clash.model.coercion import INTERVAL, VOID, arithmetic, common, decimal, digits
from clash.model.expressions import Expr, Lit
from clash.model.types import UNKNOWN, is_numeric, normalise, struct_fields

Args = tuple[Expr, ...]

MAX_PADDING = 1_000  # characters: every filling up to this length is made once per call
WEEKDAYS = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")
# units of TRUNC and DATE_TRUNC, by the names that Spark has for them
DATE_UNITS = {
    "YEAR": "YEAR", "YYYY": "YEAR", "YY": "YEAR", "QUARTER": "QUARTER", "MONTH": "MONTH", "MON": "MONTH", "MM": "MONTH", "WEEK": "WEEK",
}  # fmt: skip
TIME_UNITS = {
    **DATE_UNITS, "DAY": "DAY", "DD": "DAY", "HOUR": "HOUR", "MINUTE": "MINUTE", "SECOND": "SECOND", "MILLISECOND": "MILLISECOND",
    "MICROSECOND": "MICROSECOND",
}  # fmt: skip


class MismatchError(Exception):
    """An expression whose arguments do not fit; `convert` turns it into a `QueryError` with the place in the text."""

    def __init__(self, what: str, note: str, hint: str) -> None:
        super().__init__(what, note, hint)
        self.what, self.note, self.hint = what, note, hint


def first(args: Args) -> str:
    return args[0].type


def field(args: Args) -> str:
    """The type of a field of a struct, whose name is a literal in its declared spelling."""
    kinds = dict(struct_fields(args[0].type))
    name = args[1].value if isinstance(args[1], Lit) else None
    if not isinstance(name, str) or not kinds.get(name):
        raise MismatchError("there is no such field", f"{name} in {args[0].type}", "name a field of the struct")
    return normalise(kinds[name])


def always(kind: str) -> Callable[[Args], str]:
    return lambda args: kind


def arithmetic_of(op: str) -> Callable[[Args], str]:
    def result(args: Args) -> str:
        kind = arithmetic(op, *args)
        if kind is None:
            raise _mismatch(f"{op} does not go with these types", args)
        return kind

    return result


def comparison(args: Args) -> str:
    common_of(args)
    return "boolean"


def common_of(args: Args) -> str:
    """The type to which all arguments are cast."""
    kind = VOID
    for arg in args:
        wider = common(kind, arg.type)
        if wider is None:
            raise _mismatch("these types cannot be compared", args)
        kind = wider
    return kind


def case(args: Args) -> str:
    for condition in args[:-1:2]:
        if condition.type not in ("boolean", UNKNOWN, VOID):
            raise MismatchError("a condition is not a boolean", f"it is {condition.type}", "write a comparison")
    return common_of((*args[1::2], args[-1]))


def floor(args: Args) -> str:
    kind = args[0].type
    if kind.startswith("decimal"):
        precision, scale = digits(kind)
        return kind if scale == 0 else decimal(precision - scale + 1, 0)
    return kind if kind == UNKNOWN else "bigint"


def rounded(args: Args) -> str:
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


def with_literals(kind: str, *positions: int) -> Callable[[Args], str]:
    """A result of this type, of a function whose arguments at these positions are literals, if they are there."""

    def result(args: Args) -> str:
        for at in positions:
            if at < len(args):
                _literal(args[at])
        return kind

    return result


def _literal(arg: Expr) -> str | int | float:
    if not isinstance(arg, Lit) or arg.value is None:
        raise MismatchError("the function needs a literal here", str(arg), "write the text or number itself")
    return arg.value


def padded(args: Args) -> str:
    size = _literal(args[1])
    _literal(args[2])
    if isinstance(size, int) and size > MAX_PADDING:
        raise MismatchError("a text is padded to too many characters", f"{size}", f"{MAX_PADDING:,} at most")
    return "string"


def split_part(args: Args) -> str:
    _literal(args[1])
    if _literal(args[2]) == 0:
        raise MismatchError("parts are numbered from 1", "0", "write 1 for the first part, -1 for the last")
    return "string"


def next_day(args: Args) -> str:
    day = str(_literal(args[1])).upper()
    if not any(day in (name, name[:3], name[:2]) for name in WEEKDAYS):
        raise MismatchError("not a day of the week", day, "write e.g. 'MON' or 'monday'")
    return "date"


def truncated(kind: str, position: int, units: Mapping[str, str]) -> Callable[[Args], str]:
    def result(args: Args) -> str:
        unit = str(_literal(args[position])).upper()
        if unit not in units.values():
            raise MismatchError("not a unit to truncate to", unit, f"units are {', '.join(dict.fromkeys(units.values()))}")
        return kind

    return result


def _mismatch(what: str, args: Args) -> MismatchError:
    """The error for types that do not fit together, with a hint for the combination at hand."""
    kinds = [a.type for a in args]
    note = " and ".join(dict.fromkeys(kinds))
    if "string" in kinds and any(is_numeric(k) for k in kinds):
        return MismatchError("a string and a number do not go together", note, "say what is meant: CAST(… AS string) or CAST(… AS double)")
    if INTERVAL in kinds:
        return MismatchError(what, note, "an INTERVAL goes with timestamps; CAST other types to timestamp")
    return MismatchError(what, note, "CAST one of them to the type of the other")
