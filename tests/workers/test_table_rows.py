"""Which rows of a table a worker probes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from clash.model.layout import ONE
from clash.protocol.tables import TableFile
from clash.workers.table_rows import open_table


def test_a_table_on_one_worker_has_no_rows_on_others() -> None:
    """Tuples of a replicated store probed it on every worker, and each result came as often as there were workers."""
    unread: Any = None  # neither the storage nor the plan is asked
    copy: Any = SimpleNamespace(layout=ONE)
    files = (TableFile("tables/T/rows.clash", 3, 100),)
    assert open_table(unread, unread, copy, files, 2, 1) == []
