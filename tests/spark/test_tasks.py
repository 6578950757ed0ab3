"""Messages between tasks, as byte strings and as record batches, without Spark."""

from __future__ import annotations

import base64
import random
from pathlib import Path

import pyarrow as pa
import pytest

from clash.errors import StateError
from clash.protocol.messages import Message
from clash.spark.payload_files import MIN_BYTES, PayloadReader, PayloadWriter, payload_folder
from clash.spark.tasks import PIECE, addressed, framed, from_pieces, to_pieces, unframed


def test_a_framed_message_comes_back_unchanged() -> None:
    for payload in (b"", b"x" * 1000, pa.py_buffer(b"y" * 77)):
        arrived = unframed(framed(Message(3, "größe", payload)))
        assert (arrived.worker, arrived.kind, bytes(arrived.payload)) == (3, "größe", bytes(payload))


def test_large_payloads_go_through_files(tmp_path: Path) -> None:
    """They are aligned views of the file, which outlive it; small ones stay in the frame."""
    large = [random.Random(seed).randbytes(MIN_BYTES + seed) for seed in range(3)]
    messages = [Message(at, "kind", payload) for at, payload in enumerate((large[0], b"small", pa.py_buffer(large[1]), large[2]))]
    with payload_folder(str(tmp_path / "made")) as folder:
        frames = list(addressed(messages, PayloadWriter(folder, 1, 7)))[1::2]
        assert all(len(frame) < 200 for frame in frames)
        reader = PayloadReader(folder)
        arrived = [unframed(frame, reader) for frame in frames]
    assert not list((tmp_path / "made").iterdir())
    assert [(message.worker, message.kind, bytes(message.payload)) for message in arrived] == [
        (message.worker, message.kind, bytes(message.payload)) for message in messages
    ]
    assert all(pa.py_buffer(arrived[at].payload).address % 64 == 0 for at in (0, 2, 3))


def test_a_scratch_folder_that_fails(tmp_path: Path) -> None:
    large = Message(0, "kind", bytes(MIN_BYTES))
    (_, frame) = addressed([large], PayloadWriter(str(tmp_path), 0, 0))
    (tmp_path / "0-0").unlink()
    with pytest.raises(StateError, match="a file in Spark's scratch folder cannot be read"):
        unframed(frame, PayloadReader(str(tmp_path)))
    with pytest.raises(StateError, match="Spark's scratch folder cannot be written"):
        framed(large, PayloadWriter(str(tmp_path / "none"), 0, 0))
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match="Spark's scratch folder cannot be written"), payload_folder(str(tmp_path / "file")):
        pass


def test_reports_travel_in_small_pieces() -> None:
    """Of several tasks, one of which has nothing to report, and one more than fits into a piece."""
    tasks = [[b'{"a": 1}', pa.py_buffer(b'{"b": 2}')], [], [random.Random(1).randbytes(3 * PIECE).hex().encode(), b"{}"]]
    pieces = [list(to_pieces(reports)) for reports in tasks]
    assert [len(each) > 1 for each in pieces] == [False, False, True]
    assert all(len(base64.b64encode(piece)) < 8180 for each in pieces for piece in each)  # what Py4J sends in one write, with its prefix
    assert from_pieces(piece for each in pieces for piece in each) == [bytes(report) for reports in tasks for report in reports]


def test_long_reports_are_left_in_files(tmp_path: Path) -> None:
    tasks = [[b'{"a": 1}'], [random.Random(1).randbytes(3 * PIECE).hex().encode(), b"{}"], [b"[]"]]
    pieces = [list(to_pieces(reports, PayloadWriter(str(tmp_path), 1, number))) for number, reports in enumerate(tasks)]
    assert [len(each) for each in pieces] == [1, 1, 1]
    assert [path.name for path in tmp_path.iterdir()] == ["1-1"]
    joined = (piece for each in pieces for piece in each)
    assert from_pieces(joined, PayloadReader(str(tmp_path))) == [report for reports in tasks for report in reports]
