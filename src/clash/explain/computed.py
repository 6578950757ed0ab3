"""What is computed beside the join: columns where a stream or a table is read, expressions of joined rows, and outer queries.

None of it is part of the plan's cost, which is in probes and stored rows: what it costs Spark is said as a number of rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from clash.model.expression_text import expression_text
from clash.model.query import Query, query_of
from clash.model.stream import Stream
from clash.plan.logical import LogicalPlan
from clash.planner.cardinalities import Sizes


@dataclass(frozen=True, slots=True)
class ComputedPart:
    """A column that is computed where a stream or a table is read."""

    stream: str
    is_table: bool
    name: str
    type: str
    expression: str
    by_spark: bool
    """Otherwise the tasks that read the stream compute it."""
    users: tuple[str, ...]
    """The queries that read it."""

    @property
    def place(self) -> str:
        return "spark" if self.by_spark else "tasks"


def computed_parts(streams: Iterable[Stream], queries: Iterable[Query]) -> tuple[ComputedPart, ...]:
    """All that some query reads, in the order of the streams."""
    queries = tuple(queries)
    parts = []
    for stream in streams:
        by_spark = [(name, kind, expression, True) for name, kind, expression in stream.computed]
        by_tasks = [(name, expression.type, expression_text(expression), False) for name, expression in stream.evaluated]
        for name, kind, expression, is_of_spark in (*by_spark, *by_tasks):
            users = tuple(dict.fromkeys(query_of(q.name) for q in queries if name in q.columns_of(stream.name)))
            if users:
                parts.append(ComputedPart(stream.name, stream.is_table, name, kind, expression, is_of_spark, users))
    return tuple(parts)


def moves_files(parts: Iterable[ComputedPart]) -> bool:
    """Whether Spark reads all streams of files: it does as soon as it computes a column of one stream, because tasks read all or none."""
    return any(part.by_spark and not part.is_table for part in parts)


def result_rows(plan: LogicalPlan, query: Query) -> float:
    """How many results of a query's joins are expected, those of all branches of UNION ALL."""
    sizes, name = Sizes(plan.request.statistics, dict(plan.streams)), query_of(query.name)
    return sum(sizes.rows(branch.join) for branch in plan.queries if query_of(branch.name) == name)
