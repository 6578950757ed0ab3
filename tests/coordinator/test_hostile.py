"""Checkpoints that somebody has made up, checksums and all: none of their code runs, nothing outside of the checkpoint is touched, and a
start is refused with a message, or goes on."""

from __future__ import annotations

import ast
import copy
import json
import os
import pickle
import shutil
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.coordinator.test_verification import copied, sample, start, tables

from clash.columnar.index import Index
from clash.errors import ClashError, StateError
from clash.spark.failures import explain_failure
from clash.state.container import read_container, write_container
from clash.state.storage import LocalStorage

__all__ = ["sample"]  # a fixture

HOSTILE: list[Any] = [
    None, True, -1, 0, 1 << 62, 10**40, 0.5, 1e308, "", "../../victim", "/etc/passwd", "a/../../b", "\0", "\ud800", "x" * 5000, [], {},
    [[]], {"": ""}, [None] * 3, "NaN", "__import__('os').system('touch ran')", "%s%n", "';--",
]  # fmt: skip


@pytest.fixture
def folder(sample: Path, tmp_path: Path) -> Path:
    """A copy of the sample, beside a folder that nobody may touch."""
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "precious").write_text("content")
    return copied(sample, tmp_path / "c0")


def check_victim(folder: Path) -> None:
    assert [(path.name, path.read_text()) for path in (folder.parent / "victim").iterdir()] == [("precious", "content")]
    assert not Path("ran").exists()


def goes_on(folder: Path) -> None:
    running = start(folder)
    running.coordinator.publish(running.coordinator.last)  # as when Spark has lost the commit
    running.batch(tables(4))
    running.batch(tables(5))


def refused(folder: Path) -> ClashError:
    with pytest.raises(ClashError) as caught:
        goes_on(folder)
    check_victim(folder)
    assert caught.value.hint
    return caught.value


def records(folder: Path) -> list[Path]:
    found = [path for path in (folder / "c").rglob("*.json") if path.parent.name != "plans" and path.read_bytes() != b"left over"]
    return sorted(found)


def write(path: Path, data: Any) -> None:
    line = json.dumps(data, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    path.write_bytes(line + b'{"crc32":"%08x"}\n' % zlib.crc32(line))


def read(path: Path) -> Any:
    return json.loads(path.read_bytes().partition(b"\n")[0])


def places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every part of a document: what it is in, and where."""
    for key in data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ():
        yield data, key
        yield from places(data[key])


@pytest.mark.parametrize("seed", range(5))
def test_any_part_of_any_record_is_replaced(folder: Path, seed: int) -> None:
    rng = Random(seed)
    for path in records(folder):
        original = path.read_bytes()
        for _ in range(4):
            data = read(path)
            container, key = rng.choice(list(places(data)))
            container[key] = copy.deepcopy(rng.choice(HOSTILE))
            write(path, data)
            attempt = folder.parent / "attempt"
            shutil.copytree(folder, attempt)
            try:
                goes_on(attempt)
            except Exception as error:
                assert explain_failure(error).hint  # what a user sees: the error itself, or that the run cannot go on
            check_victim(attempt)
            shutil.rmtree(attempt)
            path.write_bytes(original)


PATHS = ["../victim/precious", "/etc/passwd", "state/../../victim/precious", "", ".", "a\0b", "\ud800", "x" * 10_000]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("record", "key"), [("manifests", "path"), ("manifests", "files"), ("batches", "plan_path")])
def test_names_that_lead_out_of_the_checkpoint(folder: Path, record: str, key: str, path: str) -> None:
    for file in (folder / "c" / record).iterdir():
        if file.suffix != ".json" or file.read_bytes() == b"left over":
            continue
        data = read(file)
        for container, name in list(places(data)):
            if name == key:
                container[name] = [[file[0], path, file[2]] for file in container[name]] if key == "files" else path
        write(file, data)
    refused(folder)


@pytest.mark.parametrize("name", ["../../victim", "/victim", "..", "_staging", "a/b"])
def test_queries_whose_name_leads_out_of_the_checkpoint(folder: Path, name: str) -> None:
    for file in (folder / "c" / "generations").glob("00000?.json"):
        write(file, json.loads(json.dumps(read(file)).replace('"p"', json.dumps(name))))
    refused(folder)


@pytest.mark.parametrize("depth", [10_000, 1_000_000])
def test_deep_nesting(folder: Path, depth: int) -> None:
    for path in records(folder):
        line = b"[" * depth + b"]" * depth + b"\n"
        path.write_bytes(line + b'{"crc32":"%08x"}\n' % zlib.crc32(line))
    assert isinstance(refused(folder), StateError)


def test_a_record_of_a_terabyte(folder: Path) -> None:
    os.truncate(folder / "c" / "job.json", 1 << 40)
    assert "too many" in refused(folder).detail


@pytest.mark.parametrize("what", ["job.json", "state", "manifests"])
def test_a_pipe_instead_of_a_file(folder: Path, what: str) -> None:
    found = folder / "c" / what
    live = [record["path"] for record in read(next((folder / "c" / "manifests").glob("*.json")))["containers"]]
    path = found if found.is_file() else folder / "c" / live[0] if what == "state" else next(found.iterdir())
    path.unlink()
    os.mkfifo(path)
    refused(folder)


@pytest.mark.parametrize("inner", ["state", "manifests", "batches", "plans", "generations", "late/R", "results", "state/s_R", "_new"])
def test_folders_that_are_links(folder: Path, inner: str) -> None:
    """What is not listed in a folder of the state is deleted: not if it is behind a link."""
    link = folder / "c" / inner
    if link.exists():
        shutil.rmtree(link)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(folder.parent / "victim", target_is_directory=True)
    try:
        goes_on(folder)
    except ClashError as error:
        assert error.hint
    check_victim(folder)


def test_a_link_among_containers_is_removed_and_not_followed(folder: Path) -> None:
    link = folder / "c" / "state" / "elsewhere"
    link.symlink_to(folder.parent / "victim", target_is_directory=True)
    goes_on(folder)
    check_victim(folder)
    assert not link.is_symlink()


class Touch:
    """Its pickle makes a file when it is read."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (Path("ran"),)


def hostile_batch(metadata: dict[str, bytes]) -> pa.RecordBatch:
    field = pa.field("a", pa.int64(), metadata=metadata)
    return pa.record_batch([pa.array([1, 2, 3])], schema=pa.schema([field], metadata={"pandas": b"\xff", "x": pickle.dumps(Touch())}))


@pytest.mark.parametrize("name", [b"arrow.py_extension_type", b"pandas.period", b"arrow.fixed_shape_tensor", b"\xff\xfe", b"x" * 100_000])
def test_arrow_metadata_that_is_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: bytes) -> None:
    monkeypatch.chdir(tmp_path)
    storage = LocalStorage(tmp_path)
    payload = pickle.dumps(Touch())
    write_container(storage, "f", hostile_batch({"ARROW:extension:name": name, "ARROW:extension:metadata": payload}), {}, {})
    with suppress(StateError):
        read_container(storage, "f", verify=True)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("starts", "rows", "words"),
    [
        ([0, 2], [0, 99], [1, 1]),
        ([0, 2], [0, -1], [1, 1]),
        ([0, 1 << 30], [0, 1], [1, 1]),
        ([0, 5, 2], [0, 1], [1, 1]),
        ([-7, 2], [0, 1], [1, 1]),
        ([0, 2], [0, 1], [1]),
        ([0, 1, 1, 2], [0, 1], [1, 1]),
        ([], [], []),
    ],
)
def test_indexes_that_refer_outside_of_the_file(tmp_path: Path, starts: list[int], rows: list[int], words: list[int]) -> None:
    storage = LocalStorage(tmp_path)
    index = Index(np.array(starts, np.int32), np.array(rows, np.int32), np.array(words, np.int64))
    write_container(storage, "f", pa.record_batch({"a": [1, 2, 3]}), {"k": index}, {})
    with pytest.raises(StateError, match="index"):
        read_container(storage, "f", verify=True)


@pytest.mark.parametrize("at", range(0, 400, 7))
def test_an_arrow_stream_with_any_byte_changed(tmp_path: Path, at: int) -> None:
    """Its checksums are right: somebody has computed them."""
    storage = LocalStorage(tmp_path)
    write_container(storage, "f", pa.record_batch({"a": ["x", "yy", None], "b": [1, 2, 3]}), {}, {})
    content = bytearray((tmp_path / "f").read_bytes())
    length, _, size, magic = struct.unpack("<IIQ8s", content[-24:])
    end = size - 24 - length
    content[min(64 + at, end - 1)] ^= 0xFF
    footer = json.loads(content[end:-24])
    footer["crc32"] = zlib.crc32(content[:end])
    text = json.dumps(footer, separators=(",", ":")).encode()
    tail = struct.pack("<IIQ8s", len(text), zlib.crc32(text), end + len(text) + 24, magic)
    (tmp_path / "f").write_bytes(bytes(content[:end]) + text + tail)
    try:
        read_container(storage, "f", verify=True).batch.to_pylist()
    except StateError as error:
        assert "corrupt" in error.what


def test_nothing_that_is_read_is_run() -> None:
    """No module unpickles or evaluates anything; what is sent to Spark's workers is pickled by Spark's own function, and read by them."""
    source = Path(__file__).parents[2] / "src" / "clash"
    for file in source.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
                # job files are composed into nodes, which are text; no object is made of a tag
                composed = {"yaml"} if file.name == "yaml_text.py" else set()
                assert not (names & {"pickle", "marshal", "shelve", "dill", "joblib", "yaml"}) - composed, file
                assert "cloudpickle" not in str(names) or {alias.name for alias in node.names} == {"dumps"}, file
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "compile", "__import__"), file
