"""One source more over the checkpoint of a plain Spark query: no row is lost or read twice, and batch numbers go on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from clash.errors import CheckpointError
from clash.spark.batch_gate import BatchGate
from clash.spark.offset_log import count_sources, fit_offset_log
from clash.state.storage import open_storage

from .json_files import JsonFiles


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_source_more(spark: Any, files: JsonFiles, version: str) -> None:
    """All batches are committed; T comes from its beginning. Spark refuses the checkpoint as it is, unless it names sources."""
    spark.conf.set("spark.sql.streaming.offsetLog.formatVersion", version)
    try:
        files.run(files.union("RS"))
        df = files.union("RST")
        assert count_sources(df) == 3
        if version == "1":
            with pytest.raises(Exception, match=r"There are \[2\] sources"):
                files.run(df)
        assert fit_offset_log(files.storage, 3) is (version == "1")
        assert not fit_offset_log(files.storage, 3)
        files.put("R", 3)
        files.run(df)
    finally:
        spark.conf.unset("spark.sql.streaming.offsetLog.formatVersion")
    files.check({"R": 4, "S": 3, "T": 3})


def test_a_planned_batch_is_run_as_it_was_planned(files: JsonFiles) -> None:
    """Also if another crash comes between the two entries of the log that Spark reads."""
    files.before = lambda batch: files.gate.close() if batch == 1 else None
    with pytest.raises(Exception, match="not a failure"):
        files.run(files.union("RS"))
    planned = (files.root / "spark" / "offsets" / "2").read_bytes()
    files.put("R", 3)
    fit_offset_log(files.storage, 3)
    patched = (files.root / "spark" / "offsets" / "2").read_bytes()
    assert patched == planned.rstrip(b"\n") + b"\n-"
    (files.root / "spark" / "offsets" / "2").write_bytes(planned)
    assert fit_offset_log(files.storage, 3)
    files.gate = BatchGate()
    files.run(files.union("RST"))
    files.check({"R": 4, "S": 3, "T": 3})
    assert Counter(stream for stream, _ in files.read[2][1]) == {"R": 3, "S": 3}


def test_checksums_and_shared_sources(files: JsonFiles) -> None:
    """Hadoop's own local file system keeps checksums; a second use of a source that is read already starts where that is."""
    r = files.source("R")
    files.run(r)
    for batch in range(3):
        (files.root / "spark" / "offsets" / f".{batch}.crc").touch()
    df = r.union(r.selectExpr("'Q' AS stream", "a"))
    assert count_sources(df) == 2
    assert fit_offset_log(files.storage, 2)
    assert sorted(file.name for file in (files.root / "spark" / "offsets").glob(".*.crc")) == [".0.crc"]
    files.put("R", 3)
    files.run(df)
    found = Counter(stream for _, rows in files.read for stream, _ in rows)
    assert found == {"R": 12, "Q": 3}
    with pytest.raises(CheckpointError, match="more sources") as caught:
        fit_offset_log(files.storage, 1)
    assert caught.value.hint


def test_an_empty_checkpoint_needs_nothing(files: JsonFiles) -> None:
    assert not fit_offset_log(files.storage, 3)
    files.run(files.union("RST"))
    files.check({"R": 3, "S": 3, "T": 3})


def test_what_is_refused_is_not_changed(tmp_path: Path) -> None:
    folder = tmp_path / "offsets"
    folder.mkdir()
    offset = '{"logOffset":0}'
    (folder / "0").write_text("\n".join(["v1", "{}", offset, offset]))
    (folder / "1").write_text("\n".join(["v1", "{}", offset, offset, offset]))
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    with pytest.raises(CheckpointError, match="knows more sources"):
        fit_offset_log(open_storage(str(tmp_path)), 2, is_shared=True)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
