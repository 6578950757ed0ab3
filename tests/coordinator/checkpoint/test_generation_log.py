"""The generations of a checkpoint: which query had a name last."""

from __future__ import annotations

from dataclasses import replace
from threading import Event, Thread

import pyarrow as pa
import pytest

from clash.coordinator.checkpoint import generation_log
from clash.coordinator.control.setup import LiveQuery
from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream

STREAMS = [Stream.of(name, {"a": "bigint"}) for name in "RS"]
QUERY = "SELECT R.a FROM R JOIN S ON R.a = S.a"


def test_a_number_that_no_batch_ran_under_is_used_again() -> None:
    """A batch that failed left a generation with both queries; when it runs again, the generation of that number has one."""
    run = InProcessEngine(STREAMS, {"q": QUERY, "r": QUERY})
    first, log = run.coordinator.generation, run.coordinator.log
    assert log.last_query("q") is not None
    log.write(replace(first, number=1, batch=1))
    log.write(replace(first, number=1, batch=1, setup=first.setup.remove_query("q")))
    last = log.last_query("q")
    assert last is not None
    assert last.name == last.query.name == "q"


def test_concurrent_lookups_of_a_name_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads once looked up a name at the same time: the second one found what the first had read so far, which was nothing."""
    run = InProcessEngine(STREAMS, {"q": QUERY}, workers=2)
    run.batch({"R": pa.table({"a": pa.array([1], pa.int64())})})
    run.restart()
    go, read = Event(), generation_log.read_json
    found: list[LiveQuery | None] = []
    monkeypatch.setattr(generation_log, "read_json", lambda *args: (go.wait(60), read(*args))[1])
    threads = [Thread(target=lambda: found.append(run.coordinator.log.last_query("q"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join()
    assert [query is not None and query.name for query in found] == ["q", "q"]


def test_a_query_whose_only_batch_was_decided_again_without_it_never_had_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by a random history: results were read from the empty folder of a query that no batch ran under."""
    table = {name: pa.table({"a": pa.array([1], pa.int64())}) for name in "RS"}
    run = InProcessEngine(STREAMS, {"q": QUERY})
    run.batch(table)
    replaced = replace(run.job, queries=(replace(run.job.queries[0], text="SELECT R.a AS other, S.a AS more FROM R JOIN S ON R.a = S.a"),))
    run.restart(replaced)
    monkeypatch.setenv("CLASH_FAILPOINT", "before-manifest!raise")
    with pytest.raises(RuntimeError):
        run.batch(table)
    monkeypatch.delenv("CLASH_FAILPOINT")
    run.restart(replace(run.job, queries=()))
    run.batch({})
    run.restart()
    assert run.results("q").to_pylist() == [{"a": 1}]
