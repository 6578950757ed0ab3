"""Random query sets for the planner's tests: small ones for the oracle, larger ones without it."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

import clash
from clash.model.query import EqualityClass
from clash.model.types import exact
from clash.optimizer import Plan
from clash.planner.cardinalities import Sizes
from clash.planner.cost_model import CostModel
from clash.sql import parse_queries

from .exhaustive import Exhaustive

# T.b is not an integer: its equalities are not transitive, and equal values of T.b and R.b have different hashes
COLUMNS = {
    "R": {"a": "bigint", "b": "int"},
    "S": {"a": "bigint", "b": "int", "c": "string"},
    "T": {"b": "double", "c": "string"},
    "U": {"a": "int", "c": "string"},
}
STREAMS = [
    clash.Stream.of(name, {**columns, "v": "int", "ts": "timestamp"}, time="ts", window="10 seconds") for name, columns in COLUMNS.items()
]


@dataclass(frozen=True)
class Job:
    """All arguments of one call of `optimize`."""

    queries: Mapping[str, str]
    statistics: clash.Statistics
    options: Mapping[str, Any]
    declared: bool
    tables: frozenset[str] = frozenset()
    """The streams that are tables instead."""

    @property
    def streams(self) -> list[clash.Stream] | None:
        if not self.declared:
            return None
        return [clash.Stream.table(s.name, dict(s.columns)) if s.name in self.tables else s for s in STREAMS]

    def plan(self, **more: Any) -> Plan:
        return clash.optimize(self.queries, self.statistics, streams=self.streams, **{**self.options, **more})

    def exhaustive(self, below: float = math.inf) -> float:
        """The cost of the best plan, by trying all plans that cost less than `below`."""
        declared = self.streams
        parsed, used = parse_queries(self.queries, None if declared is None else {s.name: s for s in declared})
        model = CostModel(self.options["cost"], self.options["workers"], self.options["layouts"])

        def comparable(equal: EqualityClass) -> bool:
            types = {used[a.relation.stream].type_of(a.column) or "unknown" for a in equal}
            return all(exact(x, y) for x in types for y in types)

        return Exhaustive(parsed, Sizes(self.statistics, used), model, self.options["mirs"], comparable).best(below)


@st.composite
def short_form(draw: st.DrawFn, relations: int) -> str:
    """A natural join; a relation may be named with fewer columns than it has."""
    names = draw(st.permutations(sorted(COLUMNS)))[:relations]
    named: dict[str, set[str]] = {name: set() for name in names}
    for j in range(1, relations):
        other = names[draw(st.integers(0, j - 1))]
        link = draw(st.sampled_from(sorted(COLUMNS[names[j]].keys() & COLUMNS[other].keys())))
        named[names[j]].add(link)
        named[other].add(link)
    for name, columns in named.items():
        columns.update(draw(st.lists(st.sampled_from(sorted(COLUMNS[name])), min_size=0 if columns else 1, max_size=2)))
    return ", ".join(f"{name}({','.join(sorted(columns))})" for name, columns in named.items())


@st.composite
def sql(draw: st.DrawFn, relations: int) -> str:
    """A join with self-joins, several equalities, filters, residuals, windows of its own and relations joined by `CROSS JOIN`."""
    names = draw(st.lists(st.sampled_from("RSTU"), min_size=relations, max_size=relations))
    tables = f"{names[0]} x0"
    where = []
    for j in range(1, relations):
        links = [
            f"x{i}.{c} = x{j}.{d}"
            for i in range(j)
            for c, kind in COLUMNS[names[i]].items()
            for d, other in COLUMNS[names[j]].items()
            if (kind == "string") == (other == "string")
        ]
        if not links or draw(st.integers(0, 9)) == 0:
            tables += f" CROSS JOIN {names[j]} x{j}"
            continue
        chosen = draw(st.lists(st.sampled_from(links), min_size=1, max_size=2 if draw(st.integers(0, 2)) == 0 else 1, unique=True))
        tables += f" JOIN {names[j]} x{j} ON {' AND '.join(chosen)}"
        if draw(st.integers(0, 4)) == 0:
            where.append(f"x{draw(st.integers(0, j - 1))}.v < x{j}.v")
    for j in range(relations):
        if draw(st.integers(0, 4)) == 0:
            where.append(f"x{j}.v > {draw(st.integers(0, 1))}")
    hint = "/*+ WINDOW(x0, '5 seconds') */ " if draw(st.integers(0, 7)) == 0 else ""
    return f"SELECT {hint}x0.v FROM {tables}" + (f" WHERE {' AND '.join(where)}" if where else "")


@st.composite
def jobs(
    draw: st.DrawFn,
    cost: str,
    layouts: str,
    sizes: tuple[tuple[int, ...], ...],
    workers: tuple[int, ...] = (1, 2, 4),
    declared: bool | None = None,
) -> Job:
    """`sizes`: how many relations the queries may have, e.g. `((3,), (2, 3))`; `declared`: whether streams are, drawn if not given."""
    declared = draw(st.booleans()) if declared is None else declared
    form = sql if declared else short_form
    texts = {f"q{i}": draw(form(size)) for i, size in enumerate(draw(st.sampled_from(sizes)))}
    rates = draw(st.fixed_dictionaries(dict.fromkeys(COLUMNS, st.sampled_from((10, 100, 1000, 7.5, 0)))))
    pairs = draw(st.dictionaries(st.sampled_from(["R.a = S.a", "S.b = T.b", "T.c = U.c"]), st.sampled_from((1.0, 0.2, 0.003, 0.0))))
    known = draw(st.dictionaries(st.sampled_from([("R", "S"), ("S", "T")]), st.sampled_from((5, 150, 3000)), max_size=1))
    statistics = clash.Statistics(
        rates=rates, selectivities=pairs, sizes=known, default_selectivity=draw(st.sampled_from((0.01, 0.001, 0.1, 0.037)))
    )
    options = {
        "cost": cost,
        "layouts": layouts,
        "workers": draw(st.sampled_from(workers)),
        "mirs": draw(st.sampled_from((True, True, False))),
    }
    return Job(texts, statistics, {**options, "time_limit": 60.0}, declared)


@st.composite
def families(draw: st.DrawFn, layouts: str, relations: tuple[int, ...], most: int) -> Job:
    """Queries that differ in filters, residuals and windows only."""
    job = draw(jobs("full", layouts, tuple((count,) for count in relations), declared=True))
    (text,) = job.queries.values()
    text = re.sub(r"/\*.*\*/ ", "", text)
    names = re.findall(r"[RSTU] (x\d)", text)
    texts = {}
    for number in range(draw(st.integers(2, most))):
        filters = [
            f"{name}.v {draw(st.sampled_from(('= 1', '= 2', '> 1', '> 2', 'IN (1, 2, 3)', '<> 4')))}"
            for name in names
            if draw(st.booleans())
        ]
        hint = f"/*+ WINDOW({draw(st.sampled_from(names))}, '{draw(st.integers(1, 9))} seconds') */ " if draw(st.booleans()) else ""
        joined = "" if not filters else (" AND " if " WHERE " in text else " WHERE ") + " AND ".join(filters)
        texts[f"q{number}"] = text.replace("SELECT ", f"SELECT {hint}") + joined
    return replace(job, queries=texts)


@st.composite
def jobs_with_tables(draw: st.DrawFn, cost: str, layouts: str, sizes: tuple[tuple[int, ...], ...]) -> Job:
    """Every query reads a stream, and windows are those of streams."""
    job = draw(jobs(cost, layouts, sizes, declared=True))
    tables = draw(st.frozensets(st.sampled_from("RSTU"), min_size=1, max_size=2))
    for text in job.queries.values():
        names = re.findall(r"(?:FROM|JOIN) ([RSTU]) ", text)
        assume(not tables.issuperset(names) and not ("WINDOW" in text and names[0] in tables))
    return replace(job, tables=tables)


def chains(seed: int, queries: int, relations: tuple[int, int], streams: int = 12) -> tuple[dict[str, str], clash.Statistics]:
    """A larger set: random walks over streams of three attributes each."""
    rng = random.Random(seed)
    schema = {f"S{i}": sorted(rng.sample("abcdefgh", 3)) for i in range(streams)}
    texts: dict[str, str] = {}
    while len(texts) < queries:
        names = [rng.choice(sorted(schema))]
        for _ in range(rng.randint(*relations) - 1):
            near = [s for s in schema if s not in names and set(schema[s]) & set(schema[names[-1]])]
            if near:
                names.append(rng.choice(near))
        if len(names) >= relations[0]:
            texts[f"q{len(texts)}"] = ", ".join(f"{name}({','.join(schema[name])})" for name in names)
    rates = {name: rng.choice((100, 1000, 5000)) for name in schema}
    return texts, clash.Statistics(rates=rates, default_selectivity=0.002)
