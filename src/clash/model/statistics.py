"""What the planner knows about the data: rates, selectivities and known join sizes.

The key of a known join size names either streams, `("S", "T")`, whatever the predicates between them, or predicates,
`("S.b = T.b", "T.c = U.c")`, which identify exactly one join. Keys of predicates are stored in a canonical form: equalities are closed
under transitivity, and each equality class is written as its smallest member equal to each of the other members.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clash.errors import OptionError

MOST = 1e15  # tuples in a window; a larger number is a typing error
_PLAIN = re.compile(r"[A-Za-z_]\w*")
_SIDE = r"[A-Za-z_]\w*(?:#\d+)?\.(?:[A-Za-z_]\w*|`(?:[^`]|``)+`)"
_EQUALITY = re.compile(rf"\s*({_SIDE})\s*=\s*({_SIDE})\s*")
_MAX_LINES = 20  # of each table, in the text for people
_HINT = 'write sizes={("S", "T"): 150} or {("S.b = T.b", "T.c = U.c"): 150}; one stream has a rate'


@dataclass(frozen=True)
class Statistics:
    """Rates, selectivities and join sizes. The constructor checks every number, so that planning never sees a negative rate or a NaN."""

    rates: Mapping[str, float] = field(default_factory=dict)
    """Tuples in the window, per stream."""
    selectivities: Mapping[str, float] = field(default_factory=dict)
    """Share of pairs, or rows, that match: per equality, `"R.a = S.a"`, and per filter or residual, by its text in normal form."""
    default_rate: float = 1000.0
    """The rate of streams that `rates` does not name."""
    default_selectivity: float = 0.001
    """The selectivity of equalities that `selectivities` does not name."""
    sizes: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    """Known sizes of joins, by streams or by predicates (see the module)."""
    distinct: Mapping[str, float] = field(default_factory=dict)
    """How many different values a column has, `{"R.a": 25}`: of two columns with the most, one pair in so many is equal, unless
    `selectivities` say otherwise."""
    frequent: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """The most frequent values of a column, as measured: by hash of the value (`clash.columnar.slots`), its share of the tuples."""

    def __post_init__(self) -> None:
        for name, table, example in (
            ("rates", self.rates, '{"R": 100}'),
            ("selectivities", self.selectivities, '{"R.a = S.a": 0.01}'),
            ("sizes", self.sizes, '{("S", "T"): 150}'),
            ("distinct", self.distinct, '{"R.a": 25}'),
            ("frequent", self.frequent, '{"R.a": {3735928559: 0.4}}'),
        ):
            if not isinstance(table, Mapping) or (name != "sizes" and not all(isinstance(key, str) for key in table)):
                raise OptionError(f"{name} are not a table of numbers by name", repr(table)[:200], f"write {name}={example}")
        for what, value in (("default_rate", self.default_rate), ("default_selectivity", self.default_selectivity)):
            _number(what, what, value)
        for stream, rate in self.rates.items():
            _number("rate", stream, rate)
        for predicate, selectivity in self.selectivities.items():
            _number("selectivity", predicate, selectivity)
        if self.default_selectivity > 1 or any(s > 1 for s in self.selectivities.values()):
            worst = max({"default_selectivity": self.default_selectivity, **self.selectivities}.items(), key=lambda item: item[1])
            raise OptionError("a selectivity is above 1", f"{worst[0]}: {worst[1]}", "write the share of pairs that match, 0 to 1")
        for column, values in self.distinct.items():
            _number("number of values", column, values)
        for column, shares in self.frequent.items():
            if not isinstance(shares, Mapping) or not all(type(value) is int and 0 <= value < 1 << 32 for value in shares):
                raise OptionError("frequent keys are not a table of shares by hash", f"{column}: {shares!r}"[:200], "leave them out")
            for value, share in shares.items():
                _number("share", f"{column}, {value}", share)
            if sum(shares.values()) > 1 + 1e-6:
                raise OptionError("frequent keys have more than all tuples", column, "leave them out")
        sizes = {}
        for key, size in self.sizes.items():
            canonical = _size_key(key)
            sizes[canonical] = _number("size", " ⋈ ".join(canonical), size)
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "_pairs", {_pair(text): value for text, value in self.selectivities.items()})

    def rate(self, stream: str) -> float:
        """Tuples of the stream in its window."""
        return float(self.rates.get(stream, self.default_rate))

    def equality(self, left: str, right: str) -> float:
        """The selectivity of `left = right`, both as `column_text` writes them."""
        pairs: dict[str, float] = self._pairs  # type: ignore[attr-defined]
        given = pairs.get(" = ".join(sorted((left, right))))
        if given is not None:
            return float(given)
        values = max(self.distinct.get(left, 0.0), self.distinct.get(right, 0.0))
        return 1.0 / values if values >= 1.0 else float(self.default_selectivity)

    def predicate(self, text: str) -> float | None:
        """The selectivity given for a filter or residual, by its text."""
        return self.selectivities.get(text)

    def __str__(self) -> str:
        """Tables for people, each cut off after its first lines."""
        parts = [("tuples in the window", self.rates), ("share that matches", self.selectivities), ("different values", self.distinct)]
        parts.append(("rows of a join", {" AND ".join(key) if by_predicates(key) else " ⋈ ".join(key): n for key, n in self.sizes.items()}))
        parts.append(
            ("share of the most frequent value", {column: max(shares.values(), default=0.0) for column, shares in self.frequent.items()})
        )
        lines = []
        for title, table in parts:
            shown = sorted(table.items(), key=lambda item: item[0] if title != "rows of a join" else "")[:_MAX_LINES]
            width = max((len(name) for name, _ in shown), default=0)
            lines += [title, *(f"  {name:<{width}}  {_short(value)}" for name, value in shown)] if shown else []
            lines += [f"  … and {len(table) - len(shown):,} more"] if len(table) > len(shown) else []
        return "\n".join([*lines, f"of others: {_short(self.default_rate)} tuples, {_short(self.default_selectivity)} match"])

    def to_json(self) -> dict[str, Any]:
        """The format of statistics files; `sizes` are pairs, because keys of JSON objects are text."""
        return {
            "rates": dict(self.rates),
            "selectivities": dict(self.selectivities),
            "default_rate": self.default_rate,
            "default_selectivity": self.default_selectivity,
            "sizes": [[list(key), size] for key, size in self.sizes.items()],
            **({"distinct": dict(self.distinct)} if self.distinct else {}),
            **({"frequent": {column: [*map(list, shares.items())] for column, shares in self.frequent.items()}} if self.frequent else {}),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Statistics:
        """Statistics from the parsed content of a file, which users may have written by hand."""
        allowed = {"rates", "selectivities", "default_rate", "default_selectivity", "sizes", "distinct", "frequent"}
        if not isinstance(data, Mapping) or set(data) - allowed:
            odd = sorted(set(data) - allowed) if isinstance(data, Mapping) else type(data).__name__
            raise OptionError("not a statistics file", f"unexpected {odd}", f"keys are {', '.join(sorted(allowed))}")
        fields = dict(data)
        try:
            fields["sizes"] = {tuple(key): size for key, size in data.get("sizes", [])}
        except (TypeError, ValueError):
            raise OptionError("sizes are not in order", repr(data["sizes"]), 'write "sizes": [[["S", "T"], 150]]') from None
        try:
            fields["frequent"] = {column: dict(pairs) for column, pairs in data.get("frequent", {}).items()}
        except (AttributeError, TypeError, ValueError):
            hint = 'write "frequent": {"R.a": [[7, 0.4]]}'
            raise OptionError("frequent keys are not in order", repr(data["frequent"])[:200], hint) from None
        for key in ("rates", "selectivities", "distinct"):
            if not isinstance(fields.get(key, {}), Mapping):
                raise OptionError(f"{key} is not a table of numbers", repr(fields[key]), f'write "{key}": {{"R": 100}}')
        return Statistics(**fields)

    def save(self, path: str | Path) -> None:
        """Writes a JSON file for `load` and `clash explain --statistics`."""
        try:
            Path(path).write_text(json.dumps(self.to_json(), indent=2) + "\n")
        except (OSError, TypeError) as error:
            detail = f"{path}: {getattr(error, 'strerror', None) or error}"
            raise OptionError("cannot write the statistics", detail, "give the path of a file, in a folder that is there") from None

    @staticmethod
    def load(path: str | Path) -> Statistics:
        """Reads a JSON file that `save`, or a user, wrote."""
        hint = 'give a JSON file such as {"rates": {"R": 100}}, or one that Statistics.save wrote'
        try:
            data = json.loads(Path(path).read_text())
        except (OSError, TypeError) as error:
            raise OptionError("cannot read the statistics", f"{path}: {getattr(error, 'strerror', None) or error}", hint) from None
        except (ValueError, RecursionError) as error:
            raise OptionError("the statistics are not JSON", f"{path}: {error}", hint) from None
        try:
            return Statistics.from_json(data)
        except OptionError as error:
            raise OptionError(error.what, f"{path}: {error.detail}", error.hint) from None


def _pair(text: str) -> str:
    """The canonical key of a selectivity: `S.a=R.a` and `R.a = S.a` are one key; the text of a filter stays as it is."""
    sides = equality_sides(text)
    return text if sides is None else " = ".join(sorted(sides))


def by_predicates(key: tuple[str, ...]) -> bool:
    """Whether the key of a known size names predicates rather than streams."""
    return any(is_equality(part) for part in key)


def closed(equalities: Iterable[tuple[str, str]]) -> list[list[str]]:
    """The equality classes of these pairs, under transitivity; members and classes are sorted.

    >>> closed([("S.b", "T.b"), ("R.b", "S.b"), ("R.a", "T.c")])
    [['R.a', 'T.c'], ['R.b', 'S.b', 'T.b']]
    """
    members: dict[str, set[str]] = {}
    for left, right in equalities:
        both = members.get(left, {left}) | members.get(right, {right})
        members.update(dict.fromkeys(both, both))
    return sorted(sorted(group) for group in {id(group): group for group in members.values()}.values())


def written(classes: Iterable[Iterable[str]]) -> list[str]:
    """Equality classes as canonical equalities: the smallest member with each of the others.

    >>> written([["T.b", "S.b", "R.b"]])
    ['R.b = S.b', 'R.b = T.b']
    """
    return [f"{first} = {other}" for first, *others in sorted(sorted(group) for group in classes) for other in others]


def _size_key(key: Any) -> tuple[str, ...]:
    """The canonical form of a key of `sizes`: streams sorted, equalities closed, other predicates sorted behind them."""
    parts = (key,) if isinstance(key, str) else tuple(key)
    if not all(isinstance(part, str) for part in parts):
        raise OptionError("a known size needs two or more streams", f"{key!r}", _HINT)
    equalities = [sides for part in parts if (sides := equality_sides(part)) is not None]
    if equalities:
        classes = closed(equalities)
        if len({member.partition(".")[0] for group in classes for member in group}) > 1:
            return (*written(classes), *sorted({part for part in parts if not is_equality(part)}))
    elif len(parts) > 1:
        return tuple(sorted(parts))
    raise OptionError("a known size needs two or more streams", f"{key!r}", _HINT)


def column_text(owner: object, column: str) -> str:
    """A column of a stream or relation as statistics name it: in backquotes if it has other characters than letters, digits, underscores.

    >>> column_text("R", "a"), column_text("R", "unit price")
    ('R.a', 'R.`unit price`')
    """
    return f"{owner}.{column}" if _PLAIN.fullmatch(column) else f"{owner}.`{column.replace('`', '``')}`"


def equality_sides(text: str) -> tuple[str, str] | None:
    """Both columns of an equality, `stream.column = stream.column`; None for any other text."""
    match = _EQUALITY.fullmatch(text)
    return None if match is None else (match[1], match[2])


def is_equality(text: str) -> bool:
    """Whether the text is an equality of two columns."""
    return equality_sides(text) is not None


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _number(what: str, name: str, value: float) -> float:
    """The value, if it is a number in range; `what` it is and the `name` it is given for go into the error."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:  # NaN is neither
        raise OptionError(f"a {what} must be a number from 0 to {MOST:g}", f"{name}: {value!r}"[:200], "write e.g. 100 or 0.01")
    return float(value)
