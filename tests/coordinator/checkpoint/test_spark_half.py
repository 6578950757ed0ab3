"""The seal of Spark's half of a checkpoint, over files as Spark writes them, without Spark."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clash.coordinator.checkpoint.spark_half import SparkHalf
from clash.coordinator.checkpoint.spark_seal import SourceLogSeal, SparkSeal
from clash.errors import CheckpointError, StateError
from clash.spark.offset_log import fit_offset_log

_names = itertools.count()


class Half:
    """Spark's half of a job over a source of files, whose log is compacted every third time, and one of rows by time."""

    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder or f"memory:half-{next(_names)}"  # is read like a remote storage
        self.half = SparkHalf(self.folder)
        self.storage = self.half._storage
        self.put("metadata", '{"id":"4711"}')
        self.put("sources/1/0", "v1\n1794956197602")

    def put(self, name: str, text: str) -> None:
        self.storage.write(name, [text.encode()])

    def plan(self, batch: int) -> None:
        entries = [f'{{"path":"file:///in/{number}.json","timestamp":{number},"batchId":{number}}}' for number in range(batch + 1)]
        if batch % 3 == 2:
            self.put(f"sources/0/{batch}.compact", "\n".join(["v1", *entries]))
        else:
            self.put(f"sources/0/{batch}", "\n".join(["v1", entries[-1]]))
        self.put(f"offsets/{batch}", f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{batch}}}\n{batch}')

    def commit(self, batch: int) -> None:
        self.put(f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')

    def run(self, batches: range) -> SparkSeal:
        """The seal of the last of these batches."""
        for batch in batches:
            self.plan(batch)
            seal = self.half.seal(batch)
            self.commit(batch)
        return seal

    def files(self) -> set[str]:
        return set(self.storage.list(recursive=True))

    def restart(self, last: int, committed: SparkSeal | None, decided: SparkSeal | None = None) -> set[str]:
        """What a start removes."""
        half, before = SparkHalf(self.folder), self.files()
        half.check(last, committed, decided)
        assert self.files() == before
        half.remove_unsealed()
        return before - self.files()


def test_a_seal_covers_the_log_since_its_newest_compaction() -> None:
    half = Half()
    seal = half.run(range(5))
    assert {name: (log.first, log.last) for name, log in seal.sources.items()} == {"0": (2, 4), "1": (0, 0)}
    assert seal.previous is not None
    assert half.restart(4, seal) == set()
    assert half.run(range(5, 6)).sources["0"].first == 5


@pytest.mark.parametrize("local", [False, True])
def test_a_batch_reads_only_what_is_new(local: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half = Half(str(tmp_path) if local else None)
    half.run(range(5))
    read: list[str] = []
    whole = type(half.storage).read

    def reading(self: Any, path: str, mapped: bool = True) -> Any:
        read.append(path)
        return whole(self, path, mapped)

    monkeypatch.setattr(type(half.storage), "read", reading)
    half.plan(5)
    half.half.seal(5)
    assert sorted(read) == ["offsets/5", "sources/0/5.compact"]


def test_a_process_continues_the_seal_of_another() -> None:
    half = Half()
    seal = half.run(range(4))
    other = SparkHalf(half.folder)
    other.check(3, seal, None)
    half.plan(4)
    assert other.seal(4) == half.half.seal(4)


def test_new_sources_in_the_offset_log_change_no_seal() -> None:
    half = Half()
    seal = half.run(range(3))
    assert fit_offset_log(half.storage, 4)
    assert half.restart(2, seal) == set()
    assert half.half.seal(2) == seal


def test_names_of_sources() -> None:
    half = Half()
    half.plan(0)
    half.put("offsets/0", 'v2\n{}\norders:{"logOffset":0}\n1:5')
    half.put("sources/orders/0", 'v1\n{"path":"file:///in/0.json"}')
    assert set(half.half.seal(0).sources) == {"0", "1", "orders"}


def test_every_file_that_a_restart_reads_is_compared() -> None:
    half = Half()
    seal = half.run(range(5))
    for name in ("metadata", "offsets/3", "offsets/4", "sources/0/2.compact", "sources/0/3", "sources/0/4", "sources/1/0"):
        whole = bytes(half.storage.read(name))
        half.put(name, whole.decode() + " ")
        with pytest.raises(StateError, match="has changed") as changed:
            half.restart(4, seal)
        assert name in changed.value.detail
        if not name.startswith(("metadata", "offsets/4")):
            half.storage.delete([name])
            with pytest.raises(StateError, match="is missing"):
                half.restart(4, seal)
        half.put(name, whole.decode())
    half.storage.delete(["offsets/2", "sources/0/1", "commits/4"])
    assert half.restart(4, seal) == set()


@pytest.mark.parametrize("name", ["metadata", "offsets/LAST"])
@pytest.mark.parametrize("is_continued", [False, True])
def test_what_changes_while_a_run_goes_on_is_not_sealed(name: str, is_continued: bool) -> None:
    """The seals of later batches cover these files, too, and the next start reads them."""
    half = Half()
    seal = half.run(range(4))
    if is_continued:
        half.half = SparkHalf(half.folder)
        half.half.check(3, seal, None)
        half.run(range(4, 5))
    last = 4 if is_continued else 3
    name = name.replace("LAST", str(last))
    half.put(name, bytes(half.storage.read(name)).decode() + " ")
    seal = half.run(range(last + 1, last + 2))
    with pytest.raises(StateError, match="has changed") as changed:
        half.restart(last + 1, seal)
    assert changed.value.detail.startswith(f"{half.folder}/{name}; ")


def test_an_entry_of_a_source_that_is_gone_before_it_is_sealed() -> None:
    """Without it Spark would take the files of that entry for new ones."""
    half = Half()
    first = half.run(range(1))
    second = half.run(range(1, 2))
    with pytest.raises(StateError, match="is missing") as missing:
        half.restart(1, replace(second, sources=first.sources))  # as earlier versions sealed it
    assert missing.value.detail.startswith(f"{half.folder}/sources/0/1; ")
    half.plan(2)
    half.storage.delete(["sources/0/2.compact"])
    with pytest.raises(StateError, match="is missing") as missing:
        half.half.seal(2)
    assert missing.value.detail.startswith(f"{half.folder}/sources/0/2; ")
    assert missing.value.hint.startswith("start again: batch 2 was not begun")
    assert half.restart(1, second) == {"offsets/2"}  # the batch was not begun: Spark plans it again


def test_lines_that_share_a_source_or_are_of_others() -> None:
    half = Half()
    half.plan(0)
    half.put("offsets/0", 'v1\n{}\n{"logOffset":7}\n{"logOffset":7}\n{"logOffset":0}\n{"x":{"logOffset":9}}')
    assert half.half.seal(0).sources["0"].last == 0


def test_a_run_that_starts_spark_again_notices_changes() -> None:
    half = Half()
    half.half.refuse_changes()
    half.run(range(5))
    half.plan(5)  # Spark has planned a batch, and it was not begun
    half.half.refuse_changes()
    for name in ("metadata", "offsets/3", "offsets/4", "sources/0/2.compact", "sources/0/3", "sources/0/4", "sources/1/0"):
        whole = bytes(half.storage.read(name))
        half.put(name, whole.decode() + " ")
        with pytest.raises(StateError, match="has changed") as changed:
            half.half.refuse_changes()
        assert changed.value.detail.startswith(f"{half.folder}/{name}; ")
        half.storage.write(name, [whole])
    half.half.refuse_changes()


def test_a_batch_that_was_not_begun_is_planned_again() -> None:
    """Where a source began is kept, and so is a plan that Spark could not do without: it may be set to keep one entry before the last."""
    half = Half()
    seal = half.run(range(4))
    half.plan(4)
    half.put("sources/0/.4.crc", "")
    half.put("offsets/.4.crc", "")
    half.put("sources/2/0", "v1\n17")
    half.put("sources/3/0", 'v1\n{"path":"file:///in/0.json"}')
    behind = {"offsets/4", "offsets/.4.crc", "sources/0/4", "sources/0/.4.crc", "sources/3/0"}
    assert half.restart(3, seal) == behind
    half.plan(4)
    half.storage.delete(["offsets/2"])
    assert half.restart(3, seal) == set()


def test_a_batch_that_was_begun_is_planned_again_only_if_its_plan_is_gone() -> None:
    half = Half()
    committed = half.run(range(4))
    half.plan(4)
    decided = half.half.seal(4)
    assert half.restart(3, committed, decided) == set()
    half.put("sources/0/4", "v1")
    with pytest.raises(StateError, match="has changed") as damaged:
        half.restart(3, committed, decided)
    assert "offsets/4" in damaged.value.hint
    half.storage.delete(["offsets/4"])
    assert half.restart(3, committed, decided) == {"sources/0/4"}


def test_nothing_is_left_of_a_first_batch_that_was_not_begun() -> None:
    half = Half()
    half.plan(0)
    assert half.restart(-1, None) == {"metadata", "offsets/0", "sources/0/0"}
    assert half.restart(-1, None) == set()


def test_commits_that_cannot_be_read_go() -> None:
    half = Half()
    seal = half.run(range(4))
    half.put("commits/3", "")
    half.put("commits/2", 'v1\n{"nextBatchWatermarkMs":')
    assert half.restart(3, seal) == {"commits/2", "commits/3"}


@pytest.mark.parametrize(("planned", "committed"), [(2, 2), (5, 3), (4, 4), (5, 5), (-1, -1)])
def test_numbers_that_do_not_fit(planned: int, committed: int) -> None:
    """Batch 3 is committed: Spark has planned that one or the next, and committed it or lost that."""
    half = Half()
    seal = half.run(range(4))
    half.storage.delete([name for name in half.files() if name.startswith(("offsets/", "commits/"))])
    for batch in range(planned + 1):
        half.put(f"offsets/{batch}", "v1\n{}\n0")
    for batch in range(committed + 1):
        half.commit(batch)
    for known in (seal, None):
        with pytest.raises(CheckpointError, match="do not fit together") as caught:
            half.restart(3, known)
        assert half.folder in caught.value.detail


def test_without_a_seal_nothing_is_removed_and_the_next_batch_is_sealed() -> None:
    """A checkpoint of an older version."""
    half = Half()
    seal = half.run(range(6))
    half.plan(6)
    assert half.restart(5, None) == set()
    other = SparkHalf(half.folder)
    other.check(5, None, None)
    found = other.seal(6).sources
    assert found["0"] == half.half.seal(6).sources["0"] != seal.sources["0"]
    assert isinstance(found["1"], SourceLogSeal)
