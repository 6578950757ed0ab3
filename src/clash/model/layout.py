"""How the rows of a store are partitioned over the workers."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from clash.codec import LATER
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

    hot: Annotated[tuple[int, ...], LATER] = ()
    """Hashes of values of `column` (`clash.columnar.slots`), ascending: rows with such a value are spread over all workers by arrival
    number, and a tuple that looks for them goes to every worker. Hash layouts with a column alone have some."""

    def __str__(self) -> str:
        """The notation of plans: `1`, `*`, `~` for hash by arrival, otherwise the column, and how many of its values are spread."""
        if self.kind != "hash":
            return "1" if self.kind == "one" else "*"
        if self.column is None:
            return "~"
        column = self.column if self.relation is None else f"{self.relation}.{self.column}"
        return f"{column} +{len(self.hot)} hot" if self.hot else column


def slot_of(key: int, workers: int) -> int:
    """The worker of the rows under a hash layout whose value has this hash."""
    return key * workers >> 32


ONE = Layout("one")
ALL = Layout("all")
