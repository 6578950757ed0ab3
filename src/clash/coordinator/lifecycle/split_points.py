"""How many rows containers have up to an arrival, and where to split them into what one batch moves or probes once more.

Invariant: a range ends at an arrival, not with a file: it has the same rows whatever is merged or laid out again meanwhile. Of each row one
copy is counted. Rows are estimated from the containers' records alone, to within half a range per container: no file is read to decide what
a batch does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable

from clash.protocol.containers import ContainerRecord


def remaining_rows(record: ContainerRecord) -> float:
    """About how many rows of a container count."""
    return rows_before([record], record.last_arrival + 1)


def rows_before(records: Iterable[ContainerRecord], arrival: int) -> float:
    """About how many rows that count arrived before it."""
    return sum(max(0.0, _arrived(record, arrival) - _arrived(record, record.oldest)) for record in records)


def split_at(records: Collection[ContainerRecord], max_rows: float, end: int) -> int:
    """The arrival before which about `max_rows` rows arrived; `end` where there are no more before it."""
    if rows_before(records, end) <= max_rows:
        return end
    low, high = min(record.oldest for record in records), end
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if rows_before(records, middle) > max_rows else (middle, high)
    return high


def _arrived(record: ContainerRecord, arrival: int) -> float:
    """How many of its rows, counting or not, arrived before it, if they arrived evenly between split points."""
    points = (record.first_arrival, *record.split_points, record.last_arrival + 1)
    at = bisect_left(points, arrival)
    if at in (0, len(points)):
        return float(record.rows if at else 0)
    low, high = points[at - 1], points[at]
    return record.rows * (at - 1 + (arrival - low) / (high - low)) / (len(points) - 1)
