"""The names of the columns that blocks and containers carry.

Attributes are named as they are shown (`R.a`, `R#2.a`). The columns that every tuple carries beside them have names that no attribute can
have. An arrival number leaves its lowest bits free for the number of the relation in whose role a tuple takes part, so the pair (arrival,
number) is one integer: larger means later.
"""

from __future__ import annotations

from functools import lru_cache

from clash.model.relation import Attribute, Relation

ARRIVAL = "#arrival"
"""The arrival of the last part to arrive, with the number of its relation."""
EARLIEST = "#earliest"
"""The arrival of the first part to arrive."""
EVENT_TIME = "#tau"
"""The event time in microseconds."""
LATEST = "#latest"
"""The largest event time of all parts."""
DEADLINE = "#deadline"
"""The smallest event time plus window of all parts."""

NUMBER_BITS = 5
MAX_NUMBERS = 1 << NUMBER_BITS
"""A query may name a stream so many times: the number of a relation has to fit into the lowest bits of an arrival."""
UNBOUNDED_WINDOW = (1 << 64) - 1
"""The window of a relation that is not bounded: no two event times lie further apart."""


def part_event_time(relation: Relation) -> str:
    """The column with the event time of one part of an intermediate row."""
    return f"#tau {relation}"


def edge_mask(label: str) -> str:
    """The boolean column that says which rows of a shared block an edge takes."""
    return f"#for {label}"


@lru_cache(maxsize=1 << 14)
def stored_name(attribute: Attribute) -> str:
    """The column of an attribute in the store of its stream, where tuples have no role yet."""
    return str(Attribute(Relation(attribute.relation.stream), attribute.column))
