"""What stores keep, for how long, and by what they are looked up; what travels."""

from __future__ import annotations

import clash
from clash.model.stream import Stream
from clash.plan.topology import ProbeRule, RowFilter, Store, Topology

SECOND = 1_000_000
STREAMS = [
    Stream.of("R", {"a": "bigint", "b": "bigint", "p": "string", "q": "string", "ts": "timestamp"}, time="ts", window="5 seconds"),
    Stream.of("S", {"a": "bigint", "c": "bigint", "p": "string", "ts": "timestamp"}, time="ts", window="10 seconds"),
    Stream.of("T", {"c": "bigint", "p": "string"}, keep="all"),
]


def topology(streams: list[Stream] = STREAMS, **texts: str) -> Topology:
    return clash.optimize(texts, streams=streams, workers=3, cost="probe", mirs=False).topology


def of(made: Topology, stream: str) -> Store:
    return next(store for store in made.stores if store.stream == stream)


def columns(store: Store) -> str:
    return " ".join(attribute.column for attribute in store.columns)


def test_columns_are_what_queries_name_and_time_is_always_there() -> None:
    made = topology(q1="SELECT R.p, R.ts FROM R JOIN S ON R.a = S.a WHERE R.b > 1", q2="SELECT S.p FROM S JOIN T ON S.c = T.c")
    assert columns(of(made, "R")) == "a b p"
    assert columns(of(made, "S")) == "a c p"
    assert columns(of(made, "T")) == "c p"  # keep="all"


def test_row_filters_of_all_queries() -> None:
    made = topology(
        q1="SELECT R.p FROM R JOIN S ON R.a = S.a WHERE R.b > 1", q2="SELECT x.p FROM R x JOIN R y ON x.a = y.b WHERE x.b > 1 AND y.q = 'k'"
    )
    row_filters = {(tuple(map(str, f.filters)), f.keys) for f in of(made, "R").row_filters}
    assert row_filters == {(("<(1, R.b)",), ("a",)), (("=(R.q, 'k')",), ("b",))}
    made = topology(q1="SELECT R.p FROM R JOIN S ON R.a = S.a WHERE R.b > 1", q2="SELECT R.p FROM R JOIN S ON R.a = S.a")
    assert of(made, "R").row_filters == (RowFilter((), ("a",)),)  # the first lets nothing in that the second does not
    assert topology(q1="SELECT S.p FROM S JOIN T ON S.c = T.c").store["s_T"].row_filters == (RowFilter((), ()),)


def test_horizons_follow_windows_and_bounds() -> None:
    made = topology(q1="SELECT R.p FROM R JOIN S ON R.a = S.a")
    assert (of(made, "R").horizon, of(made, "S").horizon) == (5 * SECOND, 10 * SECOND)
    made = topology(q1="SELECT R.p FROM R JOIN S ON R.a = S.a AND S.ts <= R.ts + INTERVAL 2 SECONDS")
    assert (of(made, "R").horizon, of(made, "S").horizon) == (2 * SECOND, 10 * SECOND)
    made = topology(q1="SELECT S.p FROM S JOIN T ON S.c = T.c")
    assert (of(made, "S").horizon, of(made, "T").horizon) == (10 * SECOND, None)


def test_access_paths_are_the_keys_of_probes() -> None:
    made = topology(q1="SELECT R.p FROM R JOIN S ON R.a = S.a AND R.b = S.c JOIN T ON S.c = T.c")
    paths = {tuple(a.column for a in path) for path in of(made, "S").access}
    assert paths <= {("a", "c"), ("c",)}
    assert ("a", "c") in paths


def test_only_what_is_needed_travels() -> None:
    made = topology(q1="SELECT T.p FROM R JOIN S ON R.a = S.a AND R.q < S.p JOIN T ON S.c = T.c")
    carried = {(str(e.carries), " ".join(map(str, e.columns))) for e in made.edges if e.carries is not None}
    assert ("R", "R.a R.q") in carried
    assert ("R ⋈ S", "S.c") in carried


def test_predicates_are_checked_as_soon_as_they_can_be() -> None:
    made = topology(q1="SELECT T.p FROM R JOIN S ON R.a = S.a AND R.q < S.p JOIN T ON S.c = T.c WHERE S.p > 'a'")
    rules = {(str(r.origin), str(r.bound)): r for r in made.rules if isinstance(r, ProbeRule)}
    first = rules["R", "R ⋈ S"]
    assert (len(first.filters), len(first.residuals)) == (1, 1)
    assert (len(rules["R", "R ⋈ S ⋈ T"].filters), len(rules["R", "R ⋈ S ⋈ T"].residuals)) == (0, 0)


def test_joining_on_time() -> None:
    made = topology(q1="SELECT R.p FROM R JOIN S ON R.ts = S.ts")
    assert [[str(a) for a in path] for path in of(made, "R").access] == [["R.ts"]]
    assert columns(of(made, "R")) == "p"
