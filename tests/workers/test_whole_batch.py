"""A whole batch in one process."""

from __future__ import annotations

from clash.protocol.messages import REPORT_KIND, Message
from clash.workers.whole_batch import _HeldMessages


def test_messages_beyond_the_memory_limit_are_on_disk_and_unchanged() -> None:
    held = _HeldMessages(100)
    messages = [Message(0, "c", bytes([number]) * 40) for number in range(5)]
    kept = [held.add(message) for message in messages]
    assert [bytes(message.payload) for message in kept] == [message.payload for message in messages]
    assert [message is kept[at] for at, message in enumerate(messages)] == [True, True, False, False, False]
    report = Message(0, REPORT_KIND, b"{}" * 100)
    assert held.add(report) is report
