"""A run that has lost its checkpoint changes nothing any more: neither a commit, nor results, nor the other run's files."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.servers import S3Server

from clash.coordinator.control.folder_owner import ResultFolders
from clash.coordinator.coordinator import Coordinator
from clash.errors import CheckpointError, StateError
from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream
from clash.state.storage import open_storage

STREAMS = [Stream.of(name, {"a": "bigint"}) for name in "RS"]
TEXT = "SELECT R.a FROM R JOIN S ON R.a = S.a"


def rows(*values: int) -> dict[str, pa.Table]:
    return {name: pa.table({"a": pa.array(values, pa.int64())}) for name in "RS"}


def engine(uri: str) -> InProcessEngine:
    return InProcessEngine(STREAMS, {"q": TEXT}, uri=uri, workers=1)


def content(uri: str) -> dict[str, bytes]:
    storage = open_storage(uri)
    return {name: storage.read(name, mapped=False).to_pybytes() for name in storage.list("", recursive=True)}


def results(run: InProcessEngine) -> list[int]:
    return sorted(run.results("q")["a"].to_pylist())


@pytest.mark.parametrize("moment", ["before the batch", "during the batch", "in a batch that fails"])
def test_a_run_that_has_lost_its_checkpoint_leaves_the_other_runs_files(tmp_path: Path, moment: str) -> None:
    uri, found = str(tmp_path / "c"), []
    first = engine(uri)
    first.batch(rows(1))

    def take_over() -> None:
        second = engine(uri)
        second.batch(rows(2))
        found.append((second, content(uri)))

        def fence() -> None:
            raise CheckpointError("this run has lost its checkpoint")

        first.coordinator._fence = fence

    run_tasks = first.run_tasks

    def interrupted(*arguments: Any) -> Any:
        reports = run_tasks(*arguments)
        take_over()
        if moment == "in a batch that fails":
            raise RuntimeError("a worker died")
        return reports

    if moment == "before the batch":
        take_over()
    else:
        first.run_tasks = interrupted  # type: ignore[method-assign]
    with pytest.raises(CheckpointError, match="lost its checkpoint"):
        first.batch(rows(2))
    second, expected = found[0]
    left = content(uri)
    assert {name: left[name] for name in expected} == expected
    second.batch(rows(3))
    second.restart()
    assert results(second) == [1, 2, 3]


def test_a_run_that_stops_between_the_fence_and_its_deletions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run takes over in between, perhaps for hours: what it writes is not taken for leftovers."""
    uri, found = str(tmp_path / "c"), []
    first = engine(uri)
    first.batch(rows(1))

    def fence() -> None:  # the answer is right when it is given
        if is_failing and not found:
            second = engine(uri)
            second.batch(rows(2))
            found.append((second, content(uri)))

    def failing(*_: object) -> Any:
        nonlocal is_failing
        is_failing = True
        raise RuntimeError("a worker died")

    is_failing = False
    monkeypatch.setattr(first.coordinator, "_fence", fence)
    monkeypatch.setattr(first, "run_tasks", failing)
    with pytest.raises(RuntimeError):
        first.batch(rows(2))
    second, expected = found[0]
    assert content(uri) == expected
    second.batch(rows(3))
    second.restart()
    assert results(second) == [1, 2, 3]


@pytest.mark.parametrize("moment", ["while a start reads", "while a batch is planned"])
def test_a_run_that_stops_before_it_writes_its_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """Another run begins generations of the same numbers meanwhile."""
    uri, found = str(tmp_path / "c"), []
    first = engine(uri)
    first.batch(rows(1))
    has_lost = False

    def take_over(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            nonlocal has_lost
            result = original(*arguments)
            if not found:
                found.append(None)
                second = engine(uri)
                second.rescale(3)
                second.batch(rows(2))
                found[0] = second, content(uri)
                has_lost = True
            return result

        return call

    def fence() -> None:
        if has_lost:
            raise CheckpointError("this run has lost its checkpoint")

    if moment == "while a start reads":
        monkeypatch.setattr(ResultFolders, "check_at_start", take_over(ResultFolders.check_at_start))
        with pytest.raises(CheckpointError, match="lost its checkpoint"):
            Coordinator(uri, first.job, fence=fence)
    else:
        monkeypatch.setattr(first.coordinator, "_fence", fence)
        monkeypatch.setattr(first.coordinator, "_next_generation", take_over(first.coordinator._next_generation))
        first.add_query("p", TEXT)
        with pytest.raises(CheckpointError, match="lost its checkpoint"):
            first.batch(rows(2))
    second, expected = found[0]
    left = content(uri)
    assert {name: left[name] for name in expected} == expected
    second.restart()
    second.batch(rows(3))
    assert results(second) == [1, 2, 3]


def test_the_fence_is_asked_before_each_commit(tmp_path: Path) -> None:
    asked = []
    run = engine(str(tmp_path / "c"))
    run.coordinator._fence = lambda: asked.append(run.coordinator.last)
    run.batch(rows(1))
    assert asked == [-1, -1, -1, 0]  # begin, decision, manifest, publication
    assert callable(Coordinator(str(tmp_path / "c"), run.job, fence=lambda: None)._fence)


@pytest.fixture(params=["local", "s3"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "s3":
        request.getfixturevalue("s3_server")
        return f"s3a://bucket/{uuid.uuid4()}/c"
    return str(tmp_path / "c")


def test_a_manifest_is_never_replaced(uri: str) -> None:
    """The fence was asked, then the process slept, and another run committed the batch."""
    first = engine(uri)
    first.batch(rows(1))
    publisher: Callable[..., Any] = first.run_tasks

    def slow(*arguments: Any) -> Any:
        reports = publisher(*arguments)
        engine(uri).batch(rows(2))
        return reports

    first.run_tasks = slow  # type: ignore[method-assign]
    with pytest.raises(StateError, match="written by another run"):
        first.batch(rows(2))
    third = engine(uri)
    third.batch(rows(3))
    assert results(third) == [1, 2, 3]


def test_a_run_on_an_object_store_goes_on_where_it_was(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through kills at each point around the commit; every result once."""
    uri = f"s3a://bucket/{uuid.uuid4()}/c"
    run = engine(uri)
    expected = []
    for number, point in enumerate(["after-record", "round-stored", "round-results", "before-manifest", "after-manifest", "after-publish"]):
        monkeypatch.setenv("CLASH_FAILPOINT", f"{point}!raise")
        last = run.coordinator.last
        with pytest.raises(RuntimeError, match=point):
            run.batch(rows(number))
        monkeypatch.delenv("CLASH_FAILPOINT")
        run.restart()
        if run.coordinator.last == last:
            run.batch(rows(number))
        else:
            run.coordinator.publish(run.coordinator.last)
        expected.append(number)
        assert results(run) == expected


def test_a_store_that_is_lost_in_mid_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch fails with a message, and the next start is exact: whatever was written before the connection broke."""
    server = S3Server(tmp_path)
    server.start()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    uri = "s3a://bucket/c"
    run = engine(uri)
    run.batch(rows(1))
    run_tasks = run.run_tasks

    def stop_after(*arguments: Any) -> Any:
        reports = run_tasks(*arguments)
        server.stop()
        return reports

    def stop_before(*arguments: Any) -> Any:
        server.stop()
        return run_tasks(*arguments)

    for number, interrupted in enumerate([stop_before, stop_after], 2):
        run.run_tasks = interrupted  # type: ignore[method-assign]
        with pytest.raises(StateError) as caught:
            run.batch(rows(number))
        assert "cannot be" in caught.value.what
        assert "bucket/c/" in caught.value.detail
        assert "start again when it answers" in caught.value.hint
        server.start()
        run = engine(uri)
        assert run.coordinator.last == number - 2
        run.batch(rows(number))
        run_tasks = run.run_tasks
    assert results(run) == [1, 2, 3]
    server.stop()
