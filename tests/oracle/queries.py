"""Random SQL in the part that Spark and DuckDB agree on: no overflow, no division by zero, no text made of doubles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random

from clash.errors import QueryError
from clash.model.stream import Stream
from clash.model.types import joinable
from clash.sql import parse_query

from .case import Ask
from .schemas import Schema

Condition = tuple[str, frozenset[str]]  # its text, and the aliases it names


@dataclass(frozen=True)
class Draft:
    """A query before it is written down, so that others can be made of parts of it. `crossed`: aliases behind CROSS JOIN."""

    aliases: tuple[tuple[str, Stream], ...]
    equal: tuple[Condition, ...] = ()
    others: tuple[Condition, ...] = ()
    windows: tuple[tuple[str, str], ...] = ()
    crossed: frozenset[str] = frozenset()

    def cut(self, keep: list[str]) -> Draft:
        """What of it concerns `keep` alone."""
        there = frozenset(keep)
        return Draft(
            tuple(a for a in self.aliases if a[0] in there),
            tuple(c for c in self.equal if c[1] <= there),
            tuple(c for c in self.others if c[1] <= there),
            tuple(w for w in self.windows if w[0] in there),
            self.crossed & there,
        )


def random_queries(rng: Random, schema: Schema, most: int = 4, siblings: float = 0.0) -> tuple[Ask, ...]:
    """`siblings`: how many are the join of an earlier one with other constants and windows."""
    asks: list[Ask] = []
    drafts: list[Draft] = []
    tries = 0
    while len(asks) < most and tries < 30:
        tries += 1
        draft = _draft(rng, schema, drafts, siblings)
        ask = _write(rng, f"q{len(asks)}", draft)
        try:
            parse_query(ask.name, ask.text, {s.name: s for s in schema.streams}, dict(ask.windows))
        except QueryError as error:
            # what a random query may do wrong; anything else is a mistake of this generator or of the parser
            assert error.what in _REFUSED, f"{ask.text}\n{error}"
            continue
        drafts.append(draft)
        asks.append(ask)
    return tuple(asks)


_REFUSED = (
    "the condition is never true",
    "the condition names no column",
    "not all relations are joined by an equality",
    "OR is the only link between its aliases",
)


def _draft(rng: Random, schema: Schema, earlier: list[Draft], siblings: float) -> Draft:
    if siblings and earlier and rng.random() < siblings:
        return _sibling(rng, rng.choice(earlier))
    size = rng.choice([1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 5])
    draft = Draft(())
    if earlier and rng.random() < 0.65:
        draft = _part(rng, rng.choice(earlier), size)
    shape = rng.choice(["chain", "star", "any"])
    while len(draft.aliases) < size:
        grown = _grow(rng, schema, draft, shape)
        if grown is None:
            break
        draft = grown
    names = [name for name, _ in draft.aliases]
    if len(names) > 2 and rng.random() < 0.3:  # a cycle, or one more equality of a class
        draft = _link(rng, schema, draft, names[-1], names[:-1]) or draft
    others = list(draft.others)
    for name, stream in draft.aliases:
        if rng.random() < 0.15:
            others.append((_on_one(rng, name, stream, 2, schema.start), frozenset([name])))
    if len(names) > 1:
        for _ in range(rng.choice([0, 0, 0, 0, 1, 1, 2])):
            residual = _on_two(rng, schema, draft)
            if residual is not None:
                others.append(residual)
    if others and rng.random() < 0.15:
        others.pop(rng.randrange(len(others)))
    windows = dict(draft.windows)
    for name in names:
        if rng.random() < 0.12:
            windows[name] = rng.choice(["unbounded", "1 second", "3 seconds", "8 seconds"])
    return replace(draft, others=tuple(dict.fromkeys(others)), windows=tuple(windows.items()))


def _sibling(rng: Random, source: Draft) -> Draft:
    """The same join with other constants and windows: one may be stricter than the other, or have a hull with it."""
    others = [condition for condition in source.others if rng.random() < 0.6]
    for name, _ in source.aliases:
        if rng.random() < 0.4:
            low, high = rng.randint(-2, 2), rng.randint(0, 3)
            text = rng.choice([f"= {low}", f"< {high}", f">= {low}", f"IN ({low}, {high})", f"BETWEEN {low} AND {high}", f"<> {low}"])
            others.append((f"({name}.p {text})", frozenset([name])))
    windows = dict(source.windows)
    for name, _ in source.aliases:
        if rng.random() < 0.3:
            windows[name] = rng.choice(["unbounded", "1 second", "2 seconds", "3 seconds", "8 seconds"])
    return replace(source, others=tuple(dict.fromkeys(others)), windows=tuple(windows.items()))


def _part(rng: Random, source: Draft, size: int) -> Draft:
    """A connected part of an earlier query: something to share."""
    names = [name for name, _ in source.aliases]
    keep = [rng.choice(names)]
    while len(keep) < size:
        near = [n for n in names if n not in keep and any(n in c[1] and c[1] & set(keep) for c in source.equal)]
        if not near or (len(keep) > 1 and rng.random() < 0.3):
            break
        keep.append(rng.choice(near))
    return source.cut(keep)


def _grow(rng: Random, schema: Schema, draft: Draft, shape: str) -> Draft | None:
    taken = {name for name, _ in draft.aliases}
    name = next(f"x{n}" for n in range(9) if f"x{n}" not in taken)
    before = [n for n, _ in draft.aliases]
    choice = list(schema.streams)
    rng.shuffle(choice)
    for stream in choice:
        grown = replace(draft, aliases=(*draft.aliases, (name, stream)))
        if not before:
            return grown
        if rng.random() < 0.03:
            return replace(grown, crossed=grown.crossed | {name})
        partners = before[-1:] if shape == "chain" else before[:1] if shape == "star" else before
        linked = _link(rng, schema, grown, name, partners) or _link(rng, schema, grown, name, before)
        if linked is not None:
            return linked if rng.random() < 0.85 else _link(rng, schema, linked, name, before) or linked
    return None


def _link(rng: Random, schema: Schema, draft: Draft, name: str, partners: list[str]) -> Draft | None:
    """One more equality between `name` and one of `partners`."""
    streams = dict(draft.aliases)
    own = streams[name]
    pairs = []
    for other in partners:
        for mine, kind in own.columns:
            for column, theirs in streams[other].columns:
                same = schema.domain.get((own.name, mine), -1) == schema.domain.get((streams[other].name, column), -2)
                times = mine == own.time and column == streams[other].time and kind == theirs
                if (same and joinable(kind, theirs)) or (times and rng.random() < 0.1):
                    pairs.append(f"{name}.{mine} = {other}.{column}")
    if not pairs:
        return None
    chosen = rng.choice(pairs)
    other = chosen.split(" = ")[1].split(".")[0]
    return replace(draft, equal=tuple(dict.fromkeys((*draft.equal, (chosen, frozenset([name, other]))))))


def _number(rng: Random, aliases: list[str], depth: int) -> str:
    """Over the payload column p, a small int that every stream has."""
    kind = rng.randint(0, 8 if depth else 2)
    if kind == 0:
        return str(rng.randint(-3, 4))
    if kind <= 2:
        return f"{rng.choice(aliases)}.p"
    left, right = _number(rng, aliases, depth - 1), _number(rng, aliases, depth - 1)
    return [
        f"({left} + {right})",
        f"({left} - {right})",
        f"({left} * {right})",
        f"COALESCE({left}, {right})",
        f"CASE WHEN {left} > {right} THEN {left} ELSE 0 END",
        f"GREATEST({left}, {right})",
    ][kind - 3]


def _on_time(rng: Random, name: str, kind: str, start: datetime) -> str:
    """A condition on the local time of one alias."""
    choice = [f"(HOUR({name}.ts) {rng.choice(['=', '<>', '<'])} {rng.randint(0, 3)})", f"(CAST({name}.ts AS DATE) > DATE '{start:%F}')"]
    if kind == "timestamp":
        literal = (start + timedelta(hours=rng.choice([-5, -4, 1, 2, 11]), seconds=rng.choice([0, 1, 1800]))).replace(tzinfo=None)
        choice += [f"({name}.ts {rng.choice(['<', '>=', '<>'])} TIMESTAMP '{literal}')"] * 2
    return rng.choice(choice)


def _on_one(rng: Random, name: str, stream: Stream, depth: int, start: datetime) -> str:
    """A condition on one alias."""
    columns = dict(stream.columns)
    if stream.time is not None and rng.random() < 0.15:
        return _on_time(rng, name, columns["ts"], start)
    kind = rng.randint(0, 9 if depth else 6)
    number = _number(rng, [name], 1)
    if kind <= 1:
        return f"({number} {rng.choice(['<>', '<', '<=', '>', '>=', '='])} {rng.randint(-1, 3)})"
    if kind == 2:
        return f"({name}.p {rng.choice(['IN', 'NOT IN'])} ({', '.join(str(rng.randint(-2, 3)) for _ in range(rng.randint(1, 3)))}))"
    if kind == 3:
        return f"({name}.p BETWEEN {number} AND {rng.randint(0, 3)})"
    if kind == 4:
        column = rng.choice([c for c in columns if c != "n"])
        return f"({name}.{column} IS {rng.choice(['NULL', 'NOT NULL', 'NOT NULL'])})"
    if kind == 5 and "s" in columns:
        pattern = rng.choice(["a%", "_", "%b", ""])
        return rng.choice([f"({name}.s {rng.choice(['LIKE', 'NOT LIKE'])} '{pattern}')", f"(UPPER({name}.s) < 'B')"])
    if kind == 6 and "f" in columns:
        return f"({name}.f {rng.choice(['<', '<=', '>', '>=', '<>', '='])} {rng.choice(['0e0', '0.5e0', '2'])})"
    if kind in (5, 6):
        return f"{name}.ok" if "ok" in columns else f"({name}.p % 2 = {rng.choice([0, 1, -1])})"
    inner, other = (_on_one(rng, name, stream, depth - 1, start) for _ in range(2))
    return [f"(NOT ({inner}))", f"({inner} AND {other})", f"({inner} OR {other})"][kind - 7]


def _on_two(rng: Random, schema: Schema, draft: Draft) -> Condition | None:
    """A condition between aliases."""
    (a, left), (b, right) = rng.sample(list(draft.aliases), 2)
    named = frozenset([a, b])
    kind = rng.randint(0, 6)
    timed = left.time is not None and right.time is not None and left.type_of(left.time) == right.type_of(right.time)
    if kind <= 2 and timed:
        low, high = rng.choice([0, 1, 2]), rng.choice([0, 1, 3])
        return rng.choice(
            [
                f"({a}.ts <= {b}.ts + INTERVAL 1 DAY)",
                f"({a}.ts - INTERVAL 1 DAY < {b}.ts)",
                f"({a}.ts BETWEEN {b}.ts - INTERVAL 1 DAY AND {b}.ts + INTERVAL 1 DAY)",
                f"({a}.ts - {b}.ts <= INTERVAL {rng.choice(['0 SECONDS', '59 MINUTES', '1 HOUR', '24 HOURS'])})",
                f"({a}.ts - {b}.ts < {b}.ts - {a}.ts)",
                f"(HOUR({a}.ts) = HOUR({b}.ts))",
                f"(CAST({a}.ts AS DATE) < CAST({b}.ts AS DATE))",
                f"({a}.ts <= {b}.ts + INTERVAL {high} SECONDS)",
                f"({a}.ts BETWEEN {b}.ts - INTERVAL {low} SECONDS AND {b}.ts + INTERVAL {high} SECONDS)",
                f"({a}.ts < {b}.ts)",
                f"({a}.ts - {b}.ts >= INTERVAL {low} SECONDS)",
            ]
        ), named
    if kind == 3:
        shared = [
            (x, y)
            for x, s in left.columns
            for y, t in right.columns
            if schema.domain.get((left.name, x), -1) == schema.domain.get((right.name, y), -2) and joinable(s, t)
        ]
        if shared:
            x, y = rng.choice(shared)
            return f"({a}.{x} {rng.choice(['<>', '<', '<=', 'IS NOT DISTINCT FROM'])} {b}.{y})", named
    if kind == 4:
        one, two = _on_one(rng, a, left, 0, schema.start), _on_one(rng, b, right, 0, schema.start)
        return f"({one} OR {two})", named
    if kind == 5 and left.type_of("s") and right.type_of("s"):
        return f"({a}.s || {b}.s LIKE '{rng.choice(['a%', '%b', '__'])}')", named
    return f"({a}.p {rng.choice(['<', '<=', '<>'])} {b}.p + {rng.randint(-1, 1)})", named


def _write(rng: Random, name: str, draft: Draft) -> Ask:
    """As JOIN … ON (with what can be said there), USING, or commas and WHERE."""
    conditions = [*draft.equal, *draft.others]
    rng.shuffle(conditions)
    commas = not draft.crossed and rng.random() < 0.3
    first, stream = draft.aliases[0]
    text, seen, used, star = f"{stream.name} {first}", {first}, set(), True
    for at, (alias, own) in enumerate(draft.aliases[1:], start=1):
        seen.add(alias)
        if commas:
            text += f", {own.name} {alias}"
            continue
        here = [c for c in conditions if c not in used and c[1] <= seen and alias in c[1] and (c in draft.equal or rng.random() < 0.5)]
        if not here or alias in draft.crossed:
            text += f" CROSS JOIN {own.name} {alias}"
            continue
        same = [c for c in here if c in draft.equal and len({side.split(".")[1] for side in c[0].split(" = ")}) == 1]
        if at == 1 and same and rng.random() < 0.3:
            text += f" JOIN {own.name} {alias} USING ({same[0][0].rpartition('.')[2]})"
            used.add(same[0])
            star = False
        else:
            text += f" JOIN {own.name} {alias} ON {' AND '.join(c[0] for c in here)}"
            used.update(here)
    rest = [c[0] if c[0].startswith("(") else f"({c[0]})" for c in conditions if c not in used]
    where = f" WHERE {' AND '.join(rest)}" if rest else ""
    outputs = "*" if star and rng.random() < 0.15 else ", ".join(f"{o} AS o{n}" for n, o in enumerate(_outputs(rng, draft)))
    by_hint = draft.windows and rng.random() < 0.5
    pairs = ", ".join(f"{alias}, '{window}'" for alias, window in draft.windows)
    hint = f"/*+ WINDOW({pairs}) */ " if by_hint else ""
    return Ask(name, f"SELECT {hint}{outputs}\nFROM {text}{where}", () if by_hint else draft.windows)


def _outputs(rng: Random, draft: Draft) -> list[str]:
    found = []
    names = [name for name, _ in draft.aliases]
    for _ in range(rng.randint(1, 4)):
        alias, stream = rng.choice(draft.aliases)
        column, kind = rng.choice(stream.columns)
        plain = f"{alias}.{column}"
        if rng.random() < 0.6:
            found.append(plain)
        elif kind == "string":
            found.append(rng.choice([f"{plain} || '!'", f"LENGTH({plain})", f"COALESCE({plain}, '?')", f"SUBSTRING({plain}, 1, 1)"]))
        elif column == "ts":
            offset = rng.choice(["+ INTERVAL 1 SECOND", "+ INTERVAL 1 DAY", "- INTERVAL 1 DAY"])
            found.append(rng.choice([f"{plain} {offset}", f"{plain} {offset}", f"HOUR({plain})", f"CAST({plain} AS DATE)"]))
        elif column == "f":
            found.append(rng.choice([f"{plain} * 0.5e0", f"{plain} + {alias}.p", f"{alias}.p / 4"]))
        elif column == "ok":
            found.append(rng.choice([f"NOT {plain}", f"CASE WHEN {plain} THEN 1 ELSE {alias}.p END"]))
        elif kind == "decimal(10,2)":
            found.append(f"{plain} + 0.25")
        else:
            found.append(_number(rng, names, 2))
    return found
