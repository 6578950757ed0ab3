"""Random query sets, each a function of its seed alone.

`walk` is what the paper's figures are drawn from: natural joins over the authors' own schemas, each a random walk. `tree` joins
relations along a pool of random equalities: less overlap between queries, and hardly ever two relations with two ways to join.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Literal

from clash.errors import OptionError

Workload = Literal["walk", "tree"]
WORKLOADS: tuple[Workload, ...] = ("walk", "tree")
ATTRIBUTES = 3  # per relation, in all workloads as in the paper
PER_RELATION = 3.0  # equalities in the pool of `tree`, per relation: denser than a grid, far from a clique
TRIES = 10_000  # a walk that runs into a dead end starts again; where so many do, there is no way

Side = tuple[str, str]  # relation, attribute
Equality = tuple[Side, Side]


@dataclass(frozen=True)
class Schema:
    """Relations and their attributes; equal names join."""

    relations: Mapping[str, tuple[str, ...]]

    @cached_property
    def neighbours(self) -> dict[str, tuple[str, ...]]:
        names = {name: set(attributes) for name, attributes in self.relations.items()}
        return {r: tuple(s for s in names if s != r and names[r] & names[s]) for r in names}


@cache
def paper_schema(relations: int) -> Schema:
    """The schema of the paper's authors with 10 or with 100 relations."""
    held = json.loads(files("clash.bench").joinpath("schemas.json").read_text(encoding="utf-8"))
    if str(relations) not in held:
        raise OptionError("no schema of this size", f"{relations} relations", f"there are schemas of {' and '.join(held)} relations")
    return Schema({name: tuple(attributes) for name, attributes in held[str(relations)].items()})


def walk(schema: Schema, size: int, rng: random.Random) -> tuple[str, ...]:
    """A query's relations: start anywhere, go on to any relation not yet met that shares an attribute with the last one."""
    names = tuple(schema.relations)
    for _ in range(TRIES):
        met = [rng.choice(names)]
        while len(met) < size:
            near = [name for name in schema.neighbours[met[-1]] if name not in met]
            if not near:
                break
            met.append(rng.choice(near))
        if len(met) == size:
            return tuple(sorted(met))
    raise _too_large(size)


def walks(schema: Schema, count: int, size: int, rng: random.Random) -> list[tuple[str, ...]]:
    """`count` draws, without those drawn before: a natural join is its set of relations."""
    return list(dict.fromkeys(walk(schema, size, rng) for _ in range(count)))


def short_form(schema: Schema, relations: tuple[str, ...]) -> str:
    return ", ".join(f"{name}({','.join(schema.relations[name])})" for name in relations)


@dataclass(frozen=True)
class Pool:
    """`equalities` by the relations they touch."""

    equalities: Mapping[str, tuple[Equality, ...]]


@dataclass(frozen=True)
class Tree:
    relations: tuple[str, ...]
    equalities: tuple[Equality, ...]

    def sql(self) -> str:
        where = " AND ".join(f"{r}.{a} = {s}.{b}" for (r, a), (s, b) in self.equalities)
        return f"SELECT * FROM {', '.join(self.relations)} WHERE {where}"


def pool(relations: int, rng: random.Random) -> Pool:
    names = [f"R{i}" for i in range(relations)]
    wanted = min(int(PER_RELATION * relations), ATTRIBUTES**2 * relations * (relations - 1) // 2)
    drawn: dict[Equality, None] = {}
    while len(drawn) < wanted:
        left, right = sorted((name, f"a{rng.randrange(ATTRIBUTES)}") for name in rng.sample(names, 2))
        drawn[left, right] = None
    touching: dict[str, list[Equality]] = {name: [] for name in names}
    for equality in drawn:
        for name, _ in equality:
            touching[name].append(equality)
    return Pool({name: tuple(equalities) for name, equalities in touching.items()})


def tree(pool: Pool, size: int, rng: random.Random) -> Tree:
    """Start anywhere, add a relation at a time by any equality that links it to those met."""
    names = tuple(pool.equalities)
    for _ in range(TRIES):
        met, used = {rng.choice(names)}, []
        while len(met) < size:
            open_ = [e for name in sorted(met) for e in pool.equalities[name] if (e[0][0] in met) != (e[1][0] in met)]
            if not open_:
                break
            used.append(rng.choice(open_))
            met.update(name for name, _ in used[-1])
        if len(met) == size:
            return Tree(tuple(sorted(met)), tuple(sorted(used)))
    raise _too_large(size)


def draw(workload: Workload, relations: int, count: int, size: int, seed: int) -> dict[str, str]:
    """A query set as `clash.optimize` takes it; exact duplicates are dropped, so there may be fewer than `count`."""
    rng = random.Random(f"{workload}/{relations}/{count}/{size}/{seed}")
    if workload == "walk":
        schema = paper_schema(relations)
        texts = [short_form(schema, query) for query in walks(schema, count, size, rng)]
    else:
        links = pool(relations, rng)
        texts = [query.sql() for query in dict.fromkeys(tree(links, size, rng) for _ in range(count))]
    return {f"q{i}": text for i, text in enumerate(texts, 1)}


def _too_large(size: int) -> OptionError:
    return OptionError("no query of this size can be drawn", f"{size} relations", "ask for fewer relations per query")
