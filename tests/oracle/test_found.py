"""What hunts have found, as small as it gets."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from random import Random

from clash.model.stream import Stream
from clash.topology import Topology
from clash.topology.data import ProbeRule, StoreRule

from .case import Ask, Batch, Case, Setting
from .runs import differences, plan_of


def _filled_twice(topology: Topology) -> bool:
    """Is there an intermediate store that gets rows in two rounds, and is probed in a later one?"""
    for store in topology.stores:
        rules = [rule for rule in topology.rules if rule.store == store.id]
        filled = {rule.position.round for rule in rules if isinstance(rule, StoreRule)}
        probed = {rule.position.round for rule in rules if isinstance(rule, ProbeRule)}
        if len(filled) > 1 and probed and max(probed) > max(filled):
            return True
    return False


def test_what_a_worker_wrote_in_earlier_rounds_is_told_in_any_order() -> None:
    """Round 3 merged what round 2 had written; round 4 heard of round 3 first, and had those rows twice."""
    streams = tuple(Stream.of(name, {"a": "int", "b": "int"}) for name in "RS")
    joins = " ".join(f"JOIN {'RS'[n % 2]} x{n} ON x{n}.{'ba'[n % 2]} = x{n - 1}.{'ba'[n % 2]}" for n in range(1, 6))
    ask = Ask("q", f"SELECT x0.a AS o0, x5.b AS o1\nFROM R x0 {joins}")
    rng = Random(3)
    rows = {name: tuple((rng.randrange(2), rng.randrange(2)) for _ in range(5)) for name in "RS"}
    case = Case(streams, (ask,), (Batch(0, rows),), Setting(partitions=3, options=(("piece", 2),)))
    plans = (replace(case, setting=replace(case.setting, plan_seed=seed)) for seed in range(100))
    found = list(islice((planned for planned in plans if _filled_twice(plan_of(planned).topology)), 3))
    assert found, "no plan fills a store in two rounds any more: write another query"
    for planned in found:
        for seed in range(4):
            assert differences(replace(planned, setting=replace(planned.setting, seed=seed))) == []


def test_rows_of_which_nothing_is_read_count() -> None:
    """The stream had no column that anybody wanted, so its rows were lost on the way."""
    streams = (Stream.of("R", {"a": "int"}), Stream.of("S", {"n": "array<int>", "b": "int"}))
    asks = (Ask("q", "SELECT R.a\nFROM R CROSS JOIN S"), Ask("one", "SELECT 1 AS one\nFROM S"))
    batches = (Batch(0, {"R": ((1,), (2,)), "S": (([], 1), (None, None))}), Batch(1, {"S": (([3], 1),)}))
    for workers in (1, 3):
        assert differences(Case(streams, asks, batches, Setting(workers=workers))) == []
