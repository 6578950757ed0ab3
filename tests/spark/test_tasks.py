"""Messages between tasks, as byte strings and as record batches, without Spark."""

from __future__ import annotations

import base64
import random

import pyarrow as pa

from clash.protocol.messages import Message
from clash.spark.tasks import PIECE, framed, from_pieces, to_pieces, unframed


def test_a_framed_message_comes_back_unchanged() -> None:
    for payload in (b"", b"x" * 1000, pa.py_buffer(b"y" * 77)):
        arrived = unframed(framed(Message(3, "größe", payload)))
        assert (arrived.worker, arrived.kind, bytes(arrived.payload)) == (3, "größe", bytes(payload))


def test_reports_travel_in_small_pieces() -> None:
    """Of several tasks, one of which has nothing to report, and one more than fits into a piece."""
    tasks = [[b'{"a": 1}', pa.py_buffer(b'{"b": 2}')], [], [random.Random(1).randbytes(3 * PIECE).hex().encode(), b"{}"]]
    pieces = [list(to_pieces(reports)) for reports in tasks]
    assert [len(each) > 1 for each in pieces] == [False, False, True]
    assert all(len(base64.b64encode(piece)) < 8180 for each in pieces for piece in each)  # what Py4J sends in one write, with its prefix
    assert from_pieces(piece for each in pieces for piece in each) == [bytes(report) for reports in tasks for report in reports]
