"""Programs and streams that change, by hand: what the words of docs/changing.md say, and that a broken rule is noticed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clash.model.stream import Stream

from .broken import PROGRAMS
from .case import Ask, Batch, Case, Change, Program, Setting
from .compare import differences, ran
from .programs import started
from .shrink import failure, smallest

_RS = Ask("q", "SELECT R.a\nFROM R JOIN S ON R.a = S.a")
_SELF = Ask("p", "SELECT x.a\nFROM R x JOIN R y ON x.a = y.a")
_SS = Ask("r", "SELECT x.a\nFROM S x JOIN S y ON x.a = y.a")
_RT = Ask("t", "SELECT R.a\nFROM R JOIN T ON R.a = T.a")
_OTHER = replace(_RS, text="SELECT S.a AS other\nFROM R JOIN S ON R.a = S.a")
_ONE = Program((_RS, _SELF), 2)


@pytest.mark.parametrize(
    ("live", "now", "told"),
    [
        ((_RS, _SELF), _ONE, []),
        ((_RS, _SS), _ONE, []),  # p was removed and r added at run time, and both stay so
        ((_OTHER,), _ONE, []),  # q was replaced
        ((_RS, _SELF, _SS), replace(_ONE, queries=(_RS,)), ["remove p"]),
        ((_RS, _SS), replace(_ONE, queries=(_RS,)), []),  # it is gone already
        ((_RS, _SELF), replace(_ONE, queries=(*_ONE.queries, _SS)), ["add r"]),
        ((_RS, _SS), replace(_ONE, queries=(*_ONE.queries, _SS)), []),  # it is that query
        ((_RS, replace(_RT, name="r")), replace(_ONE, queries=(*_ONE.queries, _SS)), ["replace r"]),
        ((_RS, _SELF), replace(_ONE, queries=(_OTHER, _SELF)), ["replace q"]),
        ((_OTHER, _SELF), replace(_ONE, queries=(_OTHER, _SELF)), []),
        ((_SELF,), replace(_ONE, queries=(_OTHER, _SELF)), ["add q"]),
        ((_RS, _SELF), replace(_ONE, queries=(replace(_RS, windows=(("R", "1 second"),)), _SELF)), ["replace q"]),
        ((_RS, _SELF), replace(_ONE, queries=(_SELF, replace(_RS, text=_RS.text.replace(" ", "  "))), workers=3), ["rescale 3"]),
    ],
)
def test_what_a_program_changes(live: tuple[Ask, ...], now: Program, told: list[str]) -> None:
    found = started({ask.name: ask for ask in live}, _ONE, now)
    assert [f"{c.kind} {c.workers or c.name or (c.ask and c.ask.name)}" for c in found] == told


def _case() -> Case:
    """The queries, workers and streams of a program and of calls, in an epoch of three batches."""
    rows = dict.fromkeys("RST", ((1,), (2,)))
    batches = (
        Batch(0, rows),
        Batch(1, rows, changes=(Change("remove", name="p"), Change("add", _SS), Change("rescale", workers=3))),
        Batch(2, rows),
        Batch(3, rows),
        Batch(4, rows, restart=True),
        Batch(5, rows, restart=True, program=Program((_RS, _SELF, _SS), 2)),  # p stays removed, r is that query, and three workers stay
        Batch(6, rows, changes=(Change("stream", name="T"),)),
        Batch(7, rows, changes=(Change("add", _RT),)),
        Batch(8, rows, fail=("after-record", 1), second=Program((_OTHER, _SELF), 1)),  # for which the batch is decided anew
        Batch(9, rows, restart=True, program=Program((_OTHER, _SELF), 1)),
        Batch(10, rows, restart=True, program=Program((_RS, _SELF, _RT), 1)),
        Batch(11, rows, restart=True, program=Program((_RS,), 2)),
        Batch(12, rows, restart=True, program=Program((), 2)),  # it reads on, for nobody
    )
    streams = tuple(Stream.of(name, {"a": "int"}) for name in "RST")
    return Case(streams, _ONE.queries, batches, Setting(epoch=3))


def test_programs_and_calls() -> None:
    with ran(_case()) as run:
        lives = {(life.ask.name, life.first): life.end for life in run.lives}
        begins = run.begins
    assert lives == {
        ("q", 0): 8, ("p", 0): 3, ("r", 3): 8, ("t", 7): 11, ("q", 8): 10, ("q", 10): 12,
    }  # fmt: skip
    assert begins == {"R": 0, "S": 0, "T": 7}
    assert differences(_case()) == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_broken_rule_is_noticed(name: str) -> None:
    with PROGRAMS[name]():
        assert failure(_case()) is not None


def test_shrinking_keeps_programs_that_matter() -> None:
    def wrong(case: Case) -> str | None:
        listed = any(ask.name == "t" for program in case.programs[1:] for ask in program.queries)
        return "wrong" if listed and case.first_streams != case.streams else None

    small = smallest(_case(), wrong)
    assert small.count() == 0
    assert sorted(ask.name for program in small.programs[1:] for ask in program.queries) == ["t"]
    assert [change.kind for batch in small.batches for change in batch.changes] == ["stream"]
