"""A relation of a query: an alias, named so that queries can share.

Two aliases of one stream are told apart by their number among the query's aliases of that stream. As part of the
name the number is part of every sharing key, which is what makes self-joins exact where queries share steps.
"""

from __future__ import annotations

from typing import NamedTuple


class Relation(NamedTuple):
    stream: str
    number: int = 0

    def __str__(self) -> str:
        return self.stream if self.number == 0 else f"{self.stream}#{self.number + 1}"


class Attribute(NamedTuple):
    relation: Relation
    column: str

    def __str__(self) -> str:
        return f"{self.relation}.{self.column}"
