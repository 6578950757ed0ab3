"""A start that is killed between any two changes on disk can be done again, and the run continues exactly."""

from __future__ import annotations

import shutil
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

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
