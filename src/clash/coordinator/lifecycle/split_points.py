"""How many rows containers have up to an arrival, and where they are cut into what one batch moves or replays.

Invariant: a piece ends at an arrival, not with a file: it has the same rows whatever is merged, rewritten or laid out anew meanwhile. Of
each row one copy is counted. How many there are is told by the containers' records alone, to within half a piece per container: nobody
reads a file to decide what a batch does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from clash.protocol.batch import ContainerRecord, Laid
from clash.model.layout import ALL
from clash.columnar.block import Ints


def one_copy(containers: Iterable[ContainerRecord], layouts: Mapping[str, Sequence[Laid]]) -> list[ContainerRecord]:
    """Those that have every row of their stores once: the first copy and, of one that is everywhere, the first slot."""
    everywhere = {(store, laid.generation) for store, all_ in layouts.items() for laid in all_ if laid.layouts[0] == ALL}
    return [r for r in containers if r.copy == 0 and (r.slot == 0 or (r.store, r.generation) not in everywhere)]


def left(record: ContainerRecord) -> float:
    """About how many of its rows count."""
    return before([record], record.last + 1)


def before(records: Iterable[ContainerRecord], arrival: int) -> float:
    """About how many rows that count came before it."""
    return sum(max(0.0, _came(record, arrival) - _came(record, record.oldest)) for record in records)


def marks(arrivals: Ints, most: int) -> tuple[int, ...]:
    """What a container of these rows is marked with, so that pieces of `most` rows can be told: a new one may have few rows of long ago
    and many of one hour, or the other way round."""
    rows = len(arrivals)
    parts = 1 + rows // max(1, most // 2)
    at = [number * rows // parts for number in range(1, parts)]
    return tuple(np.partition(arrivals, at)[at].tolist()) if at else ()


def cut(records: Collection[ContainerRecord], most: float, end: int) -> int:
    """The arrival up to which about `most` rows came, beyond the first; `end` where there are no more before it."""
    if before(records, end) <= most:
        return end
    low, high = min(record.oldest for record in records), end
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if before(records, middle) > most else (middle, high)
    return high


def _came(record: ContainerRecord, arrival: int) -> float:
    """How many of its rows, counting or not, came before it, if they came evenly between marks."""
    points = (record.first, *record.marks, record.last + 1)
    at = bisect_left(points, arrival)
    if at in (0, len(points)):
        return float(record.rows if at else 0)
    low, high = points[at - 1], points[at]
    return record.rows * (at - 1 + (arrival - low) / (high - low)) / (len(points) - 1)
