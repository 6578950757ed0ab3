"""An intermediate result is introduced if it earns what that costs before the data is expected to change again."""

from __future__ import annotations

from collections import Counter

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from clash.coordinator.adaptive.replanner import Policy, Replanner, ReplanRequest
from clash.coordinator.adaptive.stability import Stability
from clash.coordinator.control.job import JobSpec, QueryRequest
from clash.coordinator.control.setup import Setup
from clash.coordinator.inspection import explain_running
from clash.inprocess.engine import InProcessEngine
from clash.model.statistics import Statistics
from clash.model.stream import Stream
from clash.plan.logical import LogicalPlan

COLUMNS = {"R": "a", "S": "ab", "T": "b"}
STREAMS = [
    Stream.of(n, {**dict.fromkeys(columns, "bigint"), "ts": "timestamp"}, time="ts", window="4 seconds", lateness="0 seconds")
    for n, columns in COLUMNS.items()
]
QUERY = "SELECT R.a, S.b FROM R JOIN S ON R.a = S.a JOIN T ON S.b = T.b"
FAST, SLOW = 400, 40  # rows of R, and of S and T, in a batch, which is a second and an epoch
BATCH_ONLY = Policy(estimate_interval=0, estimate_interval_if_drifted=0, solver_pause=0, solver_pause_if_drifted=0, solver_seconds=0)


def tables(batch: int, cells: int) -> dict[str, pa.Table]:
    """Half of the S join R, but few of these a T; the other half joins T, the fewer the more cells there are, but no R."""
    random, half = np.random.default_rng(batch), SLOW // 2
    unique = batch * half + np.arange(half)
    joined, apart = unique + (1 << 40), unique + (1 << 41)
    apart[:2] = joined[:2]
    columns = {
        "R": {"a": random.integers(0, 10, FAST)},
        "S": {
            "a": np.concatenate([random.integers(0, 10, half), -1 - unique]),
            "b": np.concatenate([joined, random.integers(0, cells, half)]),
        },
        "T": {"b": np.concatenate([apart, random.integers(0, cells, half)])},
    }
    return {
        name: pa.table({**of, "ts": pa.array([batch * 1_000_000] * (FAST if name == "R" else SLOW), pa.timestamp("us", "UTC"))})
        for name, of in columns.items()
    }


def mirs(plan: LogicalPlan) -> set[str]:
    return {str(store.key) for store in plan.stores if store.key.join is not None}


def check(run: InProcessEngine, played: list[dict[str, pa.Table]]) -> None:
    """The results are those of the batch join."""
    with duckdb.connect() as connection:
        for name in COLUMNS:
            connection.register(name, pa.concat_tables([batch[name] for batch in played]))
        near = " AND ".join(f"abs(epoch({x}.ts) - epoch({y}.ts)) <= 4" for x, y in ("RS", "RT", "ST"))
        expected = connection.execute(f"{QUERY} WHERE {near}").fetchall()
    results = run.results("q")
    assert Counter(zip(*(column.to_pylist() for column in results.columns), strict=True)) == Counter(expected)
    assert results.num_rows


@pytest.mark.parametrize(("horizon", "introduced"), [(0.5, set()), (10.0, {"(S ⋈ T)"})])
def test_a_store_is_introduced_only_for_a_long_gain(horizon: float, introduced: set[str]) -> None:
    run = InProcessEngine(STREAMS, {"q": QUERY}, workers=1, adaptive=True)
    replanner = run.coordinator.replanner
    replanner.policy = Policy(**{**vars(BATCH_ONLY), "assumed_horizon": horizon})
    played, seen = [], set()
    for batch in range(16):
        played.append(tables(batch, cells=1 if batch < 6 else 8))
        run.batch(played[-1])
        replanner.wait()
        seen |= mirs(run.coordinator.generation.plan)
    assert seen == introduced
    unpaid = replanner.offers.known.unpaid
    if not introduced:
        assert unpaid is not None
        assert mirs(unpaid.plan) == {"(S ⋈ T)"}
        assert unpaid.payback.windows > horizon
        assert "A BETTER PLAN is known, but does not pay" in explain_running(run.coordinator)
    check(run, played)


SETUP = Setup.of(JobSpec(tuple(STREAMS), (QueryRequest("q", QUERY),), workers=1))
RATES = {"R": 1600.0, "S": 160.0, "T": 160.0}
BEFORE = Statistics(rates=RATES, selectivities={"R.a = S.a": 0.05, "S.b = T.b": 0.25})
AFTER = Statistics(rates=RATES, selectivities={"R.a = S.a": 0.05, "S.b = T.b": 0.05})


def ask(replanner: Replanner, plan: LogicalPlan, epoch: int, stability: Stability) -> None:
    replanner.request(ReplanRequest(0, epoch, SETUP, plan, False, stability), lambda: AFTER)
    replanner.wait()


def test_a_plan_that_did_not_pay_is_offered_once_the_data_stays_as_it_is() -> None:
    plan = SETUP.optimize(BEFORE, 5)
    assert mirs(plan) == set()
    window = int(sum(RATES.values()))
    drifting = Stability()
    for _ in range(6):
        drifting = drifting.after_epoch(window * 5 // 4, drifted=True)
    replanner = Replanner(BATCH_ONLY)
    ask(replanner, plan, 1, drifting)
    known = replanner.offers.known
    assert known.offer is None
    assert known.unpaid is not None
    assert known.unpaid.payback.horizon == pytest.approx(1.25)
    assert replanner.offers.take(0, 2) is None
    ask(replanner, plan, 2, drifting.after_epoch(20 * window, drifted=False))
    offer = replanner.offers.take(0, 3)
    assert offer is not None
    assert mirs(offer.plan) == {"(S ⋈ T)"}
    assert offer.payback.net > 0
