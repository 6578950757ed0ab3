"""State is bounded: containers are merged, expire with their windows, and nothing that no manifest names stays."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream

SECOND = 1_000_000


def table(batch: int, rows: int = 20) -> pa.Table:
    times = [(batch * 10 + at % 10) * SECOND // 10 for at in range(rows)]
    return pa.table({"a": pa.array([at % 7 for at in range(rows)], pa.int64()), "ts": pa.array(times, pa.timestamp("us", "UTC"))})


def streams(lateness: str | None) -> list[Stream]:
    columns = {"a": "bigint", "ts": "timestamp"}
    return [Stream.of(name, columns, time="ts", window="5 seconds", lateness=lateness) for name in "RST"]


QUERY = {"q": "SELECT R.a FROM R JOIN S ON R.a = S.a JOIN T ON S.a = T.a AND T.ts >= S.ts"}


def files(folder: Path) -> int:
    return sum(1 for path in folder.rglob("*") if path.is_file() and "results" not in path.parts)


def test_windows_bound_state_and_files(tmp_path: Path) -> None:
    run = InProcessEngine(streams("1 second"), QUERY, workers=2, uri=str(tmp_path))
    seen = []
    for batch in range(60):
        committed = run.batch({name: table(batch) for name in "RST"})
        seen.append((sum(store["rows"] for store in committed.stores.values()), files(tmp_path)))
    half = max(seen[20:40])
    assert max(rows for rows, _ in seen[40:]) <= 1.5 * half[0]
    assert max(count for _, count in seen[40:]) <= 1.5 * max(count for _, count in seen[20:40])


def test_without_lateness_nothing_expires(tmp_path: Path) -> None:
    run = InProcessEngine(streams(None), QUERY, workers=1, uri=str(tmp_path))
    for batch in range(20):
        committed = run.batch({name: table(batch) for name in "RST"})
    assert all(store["rows"] >= 400 for name, store in committed.stores.items() if name.startswith("s_"))


def test_containers_are_few(tmp_path: Path) -> None:
    plain = [Stream.of(name, {"a": "bigint", "b": "bigint"}) for name in "RS"]
    run = InProcessEngine(plain, {"q": "SELECT R.b FROM R JOIN S ON R.a = S.a"}, workers=1, uri=str(tmp_path))
    for batch in range(64):
        data = pa.table({"a": pa.array(range(batch * 10, batch * 10 + 10), pa.int64()), "b": pa.array(range(10), pa.int64())})
        committed = run.batch({"R": data, "S": data})
        assert all(store["containers"] <= 7 for store in committed.stores.values())
    assert run.results("q").num_rows == 640


def test_leftovers_of_a_killed_attempt_are_swept(tmp_path: Path) -> None:
    run = InProcessEngine(streams("1 second"), QUERY, workers=2, uri=str(tmp_path))
    run.batch({name: table(0) for name in "RST"})
    (tmp_path / "state" / "s_R" / "b000000001-dead-c0-s0-r1-ff.clash").write_bytes(b"half a container")
    staging = tmp_path / "results" / "q" / "_staging"
    staging.mkdir(parents=True, exist_ok=True)
    (staging / f"part-000000001-{run.coordinator.sources.identity}-0000dead-r1-w0-ff-0.parquet").write_bytes(b"half a result")
    run.restart()
    assert not list(tmp_path.rglob("*dead*"))
    run.batch({name: table(1) for name in "RST"})
    assert run.results("q").num_rows > 0
