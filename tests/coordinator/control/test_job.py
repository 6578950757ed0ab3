"""A checkpoint of other streams is refused, and the message says what differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clash.coordinator.control.job import JobSpec, QueryRequest, SinkSpec
from clash.coordinator.coordinator import Coordinator
from clash.errors import CheckpointError, OptionError
from clash.model.stream import Stream

R = Stream.of("R", {"a": "bigint", "b": "string"})
S = Stream.of("S", {"a": "bigint", "c": "double"})
JOB = JobSpec((R, S), (QueryRequest("q", "SELECT R.b, S.c FROM R JOIN S ON R.a = S.a"),), workers=2)


@pytest.mark.parametrize(
    ("changed", "detail"),
    [
        (replace(JOB, streams=(R, Stream.of("S", {"a": "int", "c": "double"}))), "column S.a was bigint, now int, and query q reads it"),
        (replace(JOB, streams=(R, Stream.of("S", {"a": "bigint"}))), "column S.c is missing, and query q reads it"),
        (replace(JOB, streams=(R,)), "stream S is missing"),
        (replace(JOB, strategy="independent"), "strategy was 'global', now 'independent'"),
    ],
)
def test_what_differs_is_named(changed: JobSpec, detail: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    Coordinator(str(tmp_path), JOB)
    with pytest.raises(CheckpointError, match="another job") as error:
        Coordinator(str(tmp_path), changed)
    assert detail in error.value.detail
    assert str(tmp_path) in error.value.detail


def test_layout_of_the_text_does_not_matter(tmp_path) -> None:  # type: ignore[no-untyped-def]
    Coordinator(str(tmp_path), JOB)
    Coordinator(str(tmp_path), replace(JOB, queries=(QueryRequest("q", "SELECT R.b, S.c\n  FROM R JOIN S\n  ON R.a = S.a"),)))


def test_spark_s_checkpoint_and_ours_must_fit(tmp_path) -> None:  # type: ignore[no-untyped-def]
    coordinator = Coordinator(str(tmp_path), JOB)
    with pytest.raises(CheckpointError, match="do not fit") as error:
        coordinator.begin(5, 0, 1)
    assert "batch 5" in error.value.detail


def test_names_and_folders_are_used_once() -> None:
    with pytest.raises(OptionError, match="two queries of one name"):
        replace(JOB, queries=(JOB.queries[0], JOB.queries[0]))
    sink = SinkSpec("parquet", "/out")
    with pytest.raises(OptionError, match="two queries write to one folder"):
        replace(JOB, queries=(replace(JOB.queries[0], sink=sink), replace(JOB.queries[0], name="p", sink=sink)))
    same = SinkSpec("parquet", "file:///x/../out/")
    with pytest.raises(OptionError, match="two queries write to one folder"):
        replace(JOB, queries=(replace(JOB.queries[0], sink=sink), replace(JOB.queries[0], name="p", sink=same)))


def test_folders_have_one_spelling(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "out")
    spelled = [f"{tmp_path}/out", f"{tmp_path}/out/", f"{tmp_path}/x/../out", f"file://{tmp_path}/out", f"{tmp_path}/link"]
    assert {SinkSpec("parquet", path).folder for path in spelled} == {f"{tmp_path}/out"}
    assert SinkSpec("parquet", "s3://bucket/q/").folder == SinkSpec("parquet", "s3://bucket/q").folder == "s3://bucket/q"
    assert SinkSpec("memory").folder is None
