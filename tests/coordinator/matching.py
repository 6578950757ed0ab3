"""Three streams of which all rows match each other, and queries over them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream

COLUMNS = {"R": "ab", "S": "bc", "T": "cd"}
STREAMS = [Stream.of(name, dict.fromkeys(columns, "bigint")) for name, columns in COLUMNS.items()]
RS = "SELECT R.a, S.c FROM R JOIN S ON R.b = S.b"
ST = "SELECT S.b, T.d FROM S JOIN T ON S.c = T.c"
RST = "SELECT R.a, T.d FROM R JOIN S ON R.b = S.b JOIN T ON S.c = T.c"


def tables(batch: int, names: str = "RST", rows: int = 4) -> dict[str, pa.Table]:
    """All rows match each other; the first column of R and the last one of T tell the batch."""
    values = {"R": (batch, 1), "S": (1, 1), "T": (1, batch)}
    return {
        name: pa.table({c: pa.array([v] * rows, pa.int64()) for c, v in zip(COLUMNS[name], values[name], strict=True)}) for name in names
    }


def engine(queries: Mapping[str, str], streams: list[Stream] = STREAMS, **options: object) -> InProcessEngine:
    return InProcessEngine(streams, queries, **options)  # type: ignore[arg-type]
