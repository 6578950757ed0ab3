"""A program that starts again: what it has changed takes effect, and what calls changed at run time stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clash.coordinator.control.job import JobSpec, QueryRequest, SinkSpec
from clash.coordinator.coordinator import Coordinator
from clash.errors import CheckpointError
from clash.model.stream import Stream

from ..matching import RS, RST, ST, STREAMS, engine, tables


def job(*queries: tuple[str, str], workers: int = 2, streams: list[Stream] = STREAMS) -> JobSpec:
    return JobSpec(tuple(streams), tuple(QueryRequest(name, text) for name, text in queries), workers, epoch=1, adaptive=False)


def test_a_changed_program_is_adding_and_removing() -> None:
    run = engine({"q": RS, "p": ST})
    run.batch(tables(0))
    run.restart(job(("q", RS), ("r", RST)))
    run.batch(tables(1))
    assert run.coordinator.generation.setup.query_names == ("q", "r")
    assert run.coordinator.generation.reason == "query p removed; query r added"
    assert run.results("q").num_rows == 64
    assert run.results("r").num_rows == 8**3 - 4**3


def test_a_program_may_list_no_query_of_its_own() -> None:
    run = engine({"q": RS})
    run.batch(tables(0))
    run.add_query("p", ST)
    run.batch(tables(1))
    run.restart(job())
    run.batch(tables(2))
    assert run.coordinator.generation.setup.query_names == ("p",)
    assert run.results("p").num_rows == 12 * 8  # of T, nothing was retained before
    run.restart(job())
    run.batch(tables(3))
    assert run.results("p").num_rows == 16 * 12


def test_what_was_changed_at_run_time_stays() -> None:
    run = engine({"q": RS, "p": ST})
    run.batch(tables(0))
    run.remove_query("p")
    run.add_query("r", RST)
    run.rescale(3)
    run.batch(tables(1))
    run.restart()
    run.batch(tables(2))
    assert run.coordinator.generation.setup.query_names == ("q", "r")
    assert run.coordinator.loaded_plan.topology.workers == 3
    assert len(run.generations) == 2
    run.restart(job(("q", RS), ("p", ST), ("r", RST), workers=2))  # r is live already under the same text
    run.batch(tables(3))
    assert run.coordinator.generation.setup.query("r").batch == 1
    run.restart(job(("q", RS), workers=1))  # now the program itself has dropped p and r, and wants one worker
    run.batch(tables(4))
    assert run.coordinator.generation.setup.query_names == ("q",)
    assert run.coordinator.loaded_plan.topology.workers == 1
    assert run.results("q").num_rows == 400


def test_a_program_killed_before_its_first_batch_has_changed_nothing() -> None:
    run = engine({"q": RS})
    run.batch(tables(0))
    run.restart(job(("q", RS), ("p", ST)))
    run.restart(job(("q", RS)))
    run.batch(tables(1))
    assert run.coordinator.generation.setup.query_names == ("q",)
    run.restart(job(("q", RS), ("p", ST)))
    run.restart(job(("q", RS), ("p", ST)))
    run.batch(tables(2))
    assert run.coordinator.generation.setup.query_names == ("q", "p")


def test_streams_may_be_new_or_go_unread(tmp_path: Path) -> None:
    run = engine({"q": RS}, streams=STREAMS[:2], uri=str(tmp_path))
    run.batch(tables(0, "RS"))
    assert run.coordinator.sources.order == ("R", "S")
    run.restart(job(("q", RS), ("r", RST)))
    assert run.coordinator.sources.order == ("R", "S", "T")
    run.batch(tables(1))
    assert run.results("r").num_rows == 8 * 8 * 4
    with pytest.raises(CheckpointError, match="another job") as error:
        run.restart(job(("q", RS), streams=STREAMS[:1]))
    assert "stream S is missing" in error.value.detail


def test_a_stream_at_run_time() -> None:
    run = engine({"q": RS}, streams=STREAMS[:2])
    run.batch(tables(0, "RS"))
    run.add_stream(STREAMS[2])
    change = run.add_query("r", RST)
    assert run.coordinator.sources.order == ("R", "S", "T")
    run.batch(tables(1))
    assert change.batch == 1
    assert run.results("r").num_rows == 8 * 8 * 4
    with pytest.raises(CheckpointError):
        run.restart()  # the program does not declare it


def test_another_sink_is_the_same_query(tmp_path: Path) -> None:
    first = job(("q", RS))
    Coordinator(str(tmp_path / "checkpoint"), first)
    moved = replace(first, queries=(replace(first.queries[0], sink=SinkSpec("parquet", str(tmp_path / "out"))),))
    coordinator = Coordinator(str(tmp_path / "checkpoint"), moved)
    assert coordinator.begin(0, 0, 1) is not None
    assert coordinator.generation.reason == "query q writes elsewhere"
    assert coordinator.generation.setup.query("q").batch == 0
