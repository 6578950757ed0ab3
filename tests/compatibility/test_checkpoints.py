"""Checkpoints of this and of earlier versions are read, and a run continues with them exactly."""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from clash.coordinator.checkpoint.source_registry import FORMAT
from clash.errors import CheckpointError
from clash.operations.backup import take_backup
from clash.operations.restore import restore
from clash.operations.verify import verify_checkpoint

from .sample import FAILED, FOLDER, LAST, engine, expected, tables

SAMPLES = sorted(FOLDER.glob("format-*.tar.gz"))


def unpacked(sample: Path, folder: Path) -> str:
    with tarfile.open(sample) as archive:
        archive.extractall(folder, filter="data")
    return str(folder / "checkpoint")


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_a_run_continues_with_a_checkpoint_of_an_earlier_version(sample: Path, tmp_path: Path) -> None:
    running = engine(uri := unpacked(sample, tmp_path))
    assert running.coordinator.last == FAILED - 1
    assert all('{"crc32":' in path.read_text() for path in Path(uri).rglob("*.json") if path.parent.name != "plans")
    running.restart()
    for batch in range(FAILED, LAST + 1):
        running.batch(tables(batch))
    for query in ("chain", "pair"):
        assert Counter(tuple(row.values()) for row in running.results(query).to_pylist()) == expected(query)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_a_backup_before_an_upgrade_is_restored_after_it(sample: Path, tmp_path: Path) -> None:
    unpacked(sample, tmp_path / "unpacked")
    place = tmp_path / "checkpoint"
    for path, text in (("metadata", '{"id":"0"}'), (f"offsets/{FAILED - 1}", "v1\n{}\n-"), (f"commits/{FAILED - 1}", "v1\n{}")):
        (place / "spark" / path).parent.mkdir(parents=True, exist_ok=True)
        (place / "spark" / path).write_text(text)
    (tmp_path / "unpacked" / "checkpoint").rename(place / "clash")
    record = (place / "clash" / "job.json").read_bytes()
    snapshot, _ = take_backup(str(place), tmp_path / "backups", "0")
    engine(str(place / "clash")).batch(tables(FAILED))
    restore(snapshot, replaces=True)
    assert (place / "clash" / "job.json").read_bytes() == record
    assert verify_checkpoint(str(place)).batch == FAILED - 1
    running = engine(str(place / "clash"))
    for batch in range(FAILED, LAST + 1):
        running.batch(tables(batch))
    for query in ("chain", "pair"):
        assert Counter(tuple(row.values()) for row in running.results(query).to_pylist()) == expected(query)


def test_there_is_a_sample_of_todays_format() -> None:
    """A change of format comes with a sample (`python -m tests.compatibility.sample`) and with a migration of the one before."""
    assert FOLDER / f"format-{FORMAT}.tar.gz" in SAMPLES


def test_a_format_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    uri = unpacked(SAMPLES[-1], tmp_path)
    record = Path(uri) / "job.json"
    record.write_text(json.dumps({**json.loads(record.read_text().splitlines()[0]), "format": 5}) + "\n")
    with pytest.raises(CheckpointError) as refused:
        engine(uri)
    assert "written by another version" in refused.value.what
    assert f"has format 5, this version reads 6 to {FORMAT}" in refused.value.detail
