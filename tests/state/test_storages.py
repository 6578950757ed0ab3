"""All storages behave the same, whatever is written, moved and deleted; errors name the file."""

from __future__ import annotations

import gc
import os
import tempfile
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.servers import HdfsServer, S3Server

from clash.errors import StateError
from clash.state.storage import ArrowStorage, LocalStorage, MemoryStorage, Storage, open_storage

MAKERS: dict[str, Callable[[Path], Storage]] = {
    "local": LocalStorage,
    "memory": lambda _: MemoryStorage(),
    "arrow-local": lambda folder: ArrowStorage(pafs.LocalFileSystem(), f"{folder}/files", folder / "cache"),
    "arrow-subtree": lambda folder: ArrowStorage(pafs.SubTreeFileSystem(f"{folder}/sub", pafs.LocalFileSystem()), "", folder / "cache"),
    "arrow-mock": lambda folder: ArrowStorage(pafs._MockFileSystem(), "bucket/root", folder / "cache"),
}


@pytest.fixture(params=[*MAKERS, "s3", "hdfs"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param in ("s3", "hdfs"):
        server = request.getfixturevalue(f"{request.param}_server")
        return open_storage(f"{server.location(str(uuid.uuid4()))}/root")
    return MAKERS[request.param](tmp_path)


def content(storage: Storage, path: str) -> bytes:
    mapped, fresh = storage.read(path), storage.read(path, mapped=False)
    assert mapped.equals(fresh)
    return mapped.to_pybytes()


def test_write_takes_buffers_of_all_kinds(storage: Storage) -> None:
    size = storage.write("a/b", [b"one", memoryview(b"two"), pa.py_buffer(b"three"), b"", pa.py_buffer(b"")])
    assert size == storage.size("a/b") == 11
    assert content(storage, "a/b") == b"onetwothree"


@pytest.mark.parametrize("buffers", [[], [b""], [pa.py_buffer(b"")]])
def test_an_empty_file(storage: Storage, buffers: list[bytes]) -> None:
    assert storage.write("empty", buffers) == 0
    assert storage.exists("empty")
    assert storage.size("empty") == 0
    assert content(storage, "empty") == b""


def test_more_buffers_than_one_system_call_takes(storage: Storage) -> None:
    pieces = [bytes([n % 256]) * (n % 7) for n in range(3000)]
    storage.write("many", pieces)
    assert content(storage, "many") == b"".join(pieces)


def test_write_replaces_and_buffers_keep_the_old_content(storage: Storage) -> None:
    storage.write("f", [b"old"])
    old = storage.read("f")
    storage.write("f", [b"newer"], durable=True)
    assert content(storage, "f") == b"newer"
    storage.delete(["f"])
    assert old.to_pybytes() == b"old"
    assert not storage.exists("f")


def test_buffers_are_read_only_and_aligned(storage: Storage) -> None:
    storage.write("f", [bytes(100)])
    buffer = storage.read("f")
    assert not buffer.is_mutable
    assert buffer.address % 64 == 0


def test_a_new_file_is_written_once(storage: Storage) -> None:
    assert storage.write_new("a/f", [b"one", b"two"]) == 6
    assert storage.write_new("a/f", [b"onetwo"]) == 6  # the answer to the first try was lost
    with pytest.raises(StateError, match=r"written by another run\n.*a/f\n  hint: "):
        storage.write_new("a/f", [b"other"])
    assert content(storage, "a/f") == b"onetwo"
    storage.delete(["a/f"])
    storage.write_new("a/f", [b"other"])
    assert content(storage, "a/f") == b"other"


def test_list_shows_files_only(storage: Storage) -> None:
    for path in ("top", "a/one", "a/two", "a/b/three", "ab/four"):
        storage.write(path, [b"x"])
    assert storage.list() == ["top"]
    assert storage.list("a") == ["one", "two"]
    assert storage.list("a", recursive=True) == ["b/three", "one", "two"]
    assert storage.list("", recursive=True) == ["a/b/three", "a/one", "a/two", "ab/four", "top"]
    assert storage.list("nothing") == storage.list("top/nothing") == []


def test_move_makes_folders_and_replaces(storage: Storage) -> None:
    storage.write("a/f", [b"moved"])
    storage.write("b/c/g", [b"replaced"])
    storage.move("a/f", "b/c/g")
    assert storage.list("", recursive=True) == ["b/c/g"]
    storage.move("b/c/g", "new/folder/h")
    storage.move("new/folder/h", "new/folder/h")
    assert content(storage, "new/folder/h") == b"moved"
    with pytest.raises(StateError, match="missing"):
        storage.move("b/c/g", "elsewhere")


def test_errors_name_the_missing_file(storage: Storage) -> None:
    for action in (lambda: storage.read("no/such"), lambda: storage.read("no/such", mapped=False), lambda: storage.size("no/such")):
        with pytest.raises(StateError, match=r"missing\n.*no/such\n  hint: "):
            action()
    assert not storage.exists("no/such")
    storage.delete(["no/such", "nor/this"])


@pytest.mark.parametrize("path", ["", "/", "/abs", "..", ".", "a/..", "../a", "a/../b", "a//b", "a/", "./a", "a/.", "a\0b"])
def test_names_outside_the_root_are_refused(storage: Storage, path: str) -> None:
    storage.write("a/f", [b""])
    actions: list[Callable[[], object]] = [
        lambda: storage.write(path, [b"x"]),
        lambda: storage.read(path),
        lambda: storage.exists(path),
        lambda: storage.size(path),
        lambda: storage.delete([path]),
        lambda: storage.move(path, "b"),
        lambda: storage.move("a/f", path),
        lambda: storage.url(path),
    ]
    if path:
        actions += [lambda: storage.list(path), lambda: storage.sweep(path)]
    for action in actions:
        with pytest.raises(StateError, match="not allowed"):
            action()
    assert storage.list("", recursive=True) == ["a/f"]


@pytest.mark.parametrize("path", ["...", "..a/b..", "a b/ü%20#?", ".hidden", "x.tmp", "a.gz"])
def test_odd_names_work(storage: Storage, path: str) -> None:
    storage.write(path, [b"content"])
    assert storage.list("", recursive=True) == [path]
    assert content(storage, path) == b"content"


@pytest.mark.parametrize("kind", ["local", "arrow-local", "arrow-subtree", "arrow-mock"])
def test_sweep_deletes_what_a_killed_writer_left(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MAKERS[kind](tmp_path)
    storage.write("a/f", [b"whole"])
    if isinstance(storage, ArrowStorage):
        monkeypatch.setattr(storage, "_rename", lambda old, new: None)
    else:
        monkeypatch.setattr(os, "replace", lambda old, new: None)
    storage.write("a/g", [b"left under its temporary name"])
    storage.write("h", [b"left under its temporary name"])
    assert storage.list("", recursive=True) == ["a/f"]
    assert storage.sweep("a") == 1
    assert storage.sweep() == 1
    assert storage.sweep() == 0
    assert storage.list("", recursive=True) == ["a/f"]


PATHS = ["f", "a/f", "a/g", "a/b/f", "c/f"]
STEP = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(PATHS), st.lists(st.binary(max_size=20), max_size=3)),
    st.tuples(st.just("delete"), st.lists(st.sampled_from(PATHS), max_size=3)),
    st.tuples(st.just("move"), st.sampled_from(PATHS), st.sampled_from(PATHS)),
)


@given(st.lists(STEP, max_size=12))
def test_all_storages_agree(steps: list[tuple[str, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check_agreement([make(Path(folder) / name) for name, make in MAKERS.items()], steps)


@pytest.fixture(params=["s3", "hdfs"])
def server(request: pytest.FixtureRequest) -> S3Server | HdfsServer:
    found: S3Server | HdfsServer = request.getfixturevalue(f"{request.param}_server")
    return found


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, min_size=3, max_size=10))
def test_remote_storages_agree(server: S3Server | HdfsServer, steps: list[tuple[str, ...]]) -> None:
    check_agreement([open_storage(server.location(str(uuid.uuid4())))], steps)


def check_agreement(storages: list[Storage], steps: list[tuple[str, ...]]) -> None:
    """All storages have the same files after each step."""
    files: dict[str, bytes] = {}
    for action, *arguments in steps:
        for storage in storages:
            with suppress(StateError):
                getattr(storage, action)(*arguments)
        if action == "write":
            files[arguments[0]] = b"".join(arguments[1])  # type: ignore[arg-type]
        elif action == "delete":
            for path in arguments[0]:
                files.pop(path, None)
        elif arguments[0] in files:
            files[arguments[1]] = files.pop(arguments[0])
        for storage in storages:
            assert {path: storage.read(path, mapped=False).to_pybytes() for path in storage.list(recursive=True)} == files
            assert {path for path in PATHS if storage.exists(path)} == set(files)


def test_open_storage_by_uri(tmp_path: Path) -> None:
    for uri in (str(tmp_path), f"file:{tmp_path}", f"file://{tmp_path}"):
        found = open_storage(uri)
        assert isinstance(found, LocalStorage)
        assert found.root == str(tmp_path)
    for name in ("local", "arrow-local", "arrow-subtree"):
        storage = MAKERS[name](tmp_path / name)
        storage.write("a/f", [name.encode()])
        assert content(open_storage(storage.uri), "a/f") == name.encode()
        assert Path(storage.url("a/f").removeprefix("file://")).read_bytes() == name.encode()


def test_storages_in_memory_are_found_by_name() -> None:
    storage = open_storage("memory:shared")
    storage.write("f", [b"kept"])
    del storage
    gc.collect()
    found = open_storage("memory:shared")
    assert content(found, "f") == b"kept"
    assert isinstance(found, MemoryStorage)
    found.forget()
    assert open_storage("memory:shared").list() == []
    unnamed = MemoryStorage()
    assert open_storage(unnamed.uri) is unnamed
    assert MemoryStorage().uri != unnamed.uri


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("", "a location is empty"),
        ("memory:", "a storage in memory has no name"),
        ("file://host/path", "a location names another machine"),
        ("gopher://host/path", "a location cannot be opened"),
        ("s3://user:secret@bucket/x?nonsense=1", "a location cannot be opened"),
        ("s3a://user:secret@bu cket/x", "a location cannot be opened"),
    ],
)
def test_bad_uris(uri: str, message: str) -> None:
    with pytest.raises(StateError) as caught:
        open_storage(uri)
    assert caught.value.what == message
    assert caught.value.hint
    assert "secret" not in str(caught.value)


def test_urls_keep_the_scheme_and_the_options_of_the_uri(tmp_path: Path) -> None:
    storage = ArrowStorage(pafs._MockFileSystem(), "bucket/root", tmp_path, uri="s3a://bucket/root?region=eu")
    assert storage.url("a/f") == "s3a://bucket/root/a/f?region=eu"
    assert storage.label("a/f") == "mock://bucket/root/a/f"
    assert MemoryStorage("named").url("a/f") == "memory:named/a/f"


def test_local_deletes_folders_that_became_empty(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "root")
    storage.write("batch/1/f", [b""])
    storage.write("batch/2/f", [b""])
    storage.delete(["batch/1/f"])
    assert os.listdir(tmp_path / "root/batch") == ["2"]  # noqa: PTH208
    storage.delete(["batch/2/f"])
    assert list((tmp_path / "root").iterdir()) == []
    storage.write("batch/3/f", [b"again"])
    assert content(storage, "batch/3/f") == b"again"


def test_a_mapping_holds_no_file_descriptor(tmp_path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("only Linux shows them")
    storage = LocalStorage(tmp_path)
    storage.write("f", [b"x"])
    before = len(list(descriptors.iterdir()))
    buffers = [storage.read("f") for _ in range(50)]
    assert len(list(descriptors.iterdir())) == before
    assert all(buffer.to_pybytes() == b"x" for buffer in buffers)
