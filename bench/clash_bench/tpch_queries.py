"""TPC-H as streams: the columns that are read, ten queries over them, random queries, and the statistics for the planner.

A key column refers to the table whose key it holds, so an equality of two key columns has a selectivity: 1 / the larger of their domains.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

from clash.errors import OptionError
from clash.model.statistics import Statistics
from clash.model.stream import Stream

# stream → column → Spark type; only the columns that the queries read
TABLES: dict[str, dict[str, str]] = {
    "region": {"r_regionkey": "bigint", "r_name": "string"},
    "nation": {"n_nationkey": "bigint", "n_regionkey": "bigint"},
    "supplier": {"s_suppkey": "bigint", "s_nationkey": "bigint", "s_acctbal": "decimal(15,2)"},
    "partsupp": {"ps_partkey": "bigint", "ps_suppkey": "bigint", "ps_availqty": "int"},
    "part": {"p_partkey": "bigint", "p_size": "int"},
    "lineitem": {"l_orderkey": "bigint", "l_partkey": "bigint", "l_suppkey": "bigint", "l_extendedprice": "decimal(15,2)"},
    "orders": {"o_orderkey": "bigint", "o_custkey": "bigint", "o_orderdate": "date"},
    "customer": {"c_custkey": "bigint", "c_nationkey": "bigint", "c_acctbal": "decimal(15,2)"},
}

# rows at scale 1; the number of lineitems varies by a tenth of a percent
ROWS = {
    "region": 5,
    "nation": 25,
    "supplier": 10_000,
    "partsupp": 800_000,
    "part": 200_000,
    "lineitem": 6_001_215,
    "orders": 1_500_000,
    "customer": 150_000,
}
FIXED = ("region", "nation")  # tables of the same size at any scale

# the ending of a key column → the table whose key it is
DOMAINS = {
    "regionkey": "region",
    "nationkey": "nation",
    "suppkey": "supplier",
    "partkey": "part",
    "orderkey": "orders",
    "custkey": "customer",
}

# the conditions that join a relation to the others; partsupp has a key of two columns
NATION = "n_regionkey = r_regionkey"
SUPPLIER = "s_nationkey = n_nationkey"
PARTSUPP = "ps_suppkey = s_suppkey"
PART = "p_partkey = ps_partkey"
LINEITEM = "l_partkey = ps_partkey AND l_suppkey = ps_suppkey"
ORDERS = "l_orderkey = o_orderkey"
CUSTOMER = "o_custkey = c_custkey"

QUERIES: dict[str, str] = {
    "q1": "SELECT r_name, n_regionkey, s_nationkey, s_acctbal, ps_partkey, ps_suppkey, ps_availqty\n"
    f"FROM region JOIN nation ON {NATION} JOIN supplier ON {SUPPLIER} JOIN partsupp ON {PARTSUPP}",
    "q2": "SELECT n_regionkey, s_nationkey, s_acctbal, ps_partkey, ps_suppkey, ps_availqty, p_size\n"
    f"FROM nation JOIN supplier ON {SUPPLIER} JOIN partsupp ON {PARTSUPP} JOIN part ON {PART}",
    "q3": "SELECT s_nationkey, s_acctbal, ps_partkey, ps_suppkey, ps_availqty, p_size, l_orderkey, l_extendedprice\n"
    f"FROM supplier JOIN partsupp ON {PARTSUPP} JOIN part ON {PART} JOIN lineitem ON {LINEITEM}",
    "q4": "SELECT s_nationkey, s_acctbal, ps_partkey, ps_suppkey, ps_availqty, l_orderkey, l_extendedprice, o_custkey\n"
    f"FROM supplier JOIN partsupp ON {PARTSUPP} JOIN lineitem ON {LINEITEM} JOIN orders ON {ORDERS}",
    "q5": "SELECT p_size, ps_partkey, ps_suppkey, ps_availqty, l_orderkey, l_extendedprice, o_custkey\n"
    f"FROM part JOIN partsupp ON {PART} JOIN lineitem ON {LINEITEM} JOIN orders ON {ORDERS}",
    "q6": "SELECT n_regionkey, s_nationkey, s_acctbal, ps_partkey, ps_suppkey, ps_availqty, l_orderkey, l_extendedprice\n"
    f"FROM nation JOIN supplier ON {SUPPLIER} JOIN partsupp ON {PARTSUPP} JOIN lineitem ON {LINEITEM}",
    "q7": "SELECT c_nationkey, c_acctbal, o_custkey, o_orderdate, l_orderkey, l_partkey, l_extendedprice\n"
    f"FROM customer JOIN orders ON {CUSTOMER} JOIN lineitem ON {ORDERS}",
    "q8": "SELECT c_nationkey, c_acctbal, o_custkey, o_orderdate, l_orderkey, l_partkey, l_suppkey, l_extendedprice, ps_availqty\n"
    f"FROM customer JOIN orders ON {CUSTOMER} JOIN lineitem ON {ORDERS} JOIN partsupp ON {LINEITEM}",
    "q9": "SELECT r_name, n_regionkey, c_nationkey, c_acctbal, o_custkey, o_orderkey, o_orderdate\n"
    f"FROM region JOIN nation ON {NATION} JOIN customer ON c_nationkey = n_nationkey JOIN orders ON {CUSTOMER}",
    "q10": "SELECT c_nationkey, c_acctbal, o_custkey, o_orderdate, l_orderkey, l_partkey, l_extendedprice, p_size\n"
    f"FROM customer JOIN orders ON {CUSTOMER} JOIN lineitem ON {ORDERS} JOIN part ON l_partkey = p_partkey",
}

MAX_RESULTS = 2.0  # of a random query, as a multiple of the rows of lineitem: a larger result would measure mainly the writing of results
REFERENCE_SHARE = 0.7  # of random joins whose keys are those of the same table
MAX_TRIES = 10_000


def first_queries(count: int) -> dict[str, str]:
    """Five or ten queries: the five whose overlap the paper draws, or its larger set of ten."""
    if count not in (5, 10):
        raise OptionError("no such set of TPC-H queries", f"{count} queries", "write 5 or 10")
    return dict(list(QUERIES.items())[:count])


def tpch_streams(queries: Mapping[str, str]) -> list[Stream]:
    """The streams that the queries read. They have no window, so that the whole history of all streams is joined."""
    from clash.sql import parse_queries

    _, used = parse_queries(queries, {name: Stream.of(name, columns) for name, columns in TABLES.items()})
    return [used[name] for name in TABLES if name in used]


def table_rows(scale: float) -> dict[str, float]:
    return {name: float(rows) if name in FIXED else rows * scale for name, rows in ROWS.items()}


def key_columns() -> dict[str, tuple[str, str]]:
    """Key column → (its table, the table whose key it holds)."""
    return {
        column: (table, domain)
        for table, columns in TABLES.items()
        for column in columns
        for ending, domain in DOMAINS.items()
        if column.partition("_")[2] == ending
    }


def tpch_statistics(scale: float) -> Statistics:
    """For the ten queries, which compare part and supplier of a lineitem together; the two are not independent."""
    return replace(key_statistics(scale), sizes={("lineitem", "partsupp"): table_rows(scale)["lineitem"]})


def key_statistics(scale: float) -> Statistics:
    """For any query that joins on keys; rates are the sizes of tables."""
    rows, keys = table_rows(scale), key_columns()
    selectivities = {
        f"{left_table}.{left} = {right_table}.{right}": 1 / max(rows[left_domain], rows[right_domain], 1.0)
        for (left, (left_table, left_domain)), (right, (right_table, right_domain)) in combinations(keys.items(), 2)
        if left_table != right_table
    }
    return Statistics(rates=rows, selectivities=selectivities)


def random_queries(seed: int, count: int) -> dict[str, str]:
    """`count` different connected joins of three to five tables over key columns, also over those that do not refer to one another.

    As in the paper, a key may be joined with any other: customers whose key is also a nation's key are a join of low selectivity. A query
    that is expected to have more than twice as many results as there are lineitems is drawn again.
    """
    rng = random.Random(seed)
    drawn: dict[str, None] = {}
    for _ in range(MAX_TRIES):
        if len(drawn) == count:
            return {f"r{i}": text for i, text in enumerate(drawn, 1)}
        text = _random_query(rng, rng.randint(3, 5))
        if _expected_results(text) <= MAX_RESULTS:
            drawn[text] = None
    raise OptionError("there are not as many different queries", f"{count} queries", "request fewer")


def _random_query(rng: random.Random, size: int) -> str:
    keys = key_columns()
    visited, joins = [rng.choice(list(TABLES))], []
    while len(visited) < size:
        links = [
            (i, o) for i, (inside, _) in keys.items() if inside in visited for o, (outside, _) in keys.items() if outside not in visited
        ]
        referring = [(i, o) for i, o in links if keys[i][1] == keys[o][1]]
        inside, outside = rng.choice(referring if referring and rng.random() < REFERENCE_SHARE else links)
        visited.append(keys[outside][0])
        joins.append(f"JOIN {visited[-1]} ON {outside} = {inside}")
    columns = [column for table in TABLES if table in visited for column in TABLES[table]]
    return f"SELECT {', '.join(columns)}\nFROM {visited[0]} {' '.join(joins)}"


def _expected_results(text: str) -> float:
    """Expected results as a multiple of the rows of lineitem: the maximum over scales, because region and nation do not grow."""
    from clash.planner.cardinalities import Sizes
    from clash.sql import parse_query

    streams = {name: Stream.of(name, columns) for name, columns in TABLES.items()}
    join = parse_query("r", text, streams).join
    return max(Sizes(key_statistics(scale), streams).rows(join) / table_rows(scale)["lineitem"] for scale in (0.01, 1.0))
