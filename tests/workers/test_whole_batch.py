"""A whole batch in one process."""

from __future__ import annotations

import pyarrow as pa

from clash.protocol.messages import REPORT_KIND, Message
from clash.workers.whole_batch import _HeldMessages


def test_messages_beyond_the_memory_limit_are_on_disk_and_unchanged() -> None:
    held = _HeldMessages(100)
    batches = [pa.record_batch({"n": pa.array([number] * 5), "s": pa.array(["x", None, "", "ü", "y"])}) for number in range(5)]
    messages = [Message(0, "c", batch) for batch in batches]
    kept = [held.add(message) for message in messages]
    assert [message.payload for message in kept] == batches
    assert [message is kept[at] for at, message in enumerate(messages)] == [True, False, False, False, False]
    report = Message(0, REPORT_KIND, b"{}" * 100)
    assert held.add(report) is report
