"""Random query sets, each a function of its seed alone.

Workload `walk` is that of the paper's figures: natural joins over the authors' schemas, each a random walk. Workload `tree` joins relations
along a pool of random equalities: its queries overlap less, and two relations can hardly ever be joined in two ways.
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
MAX_TRIES = 10_000  # a walk that runs into a dead end starts again; after this many there is no query of that size

Side = tuple[str, str]  # relation, attribute
Equality = tuple[Side, Side]


@dataclass(frozen=True)
class Schema:
    """Relations and their attributes; attributes of equal names join."""

    relations: Mapping[str, tuple[str, ...]]

    @cached_property
    def neighbours(self) -> dict[str, tuple[str, ...]]:
        """By relation: the relations that share an attribute with it."""
        names = {name: set(attributes) for name, attributes in self.relations.items()}
        return {r: tuple(s for s in names if s != r and names[r] & names[s]) for r in names}


@cache
def paper_schema(relations: int) -> Schema:
    """The schema of the paper's authors with 10 or with 100 relations."""
    schemas = json.loads(files("clash_bench").joinpath("schemas.json").read_text(encoding="utf-8"))
    if str(relations) not in schemas:
        raise OptionError("no schema of this size", f"{relations} relations", f"there are schemas of {' and '.join(schemas)} relations")
    return Schema({name: tuple(attributes) for name, attributes in schemas[str(relations)].items()})


def walk(schema: Schema, size: int, rng: random.Random) -> tuple[str, ...]:
    """The relations of a random query: any relation first, then always one not yet visited that shares an attribute with the last one."""
    names = tuple(schema.relations)
    for _ in range(MAX_TRIES):
        visited = [rng.choice(names)]
        while len(visited) < size:
            candidates = [name for name in schema.neighbours[visited[-1]] if name not in visited]
            if not candidates:
                break
            visited.append(rng.choice(candidates))
        if len(visited) == size:
            return tuple(sorted(visited))
    raise _too_large(size)


def walks(schema: Schema, count: int, size: int, rng: random.Random) -> list[tuple[str, ...]]:
    """The distinct queries of `count` draws: a natural join is determined by its set of relations."""
    return list(dict.fromkeys(walk(schema, size, rng) for _ in range(count)))


def short_form(schema: Schema, relations: tuple[str, ...]) -> str:
    """The natural join of the relations as `R(a,b), S(b)`."""
    return ", ".join(f"{name}({','.join(schema.relations[name])})" for name in relations)


@dataclass(frozen=True)
class Pool:
    """Equalities between attributes of different relations."""

    equalities: Mapping[str, tuple[Equality, ...]]
    """By each of the two relations."""


@dataclass(frozen=True)
class Tree:
    """A query whose equalities form a tree over its relations."""

    relations: tuple[str, ...]
    equalities: tuple[Equality, ...]

    def sql(self) -> str:
        where = " AND ".join(f"{r}.{a} = {s}.{b}" for (r, a), (s, b) in self.equalities)
        return f"SELECT * FROM {', '.join(self.relations)} WHERE {where}"


def pool(relations: int, rng: random.Random) -> Pool:
    """A random pool over relations R0, R1, …"""
    names = [f"R{i}" for i in range(relations)]
    count = min(int(PER_RELATION * relations), ATTRIBUTES**2 * relations * (relations - 1) // 2)
    drawn: dict[Equality, None] = {}
    while len(drawn) < count:
        left, right = sorted((name, f"a{rng.randrange(ATTRIBUTES)}") for name in rng.sample(names, 2))
        drawn[left, right] = None
    by_relation: dict[str, list[Equality]] = {name: [] for name in names}
    for equality in drawn:
        for name, _ in equality:
            by_relation[name].append(equality)
    return Pool({name: tuple(equalities) for name, equalities in by_relation.items()})


def tree(pool: Pool, size: int, rng: random.Random) -> Tree:
    """A random query: any relation first, then always one that an equality links to those visited."""
    names = tuple(pool.equalities)
    for _ in range(MAX_TRIES):
        visited, used = {rng.choice(names)}, []
        while len(visited) < size:
            candidates = [e for name in sorted(visited) for e in pool.equalities[name] if (e[0][0] in visited) != (e[1][0] in visited)]
            if not candidates:
                break
            used.append(rng.choice(candidates))
            visited.update(name for name, _ in used[-1])
        if len(visited) == size:
            return Tree(tuple(sorted(visited)), tuple(sorted(used)))
    raise _too_large(size)


def draw(workload: Workload, relations: int, count: int, size: int, seed: int) -> dict[str, str]:
    """A query set for `clash.optimize`; exact duplicates are dropped, so there may be fewer than `count` queries."""
    rng = random.Random(f"{workload}/{relations}/{count}/{size}/{seed}")
    if workload == "walk":
        schema = paper_schema(relations)
        texts = [short_form(schema, query) for query in walks(schema, count, size, rng)]
    else:
        links = pool(relations, rng)
        texts = [query.sql() for query in dict.fromkeys(tree(links, size, rng) for _ in range(count))]
    return {f"q{i}": text for i, text in enumerate(texts, 1)}


def _too_large(size: int) -> OptionError:
    return OptionError("no query of this size can be drawn", f"{size} relations", "request fewer relations per query")
