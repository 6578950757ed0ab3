"""A relation of a query: one alias of a stream, named so that queries can share work on it.

Aliases of the same stream are distinguished by their number among the query's aliases of that stream. The number is part of the name, hence
of every sharing key, which keeps self-joins exact where queries share steps.
"""

from __future__ import annotations

from typing import NamedTuple


class Relation(NamedTuple):
    """One alias of a stream, e.g. `R`, or `R#2` for the second alias of R in a query."""

    stream: str
    number: int = 0
    """Position among the query's aliases of `stream`, from 0, in the order of the text."""

    def __str__(self) -> str:
        return self.stream if self.number == 0 else f"{self.stream}#{self.number + 1}"


class Attribute(NamedTuple):
    """One column of a relation."""

    relation: Relation
    column: str

    def __str__(self) -> str:
        return f"{self.relation}.{self.column}"
