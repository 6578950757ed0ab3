"""Messages between tasks, as byte strings and as record batches, without Spark."""

from __future__ import annotations

import pyarrow as pa

from clash.protocol.messages import Message
from clash.spark.tasks import framed, unframed


def test_a_framed_message_comes_back_unchanged() -> None:
    for payload in (b"", b"x" * 1000, pa.py_buffer(b"y" * 77)):
        arrived = unframed(framed(Message(3, "größe", payload)))
        assert (arrived.worker, arrived.kind, bytes(arrived.payload)) == (3, "größe", bytes(payload))
