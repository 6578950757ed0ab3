"""A minute of chaos: a few histories in process, and one on local Spark. Hours of it: `python -m tests.chaos`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from . import folders
from .__main__ import played
from .actions import KINDS, Copy, Damage, Feed, History, Restore, Run, Stranger, Together
from .cases import drawn_case
from .folders import RESULTS
from .generate import PLACES, chaos, random_actions
from .inprocess import InProcess, RunningProcess
from .judge import Reader
from .offsets import Seen
from .places import open_place
from .requests import sink_folder
from .shrink import fewest
from .starts import Outcome, Place, Start


@pytest.fixture(scope="module")
def inprocess() -> Iterator[Place]:
    with open_place("inprocess") as place:
        yield place


@pytest.mark.parametrize("seed", range(6))
def test_a_history_in_process(inprocess: Place, seed: int) -> None:
    history = chaos(seed)
    _, wrong = played(history, inprocess)
    assert wrong is None, f"{history}\n{wrong}"


def test_a_history_on_spark(java: None) -> None:
    history = chaos(2, "local")
    with open_place("local") as place:
        _, wrong = played(history, place)
    assert wrong is None, f"{history}\n{wrong}"


@pytest.mark.parametrize("where", PLACES)
def test_a_seed_is_one_history(where: str) -> None:
    assert chaos(3, where) == chaos(3, where)


def test_every_action_is_drawn() -> None:
    for where in PLACES:
        drawn = {type(action) for seed in range(30) for action in random_actions(Random(seed), where, 6)}
        assert drawn == set(KINDS.values())


def test_another_life_of_sparks_half_is_refused(inprocess: Place) -> None:
    """It has as many batches as the one that it replaces, but of other files."""
    again = (Restore("none", then="anew"), Run(), Feed(2), Run())
    told, wrong = played(History(0, "inprocess", 1250, (Feed(3), Run(), Copy(), *again, Restore("spark"), Run())), inprocess)
    assert wrong is None
    assert "a file of Spark's half of the checkpoint has changed (spark restored)" in told.refusals


def test_a_folder_that_another_checkpoint_has_taken_first(inprocess: Place) -> None:
    """The program comes to the query that writes there after the other one."""
    told, wrong = played(History(0, "inprocess", 1283, (Feed(1), Run(), Feed(3), Stranger(), Run())), inprocess)
    assert wrong is None
    assert "a result folder belongs to another checkpoint (taken by another checkpoint)" in told.refusals


def test_a_damaged_entry_counts_as_it_was(tmp_path: Path) -> None:
    seen, file = Seen(int), tmp_path / "0"
    file.write_text("1")
    assert seen.read(file) == 1
    file.write_text("2")
    seen.damaged(file, b"1", b"2")
    assert seen.read_log(tmp_path) == {0: 1}
    file.write_text("3")
    assert seen.read(file) == 3
    seen.forget(tmp_path)
    assert seen.read_log(tmp_path) == {0: 3}


def test_a_result_file_that_is_damaged_twice(tmp_path: Path) -> None:
    reader, file = Reader(0, tmp_path), tmp_path / "out" / "q" / "part-0.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(pa.table({"a": [1]}), file)
    reader.lose(file)
    file.write_bytes(file.read_bytes()[:9])
    reader.lose(file)
    assert reader.lost == {file: {(1,): 1}}


class Doubling(InProcess):
    """Publishes every result file twice."""

    def begin(self, start: Start, second: bool = False) -> RunningProcess:
        running = super().begin(start, second)

        class Twice(RunningProcess):
            def wait(self) -> Outcome:
                outcome = super().wait()
                for file in folders.files(start.base / RESULTS):
                    if folders.is_published(start.base, file):
                        file.with_name(f"part-again-{file.name}").write_bytes(file.read_bytes())
                return outcome

        return Twice(running.process, running.pipe)


class Vague(InProcess):
    """Refuses without saying why."""

    def begin(self, start: Start, second: bool = False) -> RunningProcess:
        running = super().begin(start, second)

        class Refused(RunningProcess):
            def wait(self) -> Outcome:
                super().wait()
                return Outcome(
                    error={"kind": "StateError", "what": "something is wrong", "detail": "somewhere", "hint": "-"}, phase="batch"
                )

        return Refused(running.process, running.pipe)


def test_what_is_wrong_is_noticed() -> None:
    number = next(number for number in range(100) if any(sink_folder(Path(), ask.name) for ask in drawn_case(number).queries))
    history = History(0, "inprocess", number, (Feed(1), Together(), Stranger(), Feed(len(drawn_case(number).batches) - 1), Run()))
    doubled = played(history, Doubling())[1]
    assert doubled is not None
    assert "extra" in doubled
    small = fewest(history, lambda smaller: played(smaller, Doubling())[1])
    assert Together() not in small.actions
    damaged = History(0, "inprocess", number, (Feed(1), Run(), Damage("cut", "checkpoint", 0.5), Run()))
    vague = played(damaged, Vague())[1]
    assert vague is not None
    assert "refused without its cause" in vague
