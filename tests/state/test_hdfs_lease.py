"""The lease on a real HDFS: its NameNode gives a checkpoint to one run, and takes it from one that is silent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.servers import HdfsServer

from clash.errors import CheckpointError, StateError
from clash.state.checkpoint_lock import lock_checkpoint
from clash.state.hdfs_storage import HdfsStorage
from clash.state.storage import open_storage

HOLDER = """
    import sys
    from clash.errors import CheckpointError
    from clash.state.checkpoint_lock import lock_checkpoint
    from clash.state.storage import open_storage
    lock = lock_checkpoint(open_storage(sys.argv[1]))
    print("held", flush=True)
    sys.stdin.readline()
    try:
        lock.check()
    except CheckpointError as error:
        print(error.what, flush=True)
    else:
        print("has it", flush=True)
"""


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users without HDFS need not install its client."""
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(StateError) as caught:
        lock_checkpoint(open_storage("hdfs://127.0.0.1:1/checkpoint/clash"))
    assert caught.value.what == "HDFS needs the package hdfs-native"
    assert sys.executable in caught.value.detail
    assert "clash-on-spark[hdfs]" in caught.value.hint


@pytest.fixture
def storage(hdfs_server: HdfsServer) -> HdfsStorage:
    found = open_storage(f"{hdfs_server.location(str(uuid.uuid4()))}/checkpoint/clash")
    assert isinstance(found, HdfsStorage)
    return found


def holder(storage: HdfsStorage) -> Any:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER), storage.uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def end(process: Any) -> None:
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_a_second_run_is_refused_and_told_by_whom(storage: HdfsStorage) -> None:
    first = lock_checkpoint(storage)
    first.check()
    with pytest.raises(CheckpointError) as caught:
        lock_checkpoint(open_storage(storage.uri))
    assert caught.value.what == "another run has this checkpoint"
    assert f"process {os.getpid()}, since 20" in caught.value.detail
    assert "after 60 seconds" in caught.value.hint
    first.release()
    first.release()
    assert storage.list("", recursive=True) == []
    lock_checkpoint(storage).release()


def test_what_a_start_makes_is_its_owners_alone(storage: HdfsStorage) -> None:
    lock = lock_checkpoint(storage)
    storage.write("state/s_R/f", [b""])
    found = {name: storage.client.status(f"{storage.root}{name}").permission for name in ("", "/state", "/state/s_R/f")}
    assert {name: oct(mode & 0o777) for name, mode in found.items()} == {"": "0o700", "/state": "0o700", "/state/s_R/f": "0o600"}
    lock.release()


@pytest.mark.slow
def test_silent_runs_lose_it_and_notice(storage: HdfsStorage, hdfs_server: HdfsServer) -> None:
    """One was killed, one stopped; one lives, is silent on our side, and keeps it: its client renews it. A minute is the NameNode's."""
    others = [open_storage(f"{storage.uri}-{name}") for name in ("killed", "stopped", "alive")]
    killed, stopped, alive = processes = [holder(other) for other in others]  # type: ignore[arg-type]
    try:
        killed.kill()
        stopped.send_signal(signal.SIGSTOP)
        locks: dict[int, Any] = {}
        deadline = time.monotonic() + 240
        while len(locks) < 2 and time.monotonic() < deadline:
            for number, other in enumerate(others):
                if number not in locks:
                    try:
                        locks[number] = lock_checkpoint(other)
                    except CheckpointError:
                        continue
            time.sleep(2)
        assert set(locks) == {0, 1}
        stopped.send_signal(signal.SIGCONT)
        for process, answer in ((stopped, "this run has lost its checkpoint\n"), (alive, "has it\n")):
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == answer
        for lock in locks.values():
            lock.check()
            lock.release()
    finally:
        for process in processes:
            end(process)


def test_a_server_that_is_away_is_an_error_in_time(tmp_path: Path, java: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed or silent; when it is back, what was written is there, and the same storage goes on."""
    monkeypatch.setenv("CLASH_HDFS_TIMEOUT", "2")
    server = HdfsServer(tmp_path)
    server.start()
    try:
        storage = HdfsStorage(server.location("checkpoint"))
        storage.write("before", [b"x"])
        for away, back in (
            (lambda: server.send(signal.SIGSTOP), lambda: server.send(signal.SIGCONT)),
            (server.stop, server.start),
        ):
            lock = lock_checkpoint(storage)
            away()
            for call in (lambda: storage.write("f", [b"x"]), storage.list, lambda: storage.read("before"), lambda: storage.delete(["f"])):
                with pytest.raises(StateError, match=r"hdfs://.*\n  hint: .*start again when it answers"):
                    call()
            lock._renewed -= 60  # type: ignore[attr-defined]
            with pytest.raises(CheckpointError, match=r"lost its checkpoint\n.*could not be renewed for \d+ seconds"):
                lock.check()
            lock.release()
            back()
            assert storage.read("before", mapped=False).to_pybytes() == b"x"
            storage.write("f", [b"xy"])
            server.free_lock("checkpoint/lock")
            lock_checkpoint(storage).release()
            assert storage.list() == ["before", "f"]
    finally:
        server.stop()
