"""A query set like the Join Order Benchmark (Leis et al., "How Good Are Query Optimizers, Really?", VLDB 2015).

The benchmark's own texts are not part of this repository. What is kept of it: the 21 relations of its film database with their keys and
sizes, 113 queries in 33 families whose members differ in constants only, and the number of relations of every family, 4 to 17. Which
relations a family joins, and by which filters its members differ, is drawn.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from clash.model.statistics import Statistics
from clash.model.stream import Stream

FAMILIES = (  # (relations, queries) of the benchmark's families 1 to 33
    (5, 4), (5, 4), (4, 3), (5, 3), (5, 3), (5, 6), (8, 3), (7, 4), (8, 4), (7, 3), (8, 4), (8, 3), (9, 4), (8, 3), (9, 4), (8, 4), (7, 6),
    (7, 3), (10, 4), (10, 3), (9, 3), (11, 4), (11, 3), (12, 2), (9, 3), (12, 3), (12, 3), (14, 3), (17, 3), (12, 3), (11, 3), (6, 2),
    (14, 3),
)  # fmt: skip
ROWS = {  # in thousands
    "aka_name": 901.3, "aka_title": 361.5, "cast_info": 36_244.3, "char_name": 3_140.3, "comp_cast_type": 0.004, "company_name": 235.0,
    "company_type": 0.004, "complete_cast": 135.1, "info_type": 0.113, "keyword": 134.2, "kind_type": 0.007, "link_type": 0.018,
    "movie_companies": 2_609.1, "movie_info": 14_835.7, "movie_info_idx": 1_380.0, "movie_keyword": 4_523.9, "movie_link": 30.0,
    "name": 4_167.5, "person_info": 2_963.7, "role_type": 0.012, "title": 2_528.3,
}  # fmt: skip
KEYS = (  # (relation, column, the relation whose id it is)
    ("aka_name", "person_id", "name"), ("aka_title", "movie_id", "title"), ("cast_info", "movie_id", "title"),
    ("cast_info", "person_id", "name"), ("cast_info", "person_role_id", "char_name"), ("cast_info", "role_id", "role_type"),
    ("complete_cast", "movie_id", "title"), ("complete_cast", "status_id", "comp_cast_type"),
    ("complete_cast", "subject_id", "comp_cast_type"), ("movie_companies", "company_id", "company_name"),
    ("movie_companies", "company_type_id", "company_type"), ("movie_companies", "movie_id", "title"),
    ("movie_info", "info_type_id", "info_type"), ("movie_info", "movie_id", "title"), ("movie_info_idx", "info_type_id", "info_type"),
    ("movie_info_idx", "movie_id", "title"), ("movie_keyword", "keyword_id", "keyword"), ("movie_keyword", "movie_id", "title"),
    ("movie_link", "link_type_id", "link_type"), ("movie_link", "linked_movie_id", "title"), ("movie_link", "movie_id", "title"),
    ("person_info", "info_type_id", "info_type"), ("person_info", "person_id", "name"), ("title", "kind_id", "kind_type"),
)  # fmt: skip
FILTER_SHARE = 0.4  # of a family's relations that have a filter
CONSTANTS = 4  # per family and filter
LEAST_RATE = 1.0


def streams() -> list[Stream]:
    """The 21 relations; `v` is what filters compare."""
    columns: dict[str, dict[str, str]] = {name: {"id": "bigint", "v": "bigint"} for name in ROWS}
    for name, column, _ in KEYS:
        columns[name][column] = "bigint"
    return [Stream.of(name, {**types, "ts": "timestamp"}, time="ts", window="1 hour") for name, types in columns.items()]


def varied() -> Statistics:
    """Rates in the proportion of the relations' sizes; every foreign key has one partner."""
    rates = {name: max(LEAST_RATE, rows) for name, rows in ROWS.items()}
    pairs = {f"{name}.{column} = {other}.id": 1.0 / rates[other] for name, column, other in KEYS}
    for key in ("title", "name"):  # two references to the same row, which most of the queries' equalities are
        names = [(name, column) for name, column, other in KEYS if other == key]
        pairs |= {f"{r}.{a} = {s}.{b}": 1.0 / rates[key] for r, a in names for s, b in names if (r, a) < (s, b)}
    return Statistics(rates=rates, selectivities=pairs, default_selectivity=0.001)


def draw(seed: int = 1) -> dict[str, str]:
    """The 113 queries, a function of the seed alone."""
    rng = random.Random(f"job/{seed}")
    return {name: text for number, (size, count) in enumerate(FAMILIES, 1) for name, text in _family(number, size, count, rng)}


def _family(number: int, size: int, count: int, rng: random.Random) -> Iterator[tuple[str, str]]:
    relations = ["title"]
    equalities = []
    while len(relations) < size:
        at = rng.randrange(len(relations))
        name = relations[at]
        new = [(f"t{at}.{column}", other, "id") for relation, column, other in KEYS if relation == name]
        new += [(f"t{at}.id", relation, column) for relation, column, other in KEYS if other == name]
        mine, other, column = rng.choice(new)
        if relations.count(other) < (2 if other in ("info_type", "comp_cast_type", "title") else 1) and mine not in equalities:
            equalities.append(f"{mine} = t{len(relations)}.{column}")
            relations.append(other)
    filtered = [i for i in range(size) if rng.random() < FILTER_SHARE] or [0]
    for letter in "abcdef"[:count]:
        filters = [f"t{i}.v {rng.choice(('=', '>'))} {rng.randrange(CONSTANTS)}" for i in filtered]
        tables = ", ".join(f"{name} t{i}" for i, name in enumerate(relations))
        yield f"q{number}{letter}", f"SELECT t0.id FROM {tables} WHERE {' AND '.join([*equalities, *filters])}"
