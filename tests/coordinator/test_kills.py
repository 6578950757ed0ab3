"""A process that is killed between any two changes on disk: the next start continues exactly."""

from __future__ import annotations

import shutil
import tarfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clash.coordinator.control.job import QueryRequest, SinkSpec
from clash.inprocess.engine import InProcessEngine
from clash.state.local_storage import LocalStorage

from ..compatibility.sample import ADDED, FAILED, FOLDER, LAST, PAIR, engine, expected, tables

_CHANGES = ("write", "delete", "move")


class Killed(BaseException):
    """Stands for the end of the process."""


@contextmanager
def killed_after(changes: int) -> Iterator[None]:
    """The process ends when it is about to make one change more."""
    made = 0

    def counting(change: Callable[..., Any]) -> Callable[..., Any]:
        def call(storage: LocalStorage, *arguments: Any, **options: Any) -> Any:
            nonlocal made
            made += 1
            if made > changes:
                raise Killed
            return change(storage, *arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in _CHANGES:
            patch.setattr(LocalStorage, name, counting(getattr(LocalStorage, name)))
        yield


def _replace_in_record(path: Path, old: str, new: str) -> None:
    """With its checksum; other files stay as they are."""
    lines = path.read_text().splitlines()
    if len(lines) == 2 and old in lines[0]:
        line = lines[0].replace(old, new) + "\n"
        path.write_text(f'{line}{{"crc32":"{zlib.crc32(line.encode()):08x}"}}\n')


@pytest.mark.parametrize("sample", [None, *sorted(FOLDER.glob("format-*.tar.gz"))], ids=lambda path: path.name if path else "new")
def test_a_start_that_is_killed_can_be_done_again(sample: Path | None, tmp_path: Path) -> None:
    """Over a new checkpoint, and over one of this and of the format before."""
    if sample is None:
        (tmp_path / "whole/checkpoint").mkdir(parents=True)
    else:
        with tarfile.open(sample) as archive:
            archive.extractall(tmp_path / "whole", filter="data")
    changes, is_complete = 0, False
    while not is_complete:
        uri = tmp_path / str(changes)
        shutil.copytree(tmp_path / "whole/checkpoint", uri)
        try:
            with killed_after(changes):
                engine(str(uri))
                is_complete = True
        except Killed:
            changes += 1
        running = engine(str(uri))
        assert running.coordinator.last == (-1 if sample is None else FAILED - 1)
    for batch in range(running.coordinator.last + 1, LAST + 1):
        if sample is None and batch == ADDED:
            running.add_query("pair", PAIR)
        running.batch(tables(batch))
    for query in ("chain", "pair"):
        assert Counter(tuple(row.values()) for row in running.results(query).to_pylist()) == expected(query)
    assert changes > 3


def test_a_batch_that_is_killed(tmp_path: Path) -> None:
    """One that begins a generation, with a new query; results are in folders of both kinds."""

    def start(folder: Path) -> InProcessEngine:
        running = engine(str(folder / "c"))
        sink = SinkSpec("parquet", str(folder / "out"))
        job = replace(running.job, queries=(*running.job.queries, QueryRequest("outer", PAIR, (), sink)))
        running.restart(job)
        return running

    def add(running: InProcessEngine) -> None:
        if "pair" not in running.coordinator.generation.setup.query_names:
            running.add_query("pair", PAIR)

    def results(running: InProcessEngine) -> dict[str, Counter[tuple[object, ...]]]:
        return {name: Counter(tuple(row.values()) for row in running.results(name).to_pylist()) for name in ("chain", "outer", "pair")}

    def prepared(folder: Path) -> InProcessEngine:
        shutil.copytree(tmp_path / "before", folder)
        for path in folder.glob("c/**/*.json"):
            _replace_in_record(path, str(tmp_path / "before"), str(folder))
        return start(folder)

    before = start(tmp_path / "before")
    for batch in range(2):
        before.batch(tables(batch))
    whole = prepared(tmp_path / "whole")
    add(whole)
    for batch in (2, 3):
        whole.batch(tables(batch))
    changes, is_complete = 0, False
    while not is_complete:
        running = prepared(folder := tmp_path / str(changes))
        add(running)
        try:
            with killed_after(changes):
                running.batch(tables(2))
                is_complete = True
        except Killed:
            changes += 1
        running = start(folder)
        if running.coordinator.last < 2:
            add(running)
            running.batch(tables(2))
        else:
            running.coordinator.publish(2)  # as Spark repeats a batch that it has not recorded
        running.batch(tables(3))
        assert results(running) == results(whole), changes
    assert changes > 10
