"""Random queries with derived tables, common tables, UNION ALL, column lists, USING, NATURAL and joins in parentheses, in the common SQL of
Spark and DuckDB. Numbers are called k0, k1, …, texts s0, s1, …, so that columns of one name always have comparable types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

_STREAMS = {"R": {"a": "number", "b": "number", "name": "text"}, "S": {"a": "number", "b": "number", "name": "text"},
            "T": {"b": "number", "c": "text"}}  # fmt: skip
COMPUTED = {"number": ("{0} + 1", "{0} + 2"), "text": ("upper({0})",)}
CONDITIONS = {
    "number": ("{0} > -2", "{0} > -1", "{0} > 0", "{0} > 1", "{0} > 2", "{0} IN (1, 2, 3)", "{0} + 1 <= 3"),
    "text": ("{0} LIKE 'a%'", "{0} IS NOT NULL", "coalesce({0}, '') <> 'b'"),
}


@dataclass(frozen=True)
class Table:
    """What stands in FROM, and its columns: kind, and whether the column is one of a stream."""

    text: str
    alias: str
    columns: dict[str, tuple[str, bool]]


@dataclass
class Generator:
    random: Random
    computed: Mapping[str, Sequence[str]] = field(default_factory=lambda: COMPUTED)
    """By kind, expressions of a column `{0}`."""
    conditions: Mapping[str, Sequence[str]] = field(default_factory=lambda: CONDITIONS)
    common: list[Table] = field(default_factory=list)
    names: int = 0
    unions: int = 0

    def query(self) -> str:
        for _ in range(self.random.randrange(3)):
            self.common.append(self._common())
        clauses = ", ".join(table.text for table in self.common)
        text, _ = self._union(1) if self._takes_union(0.1) else self._select(2)
        return f"WITH {clauses} {text}" if clauses else text

    def _fresh(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def _common(self) -> Table:
        text, columns = self._union(1) if self._takes_union(0.3) else self._select(1)
        name = self._fresh("q")
        return Table(f"{name} AS ({text})", name, columns)

    def _table(self, depth: int) -> Table:
        kind, alias = self.random.randrange(6), self._fresh("t")
        if kind == 0 and self.common:
            table = self.random.choice(self.common)
            return Table(f"{table.alias} {alias}", alias, table.columns)
        if kind <= 2 or depth == 0:
            stream = self.random.choice("RST")
            columns = {name: (kind, True) for name, kind in _STREAMS[stream].items()}
            if self.random.random() < 0.3:
                columns = {f"{'k' if kind == 'number' else 's'}{n}": (kind, True) for n, (kind, _) in enumerate(columns.values())}
                rest = {"R": ", ts", "S": ", ts", "T": ", ok"}[stream]
                return Table(f"{stream} AS {alias}({', '.join(columns)}{rest})", alias, columns)
            return Table(f"{stream} {alias}", alias, columns)
        text, columns = self._union(depth - 1) if self._takes_union(0.25) else self._select(depth - 1)
        if self.random.random() < 0.3:
            columns = {f"{'k' if kind[0] == 'number' else 's'}{n + 5}": kind for n, kind in enumerate(columns.values())}
            return Table(f"({text}) AS {alias}({', '.join(columns)})", alias, columns)
        return Table(f"({text}) {alias}", alias, columns)

    def _select(self, depth: int) -> tuple[str, dict[str, tuple[str, bool]]]:
        """A SELECT whose columns have different names, at least one of them a number of a stream."""
        tables = [self._table(depth)]
        text, merged = tables[0].text, set[str]()
        for _ in range(self.random.choice([0, 0, 1, 1, 2]) if depth else self.random.randrange(2)):
            right = self._table(depth)
            text, used = self._join(text, tables, right)
            merged |= used
            tables.append(right)
        found = {f"{t.alias}.{name}": kind for t in tables for name, kind in t.columns.items()}
        items, columns = [], {}
        keys = [name for name, (kind, plain) in found.items() if kind == "number" and plain]
        for n in range(self.random.randrange(1, 4)):
            source = self.random.choice(keys if n == 0 else list(found))
            kind, plain = found[source]
            name = f"{'k' if kind == 'number' else 's'}{n}"
            computed = n > 0 and self.random.random() < 0.4
            item = self.random.choice(self.computed[kind]).format(source) if computed else source
            items.append(f"{item} AS {name}")
            columns[name] = (kind, plain and not computed)
        where = [self._condition(found) for _ in range(self.random.randrange(3))]
        return f"SELECT {', '.join(items)} FROM {text}" + (f" WHERE {' AND '.join(where)}" if where else ""), columns

    def _takes_union(self, share: float) -> bool:
        """One in a query at most: one that is used twice has four combinations, and more of them quickly too many."""
        takes = self.unions == 0 and self.random.random() < share
        self.unions += takes
        return takes

    def _union(self, depth: int) -> tuple[str, dict[str, tuple[str, bool]]]:
        """Two or three SELECTs of as many columns of the same kinds; the first names them."""
        found = [self._select(depth)]
        kinds = [kind for kind, _ in found[0][1].values()]
        while len(found) < self.random.choice([2, 2, 3]):
            text, columns = self._select(depth)
            if [kind for kind, _ in columns.values()] == kinds:
                found.append((text, columns))
        plain = [all(p for _, p in column) for column in zip(*(columns.values() for _, columns in found), strict=True)]
        columns = {name: (kind, is_plain) for name, kind, is_plain in zip(found[0][1], kinds, plain, strict=True)}
        texts = [f"({text})" if self.random.random() < 0.2 else text for text, _ in found]
        return " UNION ALL ".join(texts), columns

    def _join(self, left: str, tables: list[Table], right: Table) -> tuple[str, set[str]]:
        """Joined on a column of streams on both sides, by USING or NATURAL where the names allow it."""
        keys = [name for name, (kind, plain) in right.columns.items() if kind == "number" and plain]
        count = [name for table in tables for name in table.columns]
        alone = [n for n in keys if len(tables) == 1 and count.count(n) == 1 and tables[0].columns[n][1]]
        if alone and self.random.random() < 0.6:
            text = f"{left} NATURAL JOIN {right.text}" if self.random.random() < 0.4 else f"{left} JOIN {right.text} USING ({alone[0]})"
            natural = "ts" not in left + right.text and " R " not in f" {left} " and " S " not in f" {left} "
            return (text if natural or "NATURAL" not in text else f"{left} JOIN {right.text} USING ({alone[0]})"), {alone[0]}
        table = self.random.choice(tables)
        ours = self.random.choice([name for name, (kind, plain) in table.columns.items() if kind == "number" and plain])
        condition = f"{table.alias}.{ours} = {right.alias}.{self.random.choice(keys)}"
        if len(tables) == 1 and self.random.random() < 0.3:
            return f"({left} JOIN {right.text} ON {condition})", set()
        return f"{left} JOIN {right.text} ON {condition}", set()

    def _condition(self, columns: dict[str, tuple[str, bool]]) -> str:
        name = self.random.choice(list(columns))
        return self.random.choice(self.conditions[columns[name][0]]).format(name)


def grouped_query(generator: Generator) -> str:
    """Aggregates, DISTINCT or window functions over a random query, and often a SELECT around them."""
    random = generator.random
    inner, columns = generator._union(1) if random.random() < 0.3 else generator._select(1)
    numbers = [f"d.{name}" for name, (kind, _) in columns.items() if kind == "number"]
    by = random.sample([f"d.{name}" for name in columns], random.randrange(1, len(columns) + 1))
    value = random.choice(numbers)
    aggregates = random.sample(["count(*)", f"sum({value})", f"min({value})", f"max({value} + 1)", f"count({value})"], 2)
    if random.random() < 0.2:
        grouped = f"SELECT DISTINCT {', '.join(f'{name} AS c{n}' for n, name in enumerate(by))} FROM ({inner}) d"
        return grouped if random.random() < 0.5 else f"SELECT count(*) AS n FROM ({grouped}) g"
    items = [*(f"{name} AS c{n}" for n, name in enumerate(by)), *(f"{text} AS a{n}" for n, text in enumerate(aggregates))]
    if random.random() < 0.3:
        items.append(f"max({aggregates[0]}) OVER (PARTITION BY {by[0]}) AS w")
    having = f" HAVING {aggregates[0]} > {random.randrange(3)}" if random.random() < 0.4 else ""
    grouped = f"SELECT {', '.join(items)} FROM ({inner}) d GROUP BY {', '.join(by)}{having}"
    around = [
        "{0}",
        "SELECT g.a0, g.c0 FROM ({0}) g WHERE g.a0 > 1",
        "WITH g AS ({0}) SELECT x.c0, y.a0 FROM g x JOIN g y ON x.a0 = y.a0",
        "WITH g AS ({0}) SELECT g.c0, g.a0 - (SELECT min(a0) FROM g) AS more FROM g",
        "WITH g AS ({0}) SELECT max(a0) AS m, count(*) AS n FROM g UNION ALL SELECT a0, 1 FROM g",
    ]
    return random.choice(around).format(grouped)
