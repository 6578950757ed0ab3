"""Query sets are a function of their seed, and `clash.optimize` accepts all of them."""

from __future__ import annotations

import random

import pytest

from clash.errors import OptionError
from clash.sql import parse_queries
from clash_bench.workloads import WORKLOADS, Workload, draw, paper_schema, pool, short_form, tree, walk, walks


@pytest.mark.parametrize("relations", [10, 100])
def test_the_schemas_are_those_of_the_paper(relations: int) -> None:
    schema = paper_schema(relations)
    assert len(schema.relations) == relations
    assert all(len(set(attributes)) == 3 for attributes in schema.relations.values())
    assert all(schema.neighbours.values())


def test_there_is_no_other_schema() -> None:
    with pytest.raises(OptionError, match="no schema of this size"):
        paper_schema(11)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_walk_visits_relations_that_join(size: int) -> None:
    schema, rng = paper_schema(100), random.Random(1)
    for _ in range(50):
        query = walk(schema, size, rng)
        assert len(set(query)) == size
        assert list(query) == sorted(query)
        (parsed,), _ = parse_queries({"q": short_form(schema, query)})  # refuses a join graph that is not connected
        assert {relation.stream for relation in parsed.join.relations} == set(query)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_tree_has_one_equality_less_than_relations(size: int) -> None:
    rng = random.Random(1)
    links = pool(30, rng)
    for _ in range(50):
        query = tree(links, size, rng)
        assert len(set(query.relations)) == size
        assert len(set(query.equalities)) == size - 1
        (parsed,), _ = parse_queries({"q": query.sql()})
        assert {relation.stream for relation in parsed.join.relations} == set(query.relations)


def test_exact_duplicates_are_dropped() -> None:
    drawn = walks(paper_schema(10), 500, 3, random.Random(1))
    assert len(set(drawn)) == len(drawn) < 60  # there are no more joins of three than that


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_set_is_a_function_of_its_seed(workload: Workload) -> None:
    assert draw(workload, 100, 20, 4, 1) == draw(workload, 100, 20, 4, 1)
    assert draw(workload, 100, 20, 4, 1) != draw(workload, 100, 20, 4, 2)
    queries = draw(workload, 100, 20, 4, 1)
    assert len(set(queries.values())) == len(queries) <= 20
    parse_queries(queries)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_query_larger_than_the_schema_is_refused(workload: Workload) -> None:
    with pytest.raises(OptionError, match="no query of this size"):
        draw(workload, 10, 1, 11, 1)
