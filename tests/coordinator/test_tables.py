"""Reference tables on the in-process transport: what they are joined with, and what a start, a kill and a refresh leave."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import clash
from clash.coordinator import inspection, table_files
from clash.coordinator.table_files import MAX_FILES
from clash.errors import CheckpointError, ClashError, OptionError, QueryError, SourceError, StateError
from clash.inprocess.engine import InProcessEngine
from clash.model.layout import ALL, ONE, Layout
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.operations.backup import take_backup
from clash.operations.restore import restore
from clash.operations.verify import verify_checkpoint
from clash.optimizer import validate
from clash.plan.errors import PlanError
from clash.plan.logical import StoreKey
from clash.protocol.tables import FOLDER, paths_of
from clash.state.storage import open_storage

R = Stream.of("R", {"a": "bigint", "v": "bigint"})
S = Stream.of("S", {"a": "bigint", "w": "bigint"})
N = Stream.table("N", {"k": "bigint", "name": "string"})
PAIR = "SELECT R.v, N.name FROM R JOIN N ON R.a = N.k"
CHAIN = "SELECT R.v, S.w, N.name FROM R JOIN S ON R.a = S.a JOIN N ON S.w = N.k"


def rows(**columns: list[int | None]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def names(*pairs: tuple[int | None, str | None]) -> pa.Table:
    return pa.table({"k": pa.array([k for k, _ in pairs], pa.int64()), "name": pa.array([name for _, name in pairs], pa.string())})


def engine(queries: Mapping[str, str], table: pa.Table | None = None, **options: Any) -> InProcessEngine:
    streams = options.pop("streams", (R, S, N))
    return InProcessEngine(streams, queries, tables={"N": names((1, "x")) if table is None else table}, **options)


def results(job: InProcessEngine, query: str = "q") -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in job.results(query).to_pylist())


# ---- what is joined ----------------------------------------------------------------------------------------------


def test_tuples_join_the_version_of_the_batch_in_which_the_last_of_them_arrives() -> None:
    job = engine({"q": CHAIN})
    job.batch({"R": rows(a=[1, 2], v=[10, 20])})
    change = job.refresh("N", names((1, "y"), (2, "z")))
    assert change.batch is None
    job.batch({"S": rows(a=[1, 2], w=[1, 2])})
    assert change.batch == 1
    job.refresh("N", names())
    job.batch({"R": rows(a=[1], v=[11])})
    assert results(job) == {(10, 1, "y"): 1, (20, 2, "z"): 1}  # what was given stays, and what comes now finds nothing


def test_null_keys_match_nothing_and_equal_rows_count_each() -> None:
    job = engine({"q": PAIR}, names((None, "null"), (1, "x"), (1, "x"), (1, None)))
    job.batch({"R": rows(a=[None, 1], v=[0, 10])})
    assert results(job) == {(10, "x"): 2, (10, None): 1}
    job.refresh("N", names((1, "x"), (None, "null"), (None, "null")))
    job.batch({"R": rows(a=[1], v=[11])})
    assert results(job)[11, "x"] == 1


def test_a_table_joins_itself_and_is_crossed() -> None:
    text = "SELECT R.v, x.name AS one, y.name AS two FROM R JOIN N x ON R.a = x.k JOIN N y ON x.k = y.k"
    job = engine({"q": text, "c": "SELECT R.v, N.name FROM R CROSS JOIN N"}, names((1, "x"), (1, "y"), (2, "z")), workers=3)
    job.batch({"R": rows(a=[1], v=[10])})
    assert results(job) == {(10, one, two): 1 for one in "xy" for two in "xy"}
    assert results(job, "c") == {(10, name): 1 for name in "xyz"}


def test_windows_do_not_restrict_rows_of_tables() -> None:
    timed = [Stream.of(s.name, dict(s.columns) | {"ts": "timestamp"}, time="ts", window="1 second", lateness="0 seconds") for s in (R, S)]
    job = engine({"q": CHAIN}, streams=(*timed, N))

    def at(second: int, table: pa.Table) -> pa.Table:
        times = pa.array([second * 1_000_000] * table.num_rows, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
        return table.append_column("ts", times)

    job.batch({"R": at(0, rows(a=[1], v=[1])), "S": at(100, rows(a=[1], w=[1]))})
    job.batch({"R": at(100, rows(a=[1], v=[2]))})
    assert results(job) == {(2, 1, "x"): 1}
    assert not any(store.startswith("N") for store in job.coordinator.manifest.lost_until)


def test_a_stream_that_only_tables_join_is_not_stored() -> None:
    job = engine({"q": PAIR})
    job.batch({"R": rows(a=[1], v=[10])})
    assert not job.coordinator.manifest.containers
    assert results(job) == {(10, "x"): 1}


def test_a_query_that_is_added_is_complete_at_once_as_far_as_tables_go() -> None:
    job = engine({"q": PAIR})
    job.batch({"R": rows(a=[1], v=[10])})
    job.refresh("N", names((1, "new")))
    added = job.add_query("late", "SELECT R.v, N.name, N.k FROM R JOIN N ON R.a = N.k", history=False)
    job.batch({"R": rows(a=[1], v=[11])})
    assert added.complete_from == added.batch == 1
    assert results(job, "late") == {(11, "new", 1): 1}


def test_a_table_can_be_added_while_it_runs() -> None:
    job = engine({"q": PAIR})
    job.batch({"R": rows(a=[1], v=[10])})
    added = job.add_table(Stream.table("M", {"id": "bigint", "text": "string"}), pa.table({"id": [1], "text": ["m"]}))
    assert added.batch == 1
    job.add_query("both", "SELECT R.v, N.name, M.text FROM R JOIN N ON R.a = N.k JOIN M ON M.id = N.k")
    job.batch({"R": rows(a=[1], v=[11])})
    assert results(job, "both") == {(11, "x", "m"): 1}
    with pytest.raises(OptionError, match="there is a table of that name already"):
        job.add_table(N, names())
    job.restart(replace(job.job, streams=(*job.job.streams, Stream.table("M", {"id": "bigint", "text": "string"}))))
    job.batch({"R": rows(a=[1], v=[12])})
    assert results(job, "both") == {(11, "x", "m"): 1, (12, "x", "m"): 1}


@pytest.mark.parametrize("layout", [Layout("hash"), Layout("hash", "k"), ONE, ALL], ids=str)
def test_a_table_under_any_layout(layout: Layout) -> None:
    """A step without a key goes to all workers where the table is partitioned: each of them has other rows."""
    text, table = "SELECT R.v, N.name FROM R CROSS JOIN N", names(*((k if k else None, str(k)) for k in range(20)))
    plan = clash.optimize({"q": text}, streams=[R, S, N], workers=3, mirs=False)
    (order,) = plan.probe_orders
    step = replace(order.steps[0], layout=layout, places=3 if layout.kind == "hash" else 1, stays=False)
    stores = tuple(replace(store, layouts=(layout,)) for store in plan.stores)
    given = replace(plan, probe_orders=(replace(order, steps=(step,)),), stores=stores)
    job = engine({"q": text}, table, workers=3, plan=given)
    for batch in range(6):  # one task may do the work of all workers, or not
        job.batch({"R": rows(a=[1], v=[batch])})
    assert results(job) == {(batch, str(k)): 1 for batch in range(6) for k in range(20)}


@pytest.mark.parametrize("strategy", ["global", "shared", "independent"])
def test_another_plan_and_other_workers_move_no_row(strategy: str) -> None:
    job = engine({"q": CHAIN}, names(*((k, str(k)) for k in range(20))), strategy=strategy, workers=1)
    expected: Counter[tuple[Any, ...]] = Counter()
    for batch, workers in enumerate((1, 3, 2, 5)):
        job.rescale(workers)
        job.batch({"R": rows(a=[batch], v=[batch]), "S": rows(a=[batch], w=[batch])})
        expected[batch, batch, str(batch)] += 1
        files = paths_of(job.coordinator.manifest.tables)
        assert len(files) == 1
    assert results(job) == expected


# ---- files -------------------------------------------------------------------------------------------------------


def files(job: InProcessEngine) -> set[str]:
    return {f"{FOLDER}/{name}" for name in open_storage(job.uri).list(FOLDER, recursive=True)}


def test_a_refresh_writes_what_differs_and_old_files_are_deleted() -> None:
    job = engine({"q": PAIR}, names(*((k, "x") for k in range(100))))
    job.batch({"R": rows(a=[1], v=[10])})
    first = job.coordinator.manifest.tables["N"]
    assert (first.number, first.rows) == (1, 100)
    job.refresh("N", names(*((k, "x") for k in range(100))))  # the same rows
    job.batch({"R": rows(a=[1], v=[11])})
    assert job.coordinator.manifest.tables["N"] == first
    job.refresh("N", names(*((k, "x") for k in range(1, 101))))
    job.batch({"R": rows(a=[0, 100], v=[12, 13])})
    second = job.coordinator.manifest.tables["N"]
    assert [(f.rows, f.removed_rows) for f in second.files] == [(100, 1), (1, 0)]
    for at in range(2 * MAX_FILES):
        job.refresh("N", names(*((k, "x") for k in range(1, 102 + at))))
        job.batch({"R": rows(a=[1], v=[100 + at])})
        assert len(job.coordinator.manifest.tables["N"].files) <= MAX_FILES
        assert files(job) == paths_of(job.coordinator.manifest.tables)
    job.refresh("N", names((1, "alone")))
    job.batch({"R": rows(a=[1], v=[99])})
    assert [f.rows for f in job.coordinator.manifest.tables["N"].files] == [1]
    assert {row for row in results(job) if row[0] >= 12} == {(13, "x"), (99, "alone"), *((100 + at, "x") for at in range(2 * MAX_FILES))}


def test_rows_that_are_removed_stay_removed() -> None:
    job = engine({"q": PAIR}, names(*((k, "x") for k in range(10))))
    for batch in range(4):
        job.refresh("N", names(*((k, "x") for k in range(batch, 10))))
        job.batch({"R": rows(a=[*range(10)], v=[batch] * 10)})
        assert results(job)[batch, "x"] == 10 - batch
    assert [file.removed_rows for file in job.coordinator.manifest.tables["N"].files] == [3]


def test_two_refreshes_between_two_batches_are_one_version_later() -> None:
    job = engine({"q": PAIR})
    job.batch({"R": rows(a=[1], v=[10])})
    changes = [job.refresh("N", names((1, "a"))), job.refresh("N", names((1, "b")))]
    job.batch({"R": rows(a=[1], v=[11])})
    assert [change.batch for change in changes] == [1, 1]
    assert results(job) == {(10, "x"): 1, (11, "b"): 1}
    assert files(job) == paths_of(job.coordinator.manifest.tables)


def test_an_empty_table_has_no_files_and_no_matches() -> None:
    job = engine({"q": PAIR}, names())
    job.batch({"R": rows(a=[1], v=[10])})
    assert not results(job)
    assert not files(job)
    job.refresh("N", names((1, "x")))
    job.batch({"R": rows(a=[1], v=[11])})
    assert results(job) == {(11, "x"): 1}


# ---- starts and kills ------------------------------------------------------------------------------------------


def test_a_start_reads_the_table_again() -> None:
    job = engine({"q": PAIR})
    job.batch({"R": rows(a=[1], v=[10])})
    job.tables["N"] = names((1, "new"))
    job.restart()
    job.batch({"R": rows(a=[1], v=[11])})
    assert results(job) == {(10, "x"): 1, (11, "new"): 1}


@pytest.mark.parametrize(
    ("point", "expected"),
    [("before-record", "new"), ("after-record", "y"), ("round-start", "y"), ("before-manifest", "y"), ("after-manifest", "y")],
)
def test_a_batch_that_is_run_again_joins_the_version_that_was_recorded_for_it(point: str, expected: str) -> None:
    job = engine({"q": PAIR})
    job.batch({"R": rows(a=[1], v=[10])})
    job.refresh("N", names((1, "y")))
    with patch.dict(os.environ, CLASH_FAILPOINT=f"{point}!raise"), pytest.raises(RuntimeError, match="fail point"):
        job.batch({"R": rows(a=[1], v=[11])})
    job.tables["N"] = names((1, "new"))  # it has changed once more when the program starts again
    job.restart()
    if job.coordinator.last < 1:
        job.batch({"R": rows(a=[1], v=[11])})
    job.batch({"R": rows(a=[1], v=[12])})
    assert results(job) == {(10, "x"): 1, (11, expected): 1, (12, "new"): 1}
    assert files(job) == paths_of(job.coordinator.manifest.tables)


def test_files_of_a_refresh_that_was_killed_are_deleted_by_the_next_start() -> None:
    job = engine({"q": PAIR})
    job.batch({"R": rows(a=[1], v=[10])})
    with patch.dict(os.environ, CLASH_FAILPOINT="after-table-files!raise"), pytest.raises(RuntimeError, match="fail point"):
        job.refresh("N", names((1, "y")))
    assert files(job) != paths_of(job.coordinator.manifest.tables)
    job.tables["N"] = names((1, "x"))
    job.restart()
    assert files(job) == paths_of(job.coordinator.manifest.tables)


def test_a_table_that_cannot_be_read_keeps_its_rows(caplog: pytest.LogCaptureFixture) -> None:
    job = engine({"q": PAIR})
    job.batch({"R": rows(a=[1], v=[10])})
    with caplog.at_level(logging.ERROR, "clash"), pytest.raises(SourceError, match="a column of the table is missing"):
        job.refresh("N", names().select(["k"]))
    assert "table N could not be read, and keeps the rows that it has" in caplog.text
    status = job.coordinator.tables.status("N")
    assert status is not None
    assert status.error == "a column of the table is missing: N.name"
    job.batch({"R": rows(a=[1], v=[11])})
    job.restart()  # its read fails, too
    job.batch({"R": rows(a=[1], v=[12])})
    assert results(job) == {(v, "x"): 1 for v in (10, 11, 12)}
    job.refresh("N", names((1, "back")))
    status = job.coordinator.tables.status("N")
    assert status is not None
    assert status.error is None


def test_a_first_start_needs_the_table() -> None:
    with pytest.raises(SourceError, match="a column of the table is missing"):
        engine({"q": PAIR}, names().select(["k"]))


def test_other_columns_are_refused_where_queries_read_them() -> None:
    job = engine({"q": PAIR})
    job.batch({"R": rows(a=[1], v=[10])})
    other = Stream.table("N", {"k": "bigint", "name": "bigint"})
    with pytest.raises(CheckpointError) as refused:
        job.restart(replace(job.job, streams=(R, S, other)))
    assert refused.value.what == "the checkpoint belongs to another job"
    assert "column N.name was string, now bigint, and query q reads it" in refused.value.detail
    assert refused.value.hint
    with pytest.raises(CheckpointError) as refused:
        job.restart(replace(job.job, streams=(R, S, Stream.of("N", {"k": "bigint", "name": "string"}))))
    assert "N was a table, now a stream, and query q reads it" in refused.value.detail
    with pytest.raises(CheckpointError, match="the checkpoint belongs to another job") as refused:
        job.restart(replace(job.job, streams=(R, S)))
    assert "table N is missing" in refused.value.detail


def test_columns_that_no_query_reads_may_come_and_go() -> None:
    job = engine({"q": PAIR})
    job.batch({"R": rows(a=[1], v=[10])})
    wider = Stream.table("N", {"more": "double", "k": "bigint", "name": "string"})
    job.tables["N"] = names((1, "y")).append_column("more", pa.array([0.5]))
    job.restart(replace(job.job, streams=(R, S, wider)))
    job.add_query("more", "SELECT R.v, N.more FROM R JOIN N ON R.a = N.k")
    job.batch({"R": rows(a=[1], v=[11])})
    assert results(job) == {(10, "x"): 1, (11, "y"): 1}
    assert results(job, "more") == {(11, 0.5): 1}
    job.remove_query("more")
    job.batch({})
    job.tables["N"] = names((1, "z"))
    job.restart(replace(job.job, streams=(R, S, N)))
    job.batch({"R": rows(a=[1], v=[12])})
    assert results(job)[12, "z"] == 1


def test_a_start_that_needs_a_column_which_cannot_be_read_is_refused() -> None:
    job = engine({"q": PAIR})
    job.batch({"R": rows(a=[1], v=[10])})
    wider = Stream.table("N", {"k": "bigint", "name": "string", "more": "double"})
    with pytest.raises(CheckpointError) as refused:  # the rows that it reads lack the column
        job.restart(replace(job.job, streams=(R, S, wider)))
    assert refused.value.what == "a table has other columns than its last version"
    assert refused.value.hint == "start again when it can be read"


def test_a_table_that_is_no_longer_declared_is_forgotten() -> None:
    job = engine({"q": PAIR, "r": "SELECT R.v, S.w FROM R JOIN S ON R.a = S.a"})
    job.batch({"R": rows(a=[1], v=[10])})
    job.remove_query("q")
    job.batch({})
    del job.tables["N"]
    job.restart(replace(job.job, streams=(R, S), queries=job.job.queries[1:]))
    job.batch({})
    assert not job.coordinator.manifest.tables
    assert not files(job)


def test_damage_to_a_file_of_a_table_is_found_at_a_start(tmp_path: Path) -> None:
    job = engine({"q": PAIR}, uri=str(tmp_path))
    job.batch({"R": rows(a=[1], v=[10])})
    file = next((tmp_path / FOLDER / "N").iterdir())
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1
    file.write_bytes(content)
    with pytest.raises(StateError, match="a container is corrupt"):
        job.restart()
    file.unlink()
    with pytest.raises(StateError):
        job.restart()


def test_backup_verify_and_restore(tmp_path: Path) -> None:
    place = tmp_path / "checkpoint"
    job = engine({"q": PAIR}, uri=str(place / "clash"))
    job.batch({"R": rows(a=[1], v=[10])})
    job.refresh("N", names((1, "x"), (2, "y")))
    job.batch({"R": rows(a=[2], v=[11])})
    for path, text in (("metadata", '{"id":"0"}'), ("offsets/1", "v1\n{}\n-"), ("commits/1", "v1\n{}")):
        (place / "spark" / path).parent.mkdir(parents=True, exist_ok=True)
        (place / "spark" / path).write_text(text)
    verified = verify_checkpoint(str(place))
    snapshot, _ = take_backup(str(place), tmp_path / "backups", "0")
    job.refresh("N", names((2, "z")))
    job.batch({"R": rows(a=[2], v=[12])})
    job.coordinator.close()
    restore(snapshot, replaces=True)
    assert verify_checkpoint(str(place)).batch == verified.batch == 1
    job.restart()
    job.batch({"R": rows(a=[2], v=[13])})
    assert results(job) == {(10, "x"): 1, (11, "y"): 1, (13, "z"): 1}


def test_a_checkpoint_without_tables_is_written_as_before() -> None:
    job = InProcessEngine([R, S], {"q": "SELECT R.v, S.w FROM R JOIN S ON R.a = S.a"})
    job.batch({"R": rows(a=[1], v=[10])})
    storage = open_storage(job.uri)
    texts = [bytes(storage.read(f"{folder}/{name}")) for folder in ("manifests", "batches") for name in storage.list(folder)]
    assert texts
    assert not any(b"tables" in text for text in texts)


# ---- what is refused -------------------------------------------------------------------------------------------


def refused(call: Callable[[], object], kind: type[ClashError]) -> ClashError:
    with pytest.raises(kind) as error:
        call()
    assert error.value.what == error.value.what.lower() or error.value.what[0].islower()
    assert error.value.hint
    return error.value


def test_a_query_of_tables_alone_is_refused() -> None:
    error = refused(lambda: engine({"q": "SELECT x.k FROM N x JOIN N y ON x.k = y.k"}), QueryError)
    assert error.what == "the query reads no stream"


def test_a_window_of_a_table_is_refused() -> None:
    error = refused(lambda: engine({"q": PAIR}, windows={"q": {"N": "5 seconds"}}), QueryError)
    assert error.what == "a window for a table"
    job = engine({"q": PAIR})
    error = refused(lambda: job.change_stream("N", window="5 seconds"), OptionError)
    assert error.what == "a table has no such options"


def test_unknown_tables_are_refused() -> None:
    job = engine({"q": PAIR})
    for name in ("M", "R", 5):
        assert refused(lambda name=name: job.refresh(name, names()), OptionError).what == "unknown table"  # type: ignore[misc]


def test_a_table_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "MAX_ROWS", 3)
    error = refused(lambda: engine({"q": PAIR}, names(*((k, "x") for k in range(4)))), SourceError)
    assert error.what == "the table is too large"


def test_a_plan_with_an_intermediate_result_of_a_table_is_refused() -> None:
    streams = [R, S, N]
    plan = clash.optimize({"q": CHAIN}, Statistics(), streams=streams, workers=2, mirs=False)
    join = plan.queries[0].join.sub([r for r in plan.queries[0].join.relations if r.stream != "R"])
    fed = replace(plan.probe_orders[0], feeds=StoreKey(None, join), queries=())
    with pytest.raises(PlanError, match="an intermediate result with a table"):
        validate(replace(plan, probe_orders=(*plan.probe_orders, fed)))


# ---- planning --------------------------------------------------------------------------------------------------


def test_the_planner_knows_sizes_and_values_of_tables() -> None:
    job = engine({"q": PAIR}, names(*((k % 5, "x") for k in range(50))))
    statistics = job.coordinator.planning_statistics()
    assert statistics is not None
    assert statistics.rate("N") == 50
    assert statistics.equality("R.a", "N.k") == 1 / 5
    small = clash.optimize({"q": PAIR}, Statistics(rates={"N": 5, "R": 1e6}), streams=[R, S, N], workers=4)
    large = clash.optimize({"q": PAIR}, Statistics(rates={"N": 1e9, "R": 10}), streams=[R, S, N], workers=4)
    layouts = {size: str(plan.stores[0].layouts[0]) for size, plan in (("small", small), ("large", large))}
    assert layouts["large"] == "k"
    assert {store.key.stream for store in small.stores} == {"N"}
    assert all(order.origin.stream == "R" for order in (*small.probe_orders, *large.probe_orders))


def test_rows_of_tables_are_counted_as_those_of_streams() -> None:
    table = names(*((k % 4, "x" if k < 30 else "y") for k in range(40)))
    job = engine({"q": f"{CHAIN} WHERE N.name = 'y'"}, table)
    for batch in range(2):
        job.batch({"R": rows(a=[*range(8)] * 5, v=[batch] * 40), "S": rows(a=[*range(8)], w=[k % 4 for k in range(8)])})
    seen = inspection.statistics(job.coordinator)
    assert seen is not None
    assert seen.rate("N") == 40
    assert seen.equality("S.w", "N.k") == pytest.approx(1 / 4, rel=0.2)
    assert seen.selectivities["=(N.name, 'y')"] == pytest.approx(1 / 4, rel=0.2)
    assert {"R", "S"} in [{part.split(".")[0] for text in key for part in text.split(" = ")} for key in seen.sizes]
    job.refresh("N", names())
    job.batch({"R": rows(a=[1], v=[5])})
    assert inspection.statistics(job.coordinator) is not None


def test_explain_shows_tables() -> None:
    plan = clash.optimize({"q": CHAIN}, streams=[R, S, N], workers=2)
    text = plan.explain()
    assert "over 2 streams and 1 table on 2 workers" in text
    assert "\nTABLES" in text
    assert '"table": true' in plan.explain("json")
