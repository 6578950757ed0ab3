"""Backups of a job that runs on Spark, and plain copies of it: what is put back goes on exactly, or is refused."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from clash.operations.backup import take_backup
from clash.operations.restore import restore
from clash.operations.verify import verify_checkpoint, verify_snapshot

from . import shapes
from .process import Process, Reader, running

FILES = 8


def goes_on(root: Path, process: Process) -> dict[str, Any] | None:
    """Exactly to the end; or the refusal."""
    answer = process.play()
    assert answer is not None, process.log()
    if answer["error"] is None:
        reader = Reader(root, FILES)
        assert all(max(batches) <= reader.last() for batches in reader.expected.batches.values()), "not all files are read"
        reader.check_all(reader.last())
    return answer["error"]  # type: ignore[no-any-return]


def test_snapshots_and_copies_of_a_running_job(tmp_path: Path) -> None:
    shapes.write(tmp_path / "in", range(FILES))
    reader = Reader(tmp_path, FILES)
    taken, copies = [], []
    with running(tmp_path) as process:
        process.ask()
        while reader.last() < 0:
            time.sleep(0.01)
        while reader.last() < FILES - 3:
            taken.append(take_backup(str(tmp_path / "ck"), tmp_path / "backups", "0")[0])
            while reader.last() == taken[-1].record.batch:
                time.sleep(0.01)
            if len(copies) < 2:
                copies.append(tmp_path / f"copy{len(copies)}")
                copies[-1].mkdir()
                for folder in ("ck", "out") if len(copies) % 2 else ("out", "ck"):
                    subprocess.run(["cp", "-r", folder, copies[-1] / folder], cwd=tmp_path, check=False, capture_output=True)
        reader.check_end(process.answer())
        verify_checkpoint(str(tmp_path / "ck"))
        assert len({snapshot.record.batch for snapshot in taken}) > 1
        for snapshot in taken:
            verify_snapshot(snapshot)
        for snapshot in (taken[0], taken[-1]):
            restore(snapshot, replaces=True)
            assert Reader(tmp_path, FILES).last() == snapshot.record.batch
            assert goes_on(tmp_path, process) is None
        for copy in copies:
            for folder in ("ck", "out"):
                shutil.rmtree(tmp_path / folder)
                (copy / folder).rename(tmp_path / folder)
            refused = goes_on(tmp_path, process)
            if refused is not None:
                assert refused["kind"] in ("CheckpointError", "StateError"), refused
                assert str(tmp_path) in refused["detail"], refused
                assert refused["hint"], refused
