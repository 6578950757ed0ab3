"""A Spark query is ended between two batches, and the next one over its checkpoint continues."""

from __future__ import annotations

import time
from threading import Event, Thread
from typing import Any

import pytest

from clash.spark.batch_end import QueryRestartError
from clash.spark.batch_gate import BatchGate, end_between_batches
from clash.spark.offset_log import fit_offset_log

from .json_files import JsonFiles


@pytest.mark.parametrize("trigger", [{}, {"processingTime": "1 hour"}, {"availableNow": True}])
def test_ended_between_two_batches(files: JsonFiles, trigger: dict[str, Any]) -> None:
    """Requested in the middle of a batch, which is not disturbed."""
    inside, go_on = Event(), Event()

    def wait(batch: int) -> None:
        if batch == 0:
            inside.set()
            assert go_on.wait(100)

    files.before = wait
    query = files.start(files.union("RS"), **trigger)
    assert inside.wait(100)
    thread = Thread(target=end_between_batches, args=(query, files.gate))
    thread.start()
    time.sleep(0.1)
    assert query.isActive
    go_on.set()
    thread.join(100)
    assert not query.isActive
    assert [batch for batch, _ in files.read] == [0]
    assert (files.root / "spark" / "commits" / "0").exists()
    files.gate = BatchGate()
    fit_offset_log(files.storage, 3)
    files.run(files.union("RST"))
    files.check({"R": 3, "S": 3, "T": 3})


@pytest.mark.parametrize("trigger", [{}, {"processingTime": "1 hour"}])
def test_ended_while_there_is_nothing_to_read(files: JsonFiles, trigger: dict[str, Any]) -> None:
    files.run(files.union("RS"))
    query = files.start(files.union("RS"), **trigger)
    end_between_batches(query, files.gate)
    assert not query.isActive
    assert query.exception() is None
    with pytest.raises(QueryRestartError), files.gate.batch():
        pass
