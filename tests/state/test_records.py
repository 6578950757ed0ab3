"""JSON records: equal data give equal bytes, damaged files are refused with their name. Fail points: they kill once, where requested."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clash.codec import Codec
from clash.errors import StateError
from clash.state import failpoints
from clash.state.json_records import read_json, read_record, write_json, write_record
from clash.state.storage import LocalStorage, MemoryStorage

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4),
    max_leaves=10,
)


@given(VALUES)
def test_json_survives_a_round_trip(data: Any) -> None:
    storage = MemoryStorage()
    assert write_json(storage, "a/b.json", data) == storage.size("a/b.json")
    assert read_json(storage, "a/b.json") == data


def test_json_is_canonical_and_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(tmp_path)
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    write_json(storage, "f", {"b": [1, 2.5], "a": "ü"})
    assert len(flushed) == 2  # the file and its folder
    assert storage.read("f").to_pybytes() == '{"a":"ü","b":[1,2.5]}\n{"crc32":"082aadd4"}\n'.encode()
    write_json(storage, "f", {}, durable=False)
    assert len(flushed) == 2
    write_json(storage, "new/folder/f", {})
    assert len(flushed) == 6  # the file, two new folders, the root
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(storage, "f", float("nan"))


@pytest.mark.parametrize("content", [b"", b"{", b'{"a":1}', b"\xff\n", b"{}x\n", b"NaN\n", b"[-Infinity]\n", b"[" * 100_000 + b"\n"])
def test_json_that_does_not_parse_is_refused(content: bytes) -> None:
    storage = MemoryStorage("records")
    storage.write("the/file.json", [content])
    with pytest.raises(StateError) as caught:
        read_json(storage, "the/file.json")
    assert caught.value.what == "a record is corrupt"
    assert "memory:records/the/file.json: " in caught.value.detail
    assert caught.value.hint


@given(st.integers(0), st.integers(1, 255))
def test_every_damaged_byte_and_every_cut_is_noticed(at: int, damage: int) -> None:
    storage = MemoryStorage("damaged")
    write_json(storage, "r.json", {"batch": 7, "rows": [1, 2, 3], "name": "größer"})
    content = bytearray(storage.read("r.json").to_pybytes())
    torn, at = bytes(content[: at % len(content)]), at % len(content)
    content[at] ^= damage
    for wrong in (bytes(content), torn, bytes(content) + b"\n"):
        storage.write("r.json", [wrong])
        with pytest.raises(StateError, match="a record is corrupt"):
            read_json(storage, "r.json")


def test_typed_records_survive_a_round_trip_and_are_refused_if_of_another_type() -> None:
    storage = MemoryStorage("typed")
    codec: Codec[tuple[int, bytes]] = Codec(tuple[int, bytes])
    assert write_record(storage, "the/file.json", codec, (7, b"x")) == storage.size("the/file.json")
    assert read_record(storage, "the/file.json", codec) == (7, b"x")
    write_json(storage, "the/file.json", [7])
    with pytest.raises(StateError) as caught:
        read_record(storage, "the/file.json", codec)
    assert caught.value.what == "a record is corrupt"
    assert "memory:typed/the/file.json: " in caught.value.detail
    assert caught.value.hint


def test_json_that_is_missing() -> None:
    with pytest.raises(StateError, match="missing"):
        read_json(MemoryStorage(), "the/file.json")


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLASH_FAILPOINT", raising=False)
    monkeypatch.delenv("CLASH_FAILPOINT_FLAG", raising=False)
    failpoints._reached.clear()


PROGRAM = """
    import sys
    from clash.state.failpoints import reach
    for number in range(3):
        reach("round-start")
        print(number, flush=True)
        reach("round-end")
    try:
        reach("after-manifest")
    except RuntimeError as error:
        print(error)
"""


def run(**environment: str) -> tuple[int, list[str]]:
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM)]
    found = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=60)
    return found.returncode, found.stdout.split("\n")[:-1]


def test_a_fail_point_that_is_not_requested_has_no_effect() -> None:
    assert run() == run(CLASH_FAILPOINT="") == run(CLASH_FAILPOINT="before-cleanup") == (0, ["0", "1", "2"])


def test_a_fail_point_kills_the_process() -> None:
    assert run(CLASH_FAILPOINT="round-start") == (-signal.SIGKILL, [])
    assert run(CLASH_FAILPOINT="round-end") == (-signal.SIGKILL, ["0"])


def test_a_fail_point_kills_the_third_time_only() -> None:
    assert run(CLASH_FAILPOINT="round-end@3") == (-signal.SIGKILL, ["0", "1", "2"])
    assert run(CLASH_FAILPOINT="round-end@4") == (0, ["0", "1", "2"])


def test_a_flag_lets_it_happen_once(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    request = {"CLASH_FAILPOINT": "round-start@2", "CLASH_FAILPOINT_FLAG": str(flag)}
    assert run(**request) == (-signal.SIGKILL, ["0"])
    assert flag.exists()
    assert run(**request) == (0, ["0", "1", "2"])


def test_a_fail_point_may_raise_instead() -> None:
    assert run(CLASH_FAILPOINT="after-manifest!raise") == (0, ["0", "1", "2", "fail point after-manifest"])


def test_raising_by_number_and_flag(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLASH_FAILPOINT", "ingest-start@2!raise")
    failpoints.reach("ingest-start")
    failpoints.reach("ingest-end")
    with pytest.raises(RuntimeError, match="fail point ingest-start"):
        failpoints.reach("ingest-start")
    failpoints.reach("ingest-start")
    monkeypatch.setenv("CLASH_FAILPOINT", "ingest-start!raise")
    for _ in range(2):
        with pytest.raises(RuntimeError):
            failpoints.reach("ingest-start")
    monkeypatch.setenv("CLASH_FAILPOINT_FLAG", str(tmp_path / "flag"))
    with pytest.raises(RuntimeError):
        failpoints.reach("ingest-start")
    failpoints.reach("ingest-start")


def test_unknown_names_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="not a fail point: nowhere"):
        failpoints.reach("nowhere")
    for request in ("nowhere", "ingest-start@0", "ingest-start@x", "ingest-start!explode"):
        monkeypatch.setenv("CLASH_FAILPOINT", request)
        with pytest.raises(AssertionError, match="not a fail point"):
            failpoints.reach("ingest-start")
    assert all(failpoints.DESCRIPTIONS[name] for name in failpoints.NAMES)
