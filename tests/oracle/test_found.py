"""What hunts have found, as small as it gets."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from clash.model.stream import Stream
from clash.topology import Topology
from clash.topology.data import ProbeRule, StoreRule

from .case import Ask, Batch, Case, Setting
from .runs import differences, start


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
    ask = Ask(
        "q",
        "SELECT x0.a AS o0, x3.b AS o1\nFROM R x0 JOIN S x1 ON x1.a = x0.a JOIN S x2 ON x2.b = x0.b JOIN S x3 ON x3.b = x2.b "
        "JOIN R x4 ON x4.a = x1.a",
    )
    rng, looked = Random(3), 0
    rows = {name: tuple((1, rng.randrange(2)) for _ in range(4)) for name in "RS"}
    case = Case(streams, (ask,), (Batch(0, rows),), Setting(partitions=3, options=(("piece", 2),)))
    for plan_seed in range(300):
        planned = replace(case, setting=replace(case.setting, plan_seed=plan_seed))
        if not _filled_twice(start(planned).driver.topology):
            continue
        looked += 1
        for seed in range(4):
            assert differences(replace(planned, setting=replace(planned.setting, seed=seed))) == []
        if looked == 6:
            return
    raise AssertionError("no plan fills a store in two rounds any more: write another query")
