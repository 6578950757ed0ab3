"""State stays bounded: once windows have passed, what a store holds and the number of files no longer grow with the number of batches."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from random import Random

import pyarrow as pa
import pytest

from clash.coordinator.committed_batch import CommittedBatch
from clash.inprocess.engine import InProcessEngine
from clash.model.statistics import Statistics
from clash.model.stream import Stream

from .case import table
from .schemas import START

_ROWS = 4  # per stream and batch
_STREAMS = ("R", "S", "T")
_QUERIES = {
    "chain": "SELECT R.v AS r, S.v AS s, T.v AS t FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b",
    "pair": "SELECT R.v AS r, S.v AS s FROM R JOIN S ON R.a = S.a WHERE R.v > 2",
    "self": "SELECT x.v AS x, y.v AS y FROM T x JOIN T y ON x.b = y.b AND x.ts <= y.ts + INTERVAL 1 SECOND",
}


def _streams(**options: str) -> list[Stream]:
    kinds = {"a": "int", "b": "string", "v": "int", "ts": "timestamp"}
    return [Stream.of(name, kinds, time="ts", **{"window": "2 seconds", "lateness": "1 second", **options}) for name in _STREAMS]  # type: ignore[arg-type]


def _tables(rng: Random, streams: list[Stream], second: float) -> Mapping[str, pa.Table]:
    def row() -> tuple[object, ...]:
        return (rng.randrange(4), f"b{rng.randrange(4)}", rng.randrange(9), START + timedelta(seconds=second + rng.random() / 2 - 0.5))

    return {stream.name: table(stream, [row() for _ in range(_ROWS)]) for stream in streams}


def _run(engine: InProcessEngine, streams: list[Stream], batches: int, pace: float) -> list[CommittedBatch]:
    rng = Random(1)
    return [engine.batch(_tables(rng, streams, at * pace), at * 100_000) for at in range(batches)]


def _files(engine: InProcessEngine) -> set[str]:
    return set(engine.coordinator.storage.list("", recursive=True))


def _most(done: list[CommittedBatch], what: str) -> dict[str, int]:
    stores = {store for committed in done for store in committed.stores}
    return {store: max(committed.stores.get(store, {}).get(what, 0) for committed in done) for store in stores}


@pytest.mark.parametrize(
    ("workers", "strategy", "layouts", "rate", "batches"),
    [(1, "global", "one", 1e5, 200), (2, "global", "one", 10.0, 80), (2, "shared", "many", 1e5, 80), (3, "independent", "one", 1e3, 80)],
)
def test_stores_do_not_grow(workers: int, strategy: str, layouts: str, rate: float, batches: int) -> None:
    streams = _streams()
    statistics = Statistics(rates={"R": 10.0, "S": rate, "T": rate}, default_selectivity=1e-4)
    engine = InProcessEngine(streams, _QUERIES, workers=workers, strategy=strategy, layouts=layouts, statistics=statistics)
    pace = 0.5
    done = _run(engine, streams, batches, pace)
    assert all(done[-1].counts.values())
    live = _ROWS * 3.5 / pace  # rows between the watermark less the window and now: 2 s of window, 1 s of lateness, 0.5 s of disorder
    for store in engine.coordinator.loaded_plan.topology.stores:
        copies = workers if any(layout.kind == "all" for layout in store.layouts) else len(store.layouts)
        if store.join is None:
            assert _most(done, "rows")[store.id] <= copies * live * 2, store.id
        assert _most(done, "containers")[store.id] <= copies * workers * 12, store.id
    for what in ("rows", "bytes", "containers"):
        early, late = _most(done[20 : batches // 2], what), _most(done[batches // 2 :], what)
        for store, most in late.items():
            assert most <= 2 * early[store], f"{what} of {store}"


def test_files_do_not_grow_with_batches() -> None:
    streams = _streams()
    engine = InProcessEngine(streams, _QUERIES, workers=2)
    counts = []
    for at in range(100):
        engine.batch(_tables(Random(at), streams, at * 0.5), at * 100_000)
        if at % 37 == 36:
            engine.restart()
        counts.append(sum(not name.startswith("results/") for name in _files(engine)))
    assert max(counts[50:]) <= 1.5 * max(counts[15:50])
    assert not [name for name in _files(engine) if "_staging" in name]


def test_failed_attempts_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = _streams()
    engine = InProcessEngine(streams, _QUERIES, workers=2)
    engine.batch(_tables(Random(0), streams, 0), 0)
    before = _files(engine)
    monkeypatch.setenv("CLASH_FAILPOINT", "round-end!raise")
    with pytest.raises(RuntimeError, match="fail point"):
        engine.batch(_tables(Random(1), streams, 1), 1)
    assert {name for name in _files(engine) if not name.startswith("batches/")} == before


def test_an_idle_stream_does_not_hold_the_state() -> None:
    """R falls silent; its watermark is lifted, so what waits for it can go."""
    streams = _streams(idle="1 second")
    engine = InProcessEngine(streams, {"pair": _QUERIES["pair"].replace(" WHERE R.v > 2", "")})
    rng, held = Random(2), []
    for at in range(80):
        tables = dict(_tables(rng, streams, at * 0.25))
        tables.pop("T")
        if at > 10:
            tables.pop("R")
        done = engine.batch(tables, at * 250_000)
        held.append(sum(store["rows"] for store in done.stores.values()))
    assert max(held[50:]) <= 2 * max(held[20:50])


def test_without_lateness_nothing_goes() -> None:
    streams = [Stream.of(s.name, dict(s.columns), time="ts", window="1 second") for s in _streams()]
    engine = InProcessEngine(streams, {"pair": _QUERIES["pair"].replace(" WHERE R.v > 2", "")}, workers=1)
    done = _run(engine, streams, 30, 1.0)
    assert sum(store["rows"] for store in done[-1].stores.values()) == 30 * _ROWS * 2
