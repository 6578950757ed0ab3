"""What a running plan costs under other statistics than those it was made with."""

from __future__ import annotations

import clash
from clash.coordinator.adaptive.plan_pricing import price_plan
from clash.model.statistics import Statistics
from clash.model.stream import Stream

COLUMNS = {"R": "ab", "S": "bc", "T": "cd", "U": "da"}
STREAMS = [Stream.of(n, {**dict.fromkeys(c, "bigint"), "ts": "timestamp"}, time="ts", window="5 seconds") for n, c in COLUMNS.items()]
QUERIES = {
    "q1": "SELECT R.a, T.d FROM R JOIN S ON R.b = S.b JOIN T ON S.c = T.c WHERE R.a > 3 AND S.ts >= R.ts",
    "q2": "SELECT S.b, U.a FROM S JOIN T ON S.c = T.c JOIN U ON T.d = U.d",
    "q3": "SELECT x.a, y.a AS other FROM R x JOIN R y ON x.b = y.b",
}
WINDOWS = {"q2": {"S": "9 seconds"}}
FIRST = Statistics(rates={"R": 1e5, "S": 10, "T": 10, "U": 500}, selectivities={"R.b = S.b": 0.1, "S.c = T.c": 1e-4})
OTHER = Statistics(rates={"R": 10, "S": 1e5, "T": 1e5, "U": 1e4})


def test_a_plan_is_priced_under_other_statistics() -> None:
    plan = clash.optimize(QUERIES, FIRST, streams=STREAMS, windows=WINDOWS, time_limit=0)
    better = clash.optimize(QUERIES, OTHER, streams=STREAMS, windows=plan.request.windows, time_limit=0, start=plan)
    cost = price_plan(plan, better.request.statistics)
    assert cost is not None
    assert cost >= better.cost
