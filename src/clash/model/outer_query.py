"""What a query does with the rows of its join: aggregates and DISTINCT, which Spark's stateful streaming computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clash.model.relation import Relation

OutputMode = Literal["complete", "update", "append"]
JOIN_CORE = "join_core"  # the name that an outer query has for the rows of its join
GROUPS = "join_groups"  # the name that the SELECTs around an outer query have for its results


@dataclass(frozen=True, slots=True)
class EventTime:
    """The column of the join core that the outer query groups by time."""

    column: str
    """The name of the output of the join core."""
    relation: Relation
    """The relation whose event time it is."""


@dataclass(frozen=True, slots=True)
class OuterQuery:
    """The part of a query outside of its join, as SQL over the outputs of the join core."""

    sql: str
    event_time: EventTime | None = None
    """None where the query groups by no event time of a stream."""
    final: str | None = None
    """SQL over all groups, where the query has more around them."""
