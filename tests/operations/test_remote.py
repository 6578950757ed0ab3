"""`clash checkpoint verify` and `rollback` of a checkpoint with results on real remote storages."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from tests.servers import HdfsServer, S3Server
from typer.testing import CliRunner, Result

from clash.cli.main import app
from clash.coordinator.control.job import SinkSpec
from clash.errors import CheckpointError
from clash.inprocess.engine import InProcessEngine
from clash.state.checkpoint_lock import lock_checkpoint
from clash.state.storage import Storage, open_storage

from .jobs import INNER, STREAMS, contents, expected, program, tables


class Remote:
    """The job of `jobs`, with checkpoint and results below a location."""

    def __init__(self, location: str) -> None:
        self.checkpoint, self.out = f"{location}/c", f"{location}/out"
        self.files = open_storage(self.checkpoint)

    def start(self) -> InProcessEngine:
        engine = InProcessEngine(STREAMS, {"unused": INNER}, tuning={"relayout_rows": 8})
        job = program(Path("unused"))
        inner, outer = job.queries
        engine.uri = f"{self.checkpoint}/clash"
        engine.job = replace(job, queries=(inner, replace(outer, sink=SinkSpec("parquet", self.out))))
        engine.coordinator = engine._new_coordinator()
        return engine

    def run(self, engine: InProcessEngine, until: int) -> InProcessEngine:
        for batch in range(engine.coordinator.last + 1, until + 1):
            for name, text in (("metadata", '{"id":"0"}'), (f"offsets/{batch}", f'v1\n{{}}\n{{"logOffset":{batch}}}')):
                self.files.write(f"spark/{name}", [text.encode()])
            engine.batch(tables(batch))
            self.files.write(f"spark/commits/{batch}", [b"v1\n{}"])
        return engine


@pytest.fixture(params=["s3", "hdfs"])
def remote(request: pytest.FixtureRequest) -> Remote:
    server: S3Server | HdfsServer = request.getfixturevalue(f"{request.param}_server")
    return Remote(server.location(str(uuid.uuid4())))


def clash(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["checkpoint", *arguments], env={"COLUMNS": "300", "NO_COLOR": "1"})


def copy(storage: Storage) -> dict[str, bytes]:
    return {name: storage.read(name, mapped=False).to_pybytes() for name in storage.list(recursive=True)}


def test_a_job_is_verified_rolled_back_and_goes_on(remote: Remote, tmp_path: Path) -> None:
    engine = remote.run(remote.start(), 2)
    older = copy(remote.files)
    remote.run(engine, 4)
    verified = clash("verify", remote.checkpoint)
    assert verified.exit_code == 0, verified.output
    assert "batch 4" in verified.stdout
    results = ("clash/results/", "clash/late/")
    remote.files.delete(name for name in remote.files.list(recursive=True) if name not in older and not name.startswith(results))
    for name, content in older.items():
        if not name.startswith(results):
            remote.files.write(name, [content])
    with pytest.raises(CheckpointError, match="results of batches after the last one"):
        remote.start()
    refused = clash("verify", remote.checkpoint)
    assert refused.exit_code
    assert "results of batches after the last one" in refused.output
    lock = lock_checkpoint(open_storage(f"{remote.checkpoint}/clash"))
    assert "another run has this checkpoint" in clash("rollback", remote.checkpoint, "--yes").output
    lock.release()
    done = clash("rollback", remote.checkpoint, "--yes")
    assert done.exit_code == 0, done.output
    assert clash("verify", remote.checkpoint).exit_code == 0
    assert contents(remote.run(remote.start(), 4)) == expected(tmp_path / "whole", 4)


def test_a_damaged_file_is_named(remote: Remote) -> None:
    remote.run(remote.start(), 1)
    name = next(name for name in remote.files.list(recursive=True) if name.startswith("clash/state/"))
    remote.files.write(name, [remote.files.read(name, mapped=False).to_pybytes()[:-1]])
    refused = clash("verify", remote.checkpoint)
    assert refused.exit_code
    assert name in refused.output
    remote.files.delete([name])
    assert name in clash("verify", remote.checkpoint).output


def test_a_backup_is_refused(remote: Remote, tmp_path: Path) -> None:
    remote.run(remote.start(), 0)
    before = copy(remote.files)
    refused = clash("backup", remote.checkpoint, str(tmp_path / "backups"))
    assert refused.exit_code == 2, refused.output
    assert "only local" in refused.output
    assert copy(remote.files) == before
    assert not (tmp_path / "backups").exists()
