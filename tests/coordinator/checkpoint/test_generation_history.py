"""The history of generations: it tells what a log of everything would, in few small files, whenever the process is killed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from clash.codec import Codec
from clash.coordinator.adaptive.generation_cost import GenerationCost, micros_per_tuple
from clash.coordinator.checkpoint import generation_history
from clash.coordinator.checkpoint.generation import Generation
from clash.coordinator.checkpoint.generation_log import GenerationLog
from clash.coordinator.checkpoint.generation_outline import EndedGeneration, GenerationOutline, MeasuredCost, outline_of
from clash.coordinator.checkpoint.history_block import pack, unpack_generations, unpack_queries
from clash.coordinator.control.job import QueryRequest
from clash.coordinator.control.setup import LiveQuery
from clash.errors import StateError
from clash.state.json_records import write_record
from clash.state.storage import LocalStorage, MemoryStorage, Storage

from ..matching import RS, RST, ST, engine, tables

HISTORY = "generations/history"
TEXTS = (RS, ST, RST)
COST: Codec[GenerationCost] = Codec(GenerationCost)


class KilledError(Exception):
    pass


class KilledStorage:
    """A storage whose process is killed before one of its writes and deletions."""

    def __init__(self, storage: Storage, operations: int) -> None:
        self.storage, self.left = storage, operations

    def __getattr__(self, name: str) -> Any:
        return getattr(self.storage, name)

    def write(self, path: str, buffers: Sequence[Any], durable: bool = False) -> int:
        self._operate()
        return self.storage.write(path, buffers, durable)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._operate()
            self.storage.delete([path])

    def _operate(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise KilledError


class FullLog:
    """What a log tells that keeps everything."""

    def __init__(self) -> None:
        self.generations: list[Generation] = []
        self.costs: dict[int, GenerationCost] = {}

    def outlines(self) -> list[dict[str, Any]]:
        listed, before = [], GenerationCost()
        for generation in self.generations:
            cost = self.costs.get(generation.number, GenerationCost())
            measured = {"measured_before": micros_per_tuple(before.recent), "measured": cost.micros_per_tuple, "batches": cost.batches}
            listed.append({**asdict(outline_of(generation)), **measured})
            before = cost if cost.batches else before
        return listed

    def queries(self) -> dict[str, LiveQuery]:
        effective = {generation.batch: generation for generation in self.generations}
        return {query.name: query for generation in effective.values() for query in generation.setup.queries}


def first_generation() -> Generation:
    return engine({"q": RS}).coordinator.generation


def random_next(random: Random, last: Generation, number: int, batch: int) -> Generation:
    setup = last.setup
    for _ in range(random.choice((1, 1, 3))):
        if random.random() < 0.5:
            name = f"p{random.randrange(8)}"
            if name not in setup.query_names:
                added = setup.parse(QueryRequest(name, random.choice(TEXTS)))
                at = random.randrange(len(setup.queries) + 1)
                queries = (*setup.queries[:at], replace(added, batch=batch, folder=f"{name}.{number}"), *setup.queries[at:])
                setup = replace(setup, queries=queries)
        elif setup.queries:
            setup = setup.remove_query(random.choice(setup.query_names))
    predicted = None if random.random() < 0.8 else (random.random(), random.random())
    setup = replace(setup, workers=random.randrange(1, 5))
    return replace(last, number=number, batch=batch, setup=setup, reason=f"change {random.randrange(100)}", predicted=predicted)


@pytest.mark.parametrize("seed", range(12))
def test_it_tells_what_a_log_of_everything_tells_whenever_the_process_is_killed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A generation per batch; some begin with a batch that was decided again; the process is killed at random writes and deletions."""
    random = Random(seed)
    monkeypatch.setattr(generation_history, "_BLOCK", 4)
    monkeypatch.setattr(generation_history, "_MERGED", 3)
    disk, full = MemoryStorage(), FullLog()
    log = GenerationLog(disk)
    log.write(first_generation())
    full.generations.append(log.read(0))
    committed, live = 0, set[int]()  # of the last manifest, and of its containers

    def start() -> GenerationLog:
        """As recovery does; this may be killed, too."""
        while True:
            storage = KilledStorage(disk, random.choice((0, 1, 2, 3, 1000)))
            try:
                log = GenerationLog(storage)
                log.check(committed)
                storage.delete(log.files_after(committed))
                storage.delete(log.compact(committed, costs, live))
                return GenerationLog(KilledStorage(disk, random.randrange(2, 60)))
            except KilledError:
                continue

    costs: dict[int, GenerationCost] = {}
    while committed < 60:
        last = full.generations[-1]
        begun = [random_next(random, last, last.number + 1, last.batch + 1)]
        if random.random() < 0.2:
            begun.append(random_next(random, last, last.number + 2, last.batch + 1))
        try:
            for generation in begun:
                log.write(generation)
        except KilledError:
            log = start()
            continue
        full.generations += begun
        before, committed = committed, full.generations[-1].number
        full.costs[committed] = GenerationCost().plus(random.randrange(3), random.random()).plus(random.randrange(3), random.random())
        costs = {number: full.costs[number] for number in (before, committed) if number in full.costs}
        live = set(random.sample(sorted(live | {committed}), k=min(3, len(live) + 1)))
        try:
            log.storage.delete(log.compact(committed, costs, live))
        except KilledError:
            log = start()
        if random.random() < 0.3:
            assert log.outlines(costs, committed) == full.outlines()
            queries = full.queries()
            assert {name: log.last_query(name) for name in (*queries, "never")} == {**queries, "never": None}
    log = start()
    assert log.outlines(costs, committed) == full.outlines()
    assert {name: log.last_query(name) for name in full.queries()} == full.queries()
    records = {int(name.partition(".")[0]) for name in disk.list("generations")}
    assert records == {committed, *live}
    assert len(disk.list(HISTORY)) <= 4 * 3


def test_a_checkpoint_of_an_earlier_version_is_compacted_by_its_next_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a record and the cost of every generation."""
    monkeypatch.setattr(GenerationLog, "compact", lambda *_: [])
    run = engine({"q": RS, "r": ST})
    for batch in range(6):
        run.batch(tables(batch))
        if batch == 2:
            run.remove_query("r")
        elif batch == 3:
            run.add_query("p", RST)
        else:
            run.rescale(1 + batch % 2)
        number = run.coordinator.generation.number
        write_record(run.coordinator.storage, f"generations/{number:06d}.cost.json", COST, GenerationCost().plus(number + 1, 0.5))
    monkeypatch.undo()
    records = [name for name in run.coordinator.storage.list("generations") if ".cost." not in name]
    assert len(records) == 6
    expected = run.generations
    run.restart()
    current = run.coordinator.generation
    kept = {current.number, *(version.generation for version in current.stores.layouts.values())}
    kept |= {record.generation for record in run.coordinator.manifest.containers}
    assert {int(name.partition(".")[0]) for name in run.coordinator.storage.list("generations")} == kept
    assert run.generations == expected
    assert run.results("r").num_rows > 0


def test_a_long_life_leaves_few_files_and_tells_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change with every batch, now and then a restart: removed queries are found, and the plans of stored rows."""
    monkeypatch.setattr(generation_history, "_BLOCK", 8)
    run = engine({"q": RS}, uri=str(tmp_path))
    told: list[list[str]] = []
    for batch in range(36):
        if batch % 15 == 14:
            run.restart()
        if batch % 2:
            run.add_query(f"p{batch}", TEXTS[batch % 3])
        elif batch:
            run.remove_query(f"p{batch - 1}")
        if batch % 7 == 0:
            run.rescale(2 + batch % 2)
        run.batch(tables(batch, rows=1))
        told.append([query.name for query in run.coordinator.generation.setup.queries])
    assert len({outline["generation"] for outline in run.generations}) == len(run.generations) >= 32
    assert [outline["queries"] for outline in run.generations][-5:] == told[-5:]
    assert len(list((tmp_path / "generations").iterdir())) < 12  # of stored rows that no batch has moved yet
    assert len(list((tmp_path / HISTORY).iterdir())) <= 5
    run.restart()
    assert run.results("p11").column_names == ["a", "d"]
    assert run.results("p11").num_rows > 0
    assert run.results("q").num_rows == 36**2


def ended(number: int, queries: Sequence[str] = ("q",)) -> EndedGeneration:
    return EndedGeneration(GenerationOutline(number, number, "start", list(queries), 2, 3, 1.5, None, None), MeasuredCost(1, 2.0, None))


def test_a_block_keeps_lists_of_queries_as_differences() -> None:
    random = Random(1)
    lists: list[list[str]] = [[]]
    for _ in range(200):
        names = [name for name in lists[-1] if random.random() < 0.8]
        names[random.randrange(len(names) + 1) :] += [f"q{random.randrange(10)}" for _ in range(random.randrange(3))]
        lists.append(names)
    generations = [ended(5 + at, names) for at, names in enumerate(lists)]
    block = pack(generations, [])
    assert unpack_generations(block) == generations
    assert unpack_queries(block) == []
    many = [ended(at, [f"a rather long name of a query {query}" for query in range(2_000)]) for at in range(64)]
    assert len(pack(many, []).generations) < 20_000


def test_damage_is_refused_with_the_name_of_the_file(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    history = generation_history.GenerationHistory(storage)
    history.append([ended(number) for number in range(200)], [])
    assert storage.list(HISTORY) == ["000000-000063.json", "000064-000127.json", "000128-000191.json", "000192-000199.json"]
    storage.write(f"{HISTORY}/000192-000195.json", [b"left by a process that was killed"])
    again = generation_history.GenerationHistory(storage)
    assert again.covered == [f"{HISTORY}/000192-000195.json"]
    assert [generation.outline.generation for generation in again.unpack(again.blocks())] == list(range(200))
    (tmp_path / HISTORY / "000000-000063.json").rename(tmp_path / HISTORY / "000000-000063.json.old")
    with pytest.raises(StateError, match=r"generation 0"):
        generation_history.GenerationHistory(storage)
    storage.move(f"{HISTORY}/000064-000127.json", f"{HISTORY}/000000-000063.json")
    storage.write(f"{HISTORY}/000064-000127.json", [b"{}\n"])
    torn = generation_history.GenerationHistory(storage)
    with pytest.raises(StateError, match=r"000000-000063\.json"):
        torn.blocks()


def test_a_history_that_is_ahead_of_the_manifest_is_refused() -> None:
    """A copy of a running job: its manifest was copied before its generations."""
    run = engine({"q": RS})
    for batch in range(4):
        run.batch(tables(batch))
        run.rescale(1 + batch % 2)
    storage = run.coordinator.storage
    manifests = {name: storage.read(f"manifests/{name}") for name in storage.list("manifests")}
    for batch in range(4, 7):
        run.batch(tables(batch))
        run.rescale(1 + batch % 2)
    storage.delete([f"manifests/{name}" for name in storage.list("manifests")])
    for name, content in manifests.items():
        storage.write(f"manifests/{name}", [content])
    with pytest.raises(StateError, match="from different times"):
        run.restart()
