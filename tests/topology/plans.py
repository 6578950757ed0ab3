"""Small plans that the tests of topology and explain look at."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

from hypothesis import strategies as st

import clash
from clash.model.layout import Layout
from clash.model.query import Query, SubJoin
from clash.model.relation import Relation
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.optimizer import Plan
from clash.plan.logical import LogicalPlan, PlanRequest, ProbeOrder, Step, StoreKey, StorePlan
from clash.sql import parse_queries

OPTIONS = st.fixed_dictionaries(
    {
        "workers": st.sampled_from([1, 2, 5]),
        "strategy": st.sampled_from(["independent", "shared", "global"]),
        "cost": st.sampled_from(["full", "probe"]),
        "layouts": st.sampled_from(["one", "many"]),
        "mirs": st.booleans(),
    }
)
_COLUMNS = {"R": "ab", "S": "bc", "T": "cd", "U": "da"}


@st.composite
def queries(draw: st.DrawFn) -> dict[str, str]:
    """One to three joins over four streams in a ring, with self-joins, filters, residuals and windows."""
    found = {}
    for i in range(draw(st.integers(1, 3))):
        names = draw(st.lists(st.sampled_from("RSTU"), min_size=1, max_size=4))
        aliases = [f"x{j}" for j in range(len(names))]
        where = []
        for j in range(1, len(names)):
            k = draw(st.integers(0, j - 1))
            where.append(f"x{k}.{draw(st.sampled_from(_COLUMNS[names[k]]))} = x{j}.{draw(st.sampled_from(_COLUMNS[names[j]]))}")
        for j in range(len(names)):
            if draw(st.integers(0, 3)) == 0:
                where.append(f"x{j}.v > {draw(st.integers(0, 2))}")
            if j and draw(st.integers(0, 3)) == 0:
                where.append(f"x{j}.v < x0.v")
            if j and draw(st.integers(0, 4)) == 0:
                where.append(f"x{j}.ts <= x0.ts + INTERVAL {draw(st.integers(1, 3))} SECONDS")
        chosen = draw(st.sampled_from(["*", "x0.a_out", "x0.v + 1 AS w, x0.ts AS t"]))
        tables = ", ".join(f"{name} {alias}" for name, alias in zip(names, aliases, strict=True))
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        hint = f"/*+ WINDOW(x0, '{draw(st.integers(1, 9))} seconds') */ " if draw(st.integers(0, 4)) == 0 else ""
        found[f"q{i}"] = f"SELECT {hint}{chosen} FROM {tables}{condition}"
    return found


def streams(windows: bool = True) -> list[Stream]:
    kinds = {"v": "int", "a_out": "string", "ts": "timestamp"}
    return [
        Stream.of(name, dict.fromkeys(columns, "bigint") | kinds, time="ts", window="5 seconds" if windows else None, keep=keep)
        for (name, columns), keep in zip(_COLUMNS.items(), ("needed", "needed", "all", "needed"), strict=True)
    ]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Real plans, by the heuristic alone: what is tested here holds for every plan, not for the best one only."""
    rng = random.Random(draw(st.integers(0, 1000)))
    rates = {name: rng.choice([10.0, 1e3, 1e5]) for name in _COLUMNS}
    statistics = clash.Statistics(rates=rates, default_selectivity=rng.choice([1e-4, 1e-2]))
    return clash.optimize(draw(queries()), statistics, streams=streams(draw(st.booleans())), time_limit=0.0, **draw(OPTIONS))


def logical_plan(
    queries: Iterable[Query], streams: Mapping[str, Stream], orders: Iterable[ProbeOrder], stores: Iterable[StorePlan], workers: int
) -> LogicalPlan:
    """Orders and stores as a plan; its costs and its request say nothing, as no topology depends on them."""
    request = PlanRequest(
        Statistics(), streams, windows={}, declared=False, workers=workers, strategy="global", formulation="compact", cost="full",
        layouts="one", mirs=True, time_limit=0.0, gap=0.0,
    )  # fmt: skip
    return LogicalPlan(tuple(queries), request, tuple(orders), tuple(stores), 0.0, 0.0, False, rounds=1, complete=True, seconds=0.0)


def by_hand(
    text: dict[str, str], orders: Sequence[str], layouts: dict[str, str], workers: int = 5, streams: Iterable[Stream] | None = None
) -> LogicalPlan:
    """A plan of orders such as `q1: R S T` (its store is `S[b]` if layouts say so) and `ST: S T` (feeds an intermediate store). A store
    with several layouts, such as `b *`, is probed under the first. Without streams, they are inferred from the queries."""
    parsed, used = parse_queries(text, None if streams is None else {stream.name: stream for stream in streams})
    joins = {query.name: query.join for query in parsed}

    def store(name: str) -> StoreKey:
        if name in used:
            return StoreKey(name, None)
        return StoreKey(None, _part(joins, name))

    made = []
    for line in orders:
        goal, _, path = line.partition(": ")
        origin, *rest = path.split()
        join = joins[goal] if goal in joins else _part(joins, goal)
        steps = tuple(Step(store(n), _layouts(layouts[n])[0], join.sub(map(Relation, n)), 0.0, 1, False, 0.0) for n in rest)
        start = join.sub([Relation(origin)])
        made.append(ProbeOrder(Relation(origin), start, steps, (goal,) if goal in joins else (), None if goal in joins else store(goal)))
    stores = tuple(StorePlan(store(name), _layouts(layout), 0.0, 0.0) for name, layout in layouts.items())
    return logical_plan(parsed, used, made, stores, workers)


def _part(joins: dict[str, SubJoin], name: str) -> SubJoin:
    """`ST`: the sub-join over S and T of the first query that has both."""
    wanted = frozenset(map(Relation, name))
    return next(join.sub(wanted) for join in joins.values() if wanted <= join.relations)


def _layouts(text: str) -> tuple[Layout, ...]:
    return tuple(map(layout, text.split()))


def layout(text: str) -> Layout:
    """The layout that plans write as `1`, `*`, `~`, `a` or, in an intermediate store, `S.a`; `a+7+9` has the hot hashes 7 and 9."""
    if text in ("1", "*"):
        return Layout("one" if text == "1" else "all")
    text, *hot = text.split("+")
    relation, _, column = text.rpartition(".")
    return Layout("hash", None if column == "~" else column, Relation(relation) if relation else None, tuple(map(int, hot)))
