"""How the rows of a store are partitioned over the workers."""

from __future__ import annotations

from typing import Literal, NamedTuple

from clash.model.relation import Relation

LayoutKind = Literal["hash", "one", "all"]


class Layout(NamedTuple):
    """The partitioning of one store."""

    kind: LayoutKind
    """`hash`: hash-partitioned; `one`: all rows on one worker; `all`: replicated to every worker."""
    column: str | None = None
    """The partitioning column of a `hash` layout; None partitions by arrival number."""
    relation: Relation | None = None
    """The relation that `column` belongs to, in the store of an intermediate result; None in the store of a stream."""

    def __str__(self) -> str:
        """The notation of plans: `1`, `*`, `~` for hash by arrival, otherwise the column."""
        if self.kind != "hash":
            return "1" if self.kind == "one" else "*"
        if self.column is None:
            return "~"
        return self.column if self.relation is None else f"{self.relation}.{self.column}"


ONE = Layout("one")
ALL = Layout("all")
