"""Many queries of many relations: nothing enumerates all orders or sub-joins, and the result is a valid plan."""

from __future__ import annotations

import random

import pytest

import clash
from clash.errors import OptionError
from clash.optimizer import Plan, validate


def check(plan: Plan, queries: int) -> None:
    validate(plan)
    assert len(plan.queries) == queries
    assert not plan.complete
    assert 0 < plan.bound <= plan.cost


def one_key(n: int) -> tuple[dict[str, str], clash.Statistics]:
    """Every subset of the relations is connected."""
    rng = random.Random(1)
    text = ", ".join(f"R{i}(k,a{i},a{i + 1})" for i in range(n))
    return {"q": text}, clash.Statistics(rates={f"R{i}": rng.choice((100, 1000, 10_000)) for i in range(n)}, default_selectivity=0.001)


def many_queries(count: int, least: int, most: int) -> tuple[dict[str, str], clash.Statistics, list[clash.Stream]]:
    """Random trees of joins over 21 streams, with self-joins and filters."""
    rng = random.Random(1)
    schema = {f"S{i}": [f"c{j}" for j in sorted(rng.sample(range(12), 4))] for i in range(21)}
    streams = [
        clash.Stream.of(name, {**dict.fromkeys(columns, "bigint"), "v": "bigint", "ts": "timestamp"}, time="ts", window="1 hour")
        for name, columns in schema.items()
    ]
    texts = {}
    for q in range(count):
        aliases, where = [rng.choice(sorted(schema))], []
        size = rng.randint(least, most)
        while len(aliases) < size:
            name, at = rng.choice(sorted(schema)), rng.randrange(len(aliases))
            common = [c for c in schema[name] if c in schema[aliases[at]]]
            if common:
                column = rng.choice(common)
                where.append(f"t{at}.{column} = t{len(aliases)}.{column}")
                aliases.append(name)
        where += [f"t{i}.v > {rng.choice((1, 10))}" for i in range(size) if rng.random() < 0.2]
        texts[f"q{q}"] = f"SELECT t0.v FROM {', '.join(f'{name} t{i}' for i, name in enumerate(aliases))} WHERE {' AND '.join(where)}"
    rates = {name: rng.choice((100, 1000, 10_000)) for name in schema}
    return texts, clash.Statistics(rates=rates, default_selectivity=0.001), streams


@pytest.mark.parametrize("cost", ["probe", "full"])
def test_twenty_relations_on_one_key(cost: str) -> None:
    texts, statistics = one_key(20)
    plan = clash.optimize(texts, statistics, cost=cost, time_limit=1.0)  # type: ignore[arg-type]
    check(plan, 1)
    assert sorted(str(order.origin) for order in plan.probe_orders if order.queries) == sorted(f"R{i}" for i in range(20))


def test_a_hundred_queries_of_five_to_seventeen_relations() -> None:
    texts, statistics, streams = many_queries(100, 5, 17)
    check(clash.optimize(texts, statistics, streams=streams, cost="probe", layouts="many", time_limit=1.0), 100)


@pytest.mark.parametrize("strategy", ["independent", "shared", "global"])
def test_every_strategy(strategy: str) -> None:
    texts, statistics, streams = many_queries(4, 12, 15)
    check(clash.optimize(texts, statistics, streams=streams, strategy=strategy, time_limit=1.0), 4)  # type: ignore[arg-type]


def test_the_published_program_refuses_what_is_too_large() -> None:
    texts, statistics = one_key(9)
    with pytest.raises(OptionError) as error:
        clash.optimize(texts, statistics, formulation="published", cost="probe", time_limit=1.0)
    assert "too large" in error.value.what
    assert 'formulation="compact"' in error.value.hint
