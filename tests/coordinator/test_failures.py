"""What fails: a batch that was recorded runs again under what it had, unless another program is started that wants something else; a
change that cannot be made leaves everything else as it was."""

from __future__ import annotations

from threading import Event, Thread

import pyarrow as pa
import pytest

import clash.coordinator.checkpoint.generation_log
from clash.coordinator.adaptive.replanner import Offer
from clash.coordinator.control.changes import Change
from clash.coordinator.control.job import JobSpec, QueryRequest
from clash.errors import ClashError, DataError
from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream
from clash.state import failpoints

STREAMS = [Stream.of(name, {"a": "bigint", "v": "bigint"}) for name in "RS"]
GOOD = "SELECT R.a FROM R JOIN S ON R.a = S.a"
BAD = "SELECT R.a, 1 / R.v AS x FROM R JOIN S ON R.a = S.a"
MENDED = "SELECT R.a, CASE WHEN R.v <> 0 THEN 1 / R.v END AS x FROM R JOIN S ON R.a = S.a"


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64()), "v": pa.array([0] * len(values), pa.int64())})


def program(run: InProcessEngine, **queries: str) -> JobSpec:
    return JobSpec(run.job.streams, tuple(QueryRequest(name, text) for name, text in queries.items()), workers=2, epoch=run.job.epoch)


def broken(**added: str) -> InProcessEngine:
    """Batch 1 has failed, for a query that was added while it ran."""
    run = InProcessEngine(STREAMS, {"good": GOOD}, workers=2, epoch=1)
    run.batch({"R": rows(1), "S": rows(2)})
    for name, text in {**added, "bad": BAD}.items():
        run.add_query(name, text)
    fails(run)
    return run


def fails(run: InProcessEngine) -> None:
    with pytest.raises(DataError):
        run.batch({"R": rows(2), "S": rows(1)})


def answers(run: InProcessEngine) -> None:
    run.batch({"R": rows(2), "S": rows(1)})
    run.batch({"R": rows(1)})
    assert sorted(run.results("good")["a"].to_pylist()) == [1, 1, 2]


def test_the_same_program_fails_again() -> None:
    run = broken()
    fails(run)
    run.restart()
    fails(run)
    assert [query.name for query in run.coordinator.generation.setup.queries] == ["good", "bad"]


def test_a_query_is_mended() -> None:
    run = broken()
    run.restart(program(run, good=GOOD, bad=MENDED))
    answers(run)
    assert sorted(run.results("bad").to_pylist(), key=str) == [{"a": 1, "x": None}, {"a": 2, "x": None}]  # R.v was not kept before
    assert [(told["batch"], told["batches"]) for told in run.generations] == [(0, 1), (1, 0), (1, 2)]
    assert run.coordinator.generation.setup.query("bad").batch == 1


def test_a_query_is_listed_and_dropped() -> None:
    run = broken()
    run.restart(program(run, good=GOOD, bad=MENDED))
    run.restart(program(run, good=GOOD))  # before any batch: what is compared with is the program of the last batch on record
    fails(run)
    run.restart(program(run, good=GOOD, bad=MENDED))
    run.batch({"R": rows(2), "S": rows(1)})
    run.restart(program(run, good=GOOD))
    run.batch({"R": rows(1)})
    assert run.coordinator.generation.setup.names == ("good",)
    assert sorted(run.results("good")["a"].to_pylist()) == [1, 1, 2]


def test_what_else_began_with_the_batch_still_does() -> None:
    run = broken(other="SELECT S.a FROM S JOIN R ON R.a = S.a")
    run.rescale(3)  # not on record yet, and lost with the process
    run.restart(program(run, good=GOOD, bad=MENDED))
    answers(run)
    assert sorted(run.results("other")["a"].to_pylist()) == [1, 1, 2]
    assert run.coordinator.generation.setup.query("other").batch == 1
    assert run.coordinator.complete_from("other") == 1
    assert run.coordinator.generation.setup.workers == 2


def test_the_very_first_batch() -> None:
    run = InProcessEngine(STREAMS, {"bad": BAD}, workers=2)
    with pytest.raises(DataError):
        run.batch({"R": rows(2), "S": rows(2)})
    run.restart(program(run, bad=MENDED))
    run.batch({"R": rows(2), "S": rows(2)})
    assert run.results("bad").to_pylist() == [{"a": 2, "x": None}]


@pytest.mark.parametrize("strategy", ["global", "independent"])
@pytest.mark.parametrize("point", ["after-generation", "before-record", "after-record", "before-manifest", "after-manifest"])
def test_it_is_killed_while_it_decides_anew(point: str, strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the new record the old one counts, with all that it names."""
    run = InProcessEngine(STREAMS, {"good": GOOD}, workers=2, epoch=1, strategy=strategy)
    run.batch({"R": rows(1), "S": rows(2)})
    run.add_query("bad", BAD)
    run.add_query("other", GOOD)
    fails(run)
    old, new = run.job, program(run, good=GOOD, bad=MENDED)
    new = JobSpec(new.streams, new.queries, workers=2, epoch=1, strategy=run.job.strategy)
    run.restart(new)
    monkeypatch.setenv("CLASH_FAILPOINT", f"{point}@1!raise")
    failpoints._reached.clear()
    with pytest.raises(RuntimeError, match="fail point"):
        run.batch({"R": rows(2), "S": rows(1)})
    monkeypatch.delenv("CLASH_FAILPOINT")
    if point in ("after-generation", "before-record"):
        run.restart(old)
        fails(run)
    run.restart(new)
    if point != "after-manifest":
        run.batch({"R": rows(2), "S": rows(1)})
    else:
        run.coordinator.publish(1)
    run.batch({"R": rows(1)})
    for name, wanted in {"good": [1, 1, 2], "other": [1, 1, 2], "bad": [1, 2]}.items():
        assert sorted(run.results(name)["a"].to_pylist()) == wanted


def test_a_plan_that_fails_then_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs without the change is not what is on record: the batch fails, and nothing is lost."""
    run = broken()
    run.restart(program(run, good=GOOD, bad=MENDED))
    with monkeypatch.context() as patched:
        patched.setattr("clash.coordinator.coordinator.assign_result_folders", lambda *_: (_ for _ in ()).throw(ClashError("no", "", "")))
        with pytest.raises(ClashError):
            run.batch({"R": rows(2), "S": rows(1)})
    run.restart(program(run, good=GOOD, bad=MENDED))
    answers(run)


def test_changes_that_change_nothing_start_no_generation() -> None:
    run = InProcessEngine(STREAMS, {"good": GOOD}, workers=2, epoch=1)
    run.batch({"R": rows(1)})
    changes = [run.rescale(2), run.add_query("q", GOOD), run.remove_query("q")]
    run.batch({"S": rows(1)})
    assert [change.batch for change in changes] == [1, 1, 1]
    assert len(run.generations) == 1


def _fails(*_: object) -> None:
    raise ValueError("no such luck")


def test_what_is_given_up_does_not_take_streams_along(monkeypatch: pytest.MonkeyPatch) -> None:
    run = InProcessEngine(STREAMS, {"good": GOOD}, workers=2, epoch=1)
    run.batch({"R": rows(1)})
    stream = run.add_stream(Stream.of("T", {"a": "bigint", "v": "bigint"}))
    change = run.rescale(3)
    with monkeypatch.context() as patched:
        patched.setattr("clash.coordinator.coordinator.assign_result_folders", _fails)
        run.batch({"S": rows(1)})
    with pytest.raises(ClashError, match="no such luck"):
        change.wait()
    assert stream.wait() == 1
    added = run.add_query("new", "SELECT T.a FROM S JOIN T ON S.a = T.a")
    run.batch({"T": rows(1)})
    assert added.batch == 2
    assert run.results("new")["a"].to_pylist() == [1]
    assert run.coordinator.generation.setup.workers == 2


def test_an_offer_that_fails_takes_no_change_along(monkeypatch: pytest.MonkeyPatch) -> None:
    run = InProcessEngine(STREAMS, {"good": GOOD}, workers=2, epoch=1)
    run.batch({"R": rows(1)})
    asked: list[Change] = []
    offer = Offer(0, 0, run.coordinator.generation.plan, "better", (2.0, 1.0))

    def meanwhile(*_: object) -> None:
        asked.append(run.rescale(3))
        raise ValueError("no such luck")

    with monkeypatch.context() as patched:
        patched.setattr(run.coordinator.planner, "take", lambda *_: offer)
        patched.setattr("clash.coordinator.coordinator.assign_result_folders", meanwhile)
        run.batch({"S": rows(1)})
    assert asked[0].batch is None
    run.batch({"S": rows(1)})
    assert asked[0].wait() == 2


def test_names_are_known_to_all_or_to_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads looked a name up at once: the second one found what the first had read so far, which was nothing."""
    run = InProcessEngine(STREAMS, {"good": GOOD}, workers=2)
    run.batch({"R": rows(1)})
    run.restart()
    go, read, found = Event(), clash.coordinator.checkpoint.generation_log.read_json, []
    monkeypatch.setattr("clash.coordinator.checkpoint.generation_log.read_json", lambda *asked: (go.wait(60), read(*asked))[1])
    threads = [Thread(target=lambda: found.append(run.coordinator.log.last_of("good"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join()
    assert [one is not None and one[0].name for one in found] == ["good", "good"]
