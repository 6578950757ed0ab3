"""The lease on a real object store: one run has a checkpoint, a silent one loses it and notices, and only one commits a batch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.servers import S3Server

from clash.errors import CheckpointError, StateError
from clash.state import lease_lock, s3_requests
from clash.state.checkpoint_lock import lock_checkpoint
from clash.state.lock_owner import read_owner, this_process
from clash.state.s3_lease import S3Lease
from clash.state.s3_requests import Credentials, find_credentials
from clash.state.s3_storage import ObjectVersion, S3Storage


@pytest.fixture
def storage(s3_server: S3Server) -> S3Storage:
    return S3Storage.open(f"s3a://bucket/{uuid.uuid4()}/checkpoint/clash")


def wait_for(condition: Any) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def lost(lock: Any) -> bool:
    try:
        lock.check()
    except CheckpointError:
        return True
    return False


def test_a_second_run_is_refused_and_told_by_whom(storage: S3Storage) -> None:
    first = lock_checkpoint(storage)
    first.check()
    with pytest.raises(CheckpointError) as caught:
        lock_checkpoint(storage)
    assert caught.value.what == "another run has this checkpoint"
    assert f"process {os.getpid()}, since 20" in caught.value.detail
    assert "checkpoint/clash/lock" in caught.value.detail
    assert "expires 60 seconds after" in caught.value.hint
    assert "deleting that file breaks it" in caught.value.hint
    first.release()
    first.release()
    assert storage.list("", recursive=True) == []
    lock_checkpoint(storage).release()


def test_of_many_that_try_at_once_one_has_it(storage: S3Storage) -> None:
    def contend(_: int) -> Any:
        try:
            return lock_checkpoint(storage)
        except CheckpointError:
            return None

    with ThreadPoolExecutor(8) as pool:
        locks = [lock for lock in pool.map(contend, range(8)) if lock is not None]
    assert len(locks) == 1
    locks[0].release()


def test_of_many_that_take_over_at_once_one_has_it(storage: S3Storage) -> None:
    storage.write("lock", [replace(this_process(), process=-1, started="x").content])
    test_of_many_that_try_at_once_one_has_it(storage)


def test_a_killed_run_on_this_machine_is_known_to_be_gone(storage: S3Storage) -> None:
    program = """
        import os, signal, sys
        from clash.state.checkpoint_lock import lock_checkpoint
        from clash.state.storage import open_storage
        lock = lock_checkpoint(open_storage(sys.argv[1]))
        os.kill(os.getpid(), signal.SIGKILL)
    """
    found = subprocess.run([sys.executable, "-c", textwrap.dedent(program), storage.uri], check=False, timeout=60)
    assert found.returncode == -signal.SIGKILL
    assert storage.list() == ["lock"]
    lock_checkpoint(storage).release()


def test_a_run_on_another_machine_that_is_silent_loses_it(storage: S3Storage) -> None:
    elsewhere = replace(this_process(), host="elsewhere", machine="another", process=1)
    storage.write("lock", [elsewhere.content])
    with pytest.raises(CheckpointError, match="elsewhere, process 1"):
        lock_checkpoint(storage, seconds=3)
    wait_for(lambda: not refused(storage, 3))


def refused(storage: S3Storage, seconds: float) -> bool:
    try:
        lock_checkpoint(storage, seconds=seconds).release()
    except CheckpointError:
        return True
    return False


def test_a_renewed_lease_does_not_expire(storage: S3Storage) -> None:
    lock = lock_checkpoint(storage, seconds=2)
    first = storage.read("lock", mapped=False)
    wait_for(lambda: not storage.read("lock", mapped=False).equals(first))
    time.sleep(3)
    lock.check()
    with pytest.raises(CheckpointError, match="another run has this checkpoint"):
        lock_checkpoint(storage, seconds=2)
    lock.release()


def test_a_run_whose_lease_was_taken_over_notices(storage: S3Storage) -> None:
    lock = lock_checkpoint(storage, seconds=1)
    storage.write("lock", [replace(this_process(), host="elsewhere").content])
    wait_for(lambda: lost(lock))
    with pytest.raises(CheckpointError, match=r"this run has lost its checkpoint\n.*held by .*@elsewhere"):
        lock.check()
    lock.release()
    assert storage.list() == ["lock"]  # it is the other run's


def test_a_run_whose_lock_was_removed_notices(storage: S3Storage) -> None:
    lock = lock_checkpoint(storage, seconds=1)
    storage.delete(["lock"])
    wait_for(lambda: lost(lock))
    lock.release()


def test_a_process_that_slept_asks_before_it_goes_on(storage: S3Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was stopped for longer than the lease lasts. If nobody took it over, nothing has happened."""
    lock = lock_checkpoint(storage)
    clock = lease_lock._now
    monkeypatch.setattr(lease_lock, "_now", lambda: clock() + 3600)
    lock.check()
    storage.write("lock", [replace(this_process(), host="elsewhere").content])
    monkeypatch.setattr(lease_lock, "_now", lambda: clock() + 7200)
    with pytest.raises(CheckpointError, match="this run has lost its checkpoint"):
        lock.check()
    lock.release()


def test_a_store_that_does_not_answer_ends_the_run_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = S3Server(tmp_path)
    server.start()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    storage = S3Storage.open("s3://bucket/c")
    lock = lock_checkpoint(storage, seconds=4)
    server.stop()
    wait_for(lambda: lost(lock))
    with pytest.raises(CheckpointError, match=r"lost its checkpoint\n.*could not be renewed for \d+ seconds.*Connection"):
        lock.check()
    lock.release()
    lock.release()
    with pytest.raises(StateError, match=r"cannot be written\n.*Connection.*\n  hint: .*start again when it answers"):
        storage.write_new("f", [b"x"])
    server.start()
    assert not refused(storage, 60)  # it is known that this process has given the lease up
    server.stop()


def test_a_renewal_whose_answer_was_lost_is_found_out(storage: S3Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    lock: Any = lock_checkpoint(storage)
    original = storage.put_if

    def twice(path: str, content: bytes, version: str | None) -> str | None:
        original(path, content, version)
        return original(path, content, version)

    monkeypatch.setattr(storage, "put_if", twice)
    for _ in range(3):
        lock._renew()
        lock.check()
    monkeypatch.undo()
    owner = read_owner(storage.read("lock", mapped=False).to_pybytes())
    assert owner is not None
    assert owner.renewals == 3
    lock.release()
    assert storage.list() == []


class _Object:
    """One object of a store, with conditional writes; `is_silent`: the store writes, and its answers are lost."""

    def __init__(self) -> None:
        self.content, self.version, self.is_silent = b"", 0, False

    def put_if(self, path: str, content: bytes, version: str | None) -> str | None:
        if version != str(self.version):
            return None
        self.content, self.version = content, self.version + 1
        if self.is_silent:
            raise StateError("a file of the state cannot be written", path)
        return str(self.version)

    def read_version(self, path: str) -> ObjectVersion:
        return ObjectVersion(self.content, str(self.version), 0)


def test_a_renewal_of_which_only_the_answer_was_lost_does_not_count_for_the_next_one() -> None:
    """The lease is as old as its last write: one that is found later must not be taken for a new one."""
    stored: Any = _Object()
    lease = S3Lease(stored, "lock", this_process(), "0")
    stored.is_silent = True
    with pytest.raises(StateError):
        lease.renew()
    stored.is_silent = False
    written = stored.version
    lease.renew()
    assert stored.version == written + 1
    lease.renew()
    assert stored.version == written + 2


def test_a_store_that_ignores_conditions_is_refused(storage: S3Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    original = storage._requests.send
    monkeypatch.setattr(storage._requests, "send", lambda method, key, headers=None, body=b"": original(method, key, {}, body))
    with pytest.raises(CheckpointError, match="it ignores the conditions of writes"):
        lock_checkpoint(storage)
    monkeypatch.undo()
    assert storage.list() == []


def test_of_two_runs_one_commits(storage: S3Storage) -> None:
    def commit(number: int) -> bool:
        try:
            storage.write_new("manifests/1", [b"%d" % number])
        except StateError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(commit, range(8)))
    assert won.count(True) == 1
    assert storage.read("manifests/1", mapped=False).to_pybytes() == b"%d" % won.index(True)


def test_a_missing_bucket_is_an_error(s3_server: S3Server) -> None:
    with pytest.raises(StateError, match="NoSuchBucket"):
        lock_checkpoint(S3Storage.open("s3://nowhere/c"))


def test_wrong_credentials_are_an_error(storage: S3Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(StateError, match=r"403 SignatureDoesNotMatch"):
        lock_checkpoint(storage)


@pytest.mark.parametrize("path", ["a b/ü%20#?&=+", "~x/(y)!*'", "...:@$,;"])
def test_odd_names_are_signed_right(storage: S3Storage, path: str) -> None:
    storage.write_new(path, [b"content"])
    assert storage.list("", recursive=True) == [path]
    assert storage.read(path).to_pybytes() == b"content"


def test_where_credentials_come_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(s3_requests, "_by_botocore", lambda: None)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    with pytest.raises(StateError, match="there are no credentials for S3"):
        find_credentials(urlsplit("s3://bucket/c"))
    assert find_credentials(urlsplit("s3://key:s%2Fecret@bucket/c")) == Credentials("key", "s/ecret")
    (tmp_path / "credentials").write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n[other]\naws_access_key_id=c\n")
    assert find_credentials(urlsplit("s3://bucket/c")) == Credentials("a", "b")
    monkeypatch.setenv("AWS_PROFILE", "other")
    with pytest.raises(StateError):
        find_credentials(urlsplit("s3://bucket/c"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "d")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "e")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "f")
    assert find_credentials(urlsplit("s3://bucket/c")) == Credentials("d", "e", "f")
