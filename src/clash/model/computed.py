"""Columns that are computed for queries where a stream is read.

A query may use any deterministic expression of Spark over one stream. What our evaluator does not know becomes a column of the stream that
Spark computes; a key that our evaluator knows becomes one that tasks compute. The expression determines the name: all queries that use it
share the column, and it travels and is stored as any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

from clash.model.expressions import Expr
from clash.model.stream import Stream

REFUSED = ""
_READABLE = 30  # characters of the expression in the name


@dataclass(frozen=True, slots=True)
class ComputedColumn:
    stream: str
    expression: str
    """In Spark's SQL, over columns of the stream."""
    type: str
    """Its Spark type; `REFUSED` if Spark cannot compute it, so that a query is read the same way again."""
    evaluated: Expr | None = None
    """What tasks evaluate; None where Spark computes the column."""

    @property
    def name(self) -> str:
        # two expressions may have one text, and literals of other types
        return computed_name(self.expression if self.evaluated is None else f"{self.expression} {self.evaluated!r}")


def computed_name(expression: str) -> str:
    """The name of the column of an expression: what people recognise of it, and a part of its hash. Statistics know columns by names of
    letters, digits and underscores.

    >>> computed_name("LOWER(`name`)")
    '_lower_name_bf8f4b15'
    """
    readable = re.sub(r"[^A-Za-z0-9]+", "_", expression).strip("_").lower()[:_READABLE]
    return f"_{readable}_{sha256(expression.encode()).hexdigest()[:8]}"


def with_computed(streams: Mapping[str, Stream], columns: Iterable[ComputedColumn]) -> dict[str, Stream]:
    """The streams with computed columns in addition to those that they have."""
    extended = dict(streams)
    for column in columns:
        stream = extended.get(column.stream)
        if stream is not None and stream.type_of(column.name) is None:
            if column.evaluated is None:
                stream = replace(stream, computed=(*stream.computed, (column.name, column.type, column.expression)))
            else:
                stream = replace(stream, evaluated=(*stream.evaluated, (column.name, column.evaluated)))
            extended[column.stream] = stream
    return extended


def with_computed_as_columns(stream: Stream) -> Stream:
    """The stream as if it had its computed columns itself: statistics name them as any other."""
    return replace(stream, columns=stream.all_columns, computed=(), evaluated=())
