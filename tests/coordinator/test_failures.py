"""Failures: a batch that was decided runs again under its decision, unless another program is started that requests something else; a
change that cannot be made leaves everything else as it was."""

from __future__ import annotations

import pyarrow as pa
import pytest

from clash.coordinator.adaptive.offers import Offer
from clash.coordinator.adaptive.payback import Payback
from clash.coordinator.control.changes import Change
from clash.coordinator.control.job import JobSpec, QueryRequest
from clash.errors import ClashError, DataError
from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream
from clash.state import failpoints

STREAMS = [Stream.of(name, {"a": "bigint", "v": "bigint"}) for name in "RS"]
GOOD = "SELECT R.a FROM R JOIN S ON R.a = S.a"
BAD = "SELECT R.a, 1 / R.v AS x FROM R JOIN S ON R.a = S.a"
CORRECTED = "SELECT R.a, CASE WHEN R.v <> 0 THEN 1 / R.v END AS x FROM R JOIN S ON R.a = S.a"


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


def test_a_query_is_corrected() -> None:
    run = broken()
    run.restart(program(run, good=GOOD, bad=CORRECTED))
    answers(run)
    assert sorted(run.results("bad").to_pylist(), key=str) == [{"a": 1, "x": None}, {"a": 2, "x": None}]  # R.v was not retained before
    assert [(outline["batch"], outline["batches"]) for outline in run.generations] == [(0, 1), (1, 0), (1, 2)]
    assert run.coordinator.generation.setup.query("bad").batch == 1


def test_a_query_is_listed_and_dropped() -> None:
    run = broken()
    run.restart(program(run, good=GOOD, bad=CORRECTED))
    run.restart(program(run, good=GOOD))  # before any batch: it is compared with the program of the last decided batch
    fails(run)
    run.restart(program(run, good=GOOD, bad=CORRECTED))
    run.batch({"R": rows(2), "S": rows(1)})
    run.restart(program(run, good=GOOD))
    run.batch({"R": rows(1)})
    assert run.coordinator.generation.setup.query_names == ("good",)
    assert sorted(run.results("good")["a"].to_pylist()) == [1, 1, 2]


def test_other_changes_of_the_batch_still_take_effect() -> None:
    run = broken(other="SELECT S.a FROM S JOIN R ON R.a = S.a")
    run.rescale(3)  # not recorded yet, and lost with the process
    run.restart(program(run, good=GOOD, bad=CORRECTED))
    answers(run)
    assert sorted(run.results("other")["a"].to_pylist()) == [1, 1, 2]
    assert run.coordinator.generation.setup.query("other").batch == 1
    assert run.coordinator.manifest.complete_from.get("other") == 1
    assert run.coordinator.generation.setup.workers == 2


def test_the_very_first_batch() -> None:
    run = InProcessEngine(STREAMS, {"bad": BAD}, workers=2)
    with pytest.raises(DataError):
        run.batch({"R": rows(2), "S": rows(2)})
    run.restart(program(run, bad=CORRECTED))
    run.batch({"R": rows(2), "S": rows(2)})
    assert run.results("bad").to_pylist() == [{"a": 2, "x": None}]


@pytest.mark.parametrize("strategy", ["global", "independent"])
@pytest.mark.parametrize("point", ["after-generation", "before-record", "after-record", "before-manifest", "after-manifest"])
def test_a_kill_while_a_batch_is_decided_again(point: str, strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old decision counts, with everything that it refers to, until the new one is written."""
    run = InProcessEngine(STREAMS, {"good": GOOD}, workers=2, epoch=1, strategy=strategy)
    run.batch({"R": rows(1), "S": rows(2)})
    run.add_query("bad", BAD)
    run.add_query("other", GOOD)
    fails(run)
    old, new = run.job, program(run, good=GOOD, bad=CORRECTED)
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
    for name, expected in {"good": [1, 1, 2], "other": [1, 1, 2], "bad": [1, 2]}.items():
        assert sorted(run.results(name)["a"].to_pylist()) == expected


def test_a_plan_that_fails_then_fails_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would run without the change is not what the decision on disk says: the batch fails, and nothing is lost."""
    run = broken()
    run.restart(program(run, good=GOOD, bad=CORRECTED))
    with monkeypatch.context() as patched:
        patched.setattr("clash.coordinator.coordinator.assign_result_folders", lambda *_: (_ for _ in ()).throw(ClashError("no", "", "")))
        with pytest.raises(ClashError):
            run.batch({"R": rows(2), "S": rows(1)})
    run.restart(program(run, good=GOOD, bad=CORRECTED))
    answers(run)


def test_changes_that_change_nothing_start_no_generation() -> None:
    run = InProcessEngine(STREAMS, {"good": GOOD}, workers=2, epoch=1)
    run.batch({"R": rows(1)})
    changes = [run.rescale(2), run.add_query("q", GOOD), run.remove_query("q")]
    run.batch({"S": rows(1)})
    assert [change.batch for change in changes] == [1, 1, 1]
    assert len(run.generations) == 1


def _fails(*_: object) -> None:
    raise ValueError("planning failed")


def test_a_refused_change_does_not_revoke_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    run = InProcessEngine(STREAMS, {"good": GOOD}, workers=2, epoch=1)
    run.batch({"R": rows(1)})
    stream = run.add_stream(Stream.of("T", {"a": "bigint", "v": "bigint"}))
    change = run.rescale(3)
    with monkeypatch.context() as patched:
        patched.setattr("clash.coordinator.coordinator.assign_result_folders", _fails)
        run.batch({"S": rows(1)})
    with pytest.raises(ClashError, match="planning failed"):
        change.wait()
    assert stream.wait() == 1
    added = run.add_query("new", "SELECT T.a FROM S JOIN T ON S.a = T.a")
    run.batch({"T": rows(1)})
    assert added.batch == 2
    assert run.results("new")["a"].to_pylist() == [1]
    assert run.coordinator.generation.setup.workers == 2


def test_an_offer_that_fails_does_not_refuse_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    run = InProcessEngine(STREAMS, {"good": GOOD}, workers=2, epoch=1)
    run.batch({"R": rows(1)})
    requested: list[Change] = []
    offer = Offer(0, 0, run.coordinator.generation.plan, "better", Payback(old=2.0, new=1.0, transition=0.0, horizon=1.0))

    def meanwhile(*_: object) -> None:
        requested.append(run.rescale(3))
        raise ValueError("planning failed")

    with monkeypatch.context() as patched:
        patched.setattr(run.coordinator.replanner.offers, "take", lambda *_: offer)
        patched.setattr("clash.coordinator.coordinator.assign_result_folders", meanwhile)
        run.batch({"S": rows(1)})
    assert requested[0].batch is None
    run.batch({"S": rows(1)})
    assert requested[0].wait() == 2


@pytest.mark.parametrize("restarted", [False, True])
def test_a_committed_batch_is_published_again_after_the_next_was_decided(restarted: bool) -> None:
    """Spark may lose its own record of a commit, as in a power failure. It then repeats the batch, and the next decision stands."""
    run = InProcessEngine(STREAMS, {"good": GOOD}, workers=2, epoch=1)
    run.batch({"R": rows(1), "S": rows(1)})
    added = run.add_query("other", GOOD)
    assert run.coordinator.begin(1, 0, run.partitions) is not None
    if restarted:
        run.restart()
    assert run.coordinator.begin(0, 0, run.partitions) is None
    assert run.coordinator.publish(0).counts == {"good": 1}
    with pytest.raises(AssertionError, match="not the last one committed"):
        run.coordinator.publish(1)
    run.batch({"R": rows(1)})
    assert added.batch == run.coordinator.generation.batch == 1
    assert run.results("good")["a"].to_pylist() == [1, 1]
    assert run.results("other")["a"].to_pylist() == [1]
