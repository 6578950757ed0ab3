"""What stores retained decides what may be missing for a query that is added later."""

from __future__ import annotations

from clash.codec import Codec
from clash.coordinator.lifecycle.retention import (
    MAX_ENTRIES,
    UNKNOWN_TIME,
    Retained,
    RetentionEntry,
    RowRule,
    extend_log,
    is_complete,
    missing_event_times,
    resolve_unknown_time,
    retained_now,
)
from clash.model.query import Query
from clash.model.relation import Relation
from clash.model.stream import Stream
from clash.optimizer import optimize
from clash.plan.topology import Topology
from clash.sql import parse_query

STREAMS = {
    name: Stream.of(name, {"a": "bigint", "b": "bigint", "ts": "timestamp"}, time="ts", window="10 seconds", lateness="1 second")
    for name in "RST"
}
SECOND = 1_000_000


def query(text: str) -> Query:
    return parse_query("q", text, STREAMS)


def topology(text: str, streams: dict[str, Stream] = STREAMS) -> Topology:
    return optimize({"p": text}, streams=streams.values(), time_limit=0).topology


PLAIN = "SELECT R.a FROM R JOIN S ON R.a = S.a"


def lacks(retained: str, text: str) -> set[str]:
    """The streams of which something is missing for a query, when stores retained what another one needs."""
    log = extend_log({}, topology(retained), STREAMS.values(), {"R": 5, "S": 5}, 0, {})
    return {relation.stream for relation in missing_event_times(query(text), log, {})}


def test_columns_rows_and_streams_that_were_not_retained() -> None:
    assert lacks(PLAIN, PLAIN) == set()
    assert lacks(PLAIN, "SELECT R.b FROM R JOIN S ON R.a = S.a") == {"R"}
    assert lacks(PLAIN, "SELECT R.ts FROM R JOIN S ON R.a = S.a AND S.ts >= R.ts") == set()  # every stored tuple has its time
    assert lacks(PLAIN, "SELECT R.a FROM R JOIN T ON R.a = T.a") == {"T"}
    assert lacks(PLAIN, f"{PLAIN} WHERE R.a > 3") == set()
    assert lacks(f"{PLAIN} WHERE R.a > 3", PLAIN) == {"R"}
    assert lacks(f"{PLAIN} WHERE R.a > 3", f"{PLAIN} WHERE R.a > 3 AND S.a < 9") == set()
    assert lacks("SELECT R.a, S.b FROM R JOIN S ON R.a = S.a", "SELECT R.a FROM R JOIN S ON R.a = S.b") == {
        "S"
    }  # NULL keys were not retained


def test_everything_is_retained_of_a_stream_with_keep_all() -> None:
    streams = {name: Stream(s.name, s.columns, s.time, s.window, s.lateness, s.idle, "all") for name, s in STREAMS.items()}
    ((owner, columns, rules),) = retained_now(topology(PLAIN, streams), "R")
    assert (owner, columns, rules) == (None, {"a", "b", "ts"}, {(frozenset(), frozenset())})


def test_what_expired_is_missing() -> None:
    assert missing_event_times(query(PLAIN), {}, {"s_R": 7}) == {Relation("R"): 7}
    assert missing_event_times(query(PLAIN), {}, {"s_R": 7}, "q") == {}  # it has stores of its own


def test_complete_when_watermarks_have_passed_what_is_missing() -> None:
    joined, missing = query(PLAIN), {Relation("R"): 5 * SECOND}
    assert is_complete(joined, {}, {})
    assert not is_complete(joined, missing, {"R": 99 * SECOND, "S": None})
    assert not is_complete(joined, missing, {"R": None, "S": 15 * SECOND})
    assert is_complete(joined, missing, {"R": None, "S": 15 * SECOND + 1})


def test_unread_tuples_are_dated_by_those_that_come_after() -> None:
    assert resolve_unknown_time(UNKNOWN_TIME, STREAMS["T"], {}) == UNKNOWN_TIME
    assert resolve_unknown_time(UNKNOWN_TIME, STREAMS["T"], {"T": 4 * SECOND}) == 5 * SECOND
    assert resolve_unknown_time(3, STREAMS["T"], {"T": 4 * SECOND}) == 3
    log = extend_log({}, topology(PLAIN), STREAMS.values(), {}, 0, {})
    assert [entry.event_time for entry in log["T"]] == [UNKNOWN_TIME]
    log = extend_log(log, topology("SELECT R.a FROM R JOIN T ON R.a = T.a"), STREAMS.values(), {"T": SECOND}, 0, {})
    assert [entry.event_time for entry in log["T"]] == [2 * SECOND, SECOND]


def test_logs_stay_short() -> None:
    log = extend_log({}, topology(PLAIN), STREAMS.values(), {"R": 1}, 0, {})
    assert len(extend_log(log, topology(PLAIN), STREAMS.values(), {"R": 2}, 0, {})["R"]) == 1
    rules = [frozenset([RowRule(frozenset([str(i)]), frozenset())]) for i in range(MAX_ENTRIES)]
    many = {"R": tuple(RetentionEntry(frozenset([Retained(None, frozenset("a"), rule)]), i) for i, rule in enumerate(rules))}
    after = extend_log(many, topology(PLAIN), STREAMS.values(), {"R": 999}, 0, {})
    assert len(after["R"]) == MAX_ENTRIES
    assert after["R"][0] == RetentionEntry(frozenset(), 1)
    shorter = extend_log(many, topology(PLAIN), STREAMS.values(), {"R": 999}, 0, {"s_R": 50})["R"]
    assert len(shorter) < MAX_ENTRIES - 45
    assert shorter[0] == RetentionEntry(frozenset(), 50)
    others = topology("SELECT S.a FROM S JOIN T ON S.a = T.a")
    assert extend_log(many, others, STREAMS.values(), {}, 0, {})["R"] == (
        RetentionEntry(frozenset(), MAX_ENTRIES - 1),
        RetentionEntry(frozenset(), UNKNOWN_TIME),
    )  # no store


def test_a_log_survives_its_record() -> None:
    codec: Codec[tuple[RetentionEntry, ...]] = Codec(tuple[RetentionEntry, ...])
    log = extend_log({}, topology(f"{PLAIN} WHERE R.a > 3"), STREAMS.values(), {"R": 1}, 0, {})
    assert codec.loads(codec.dumps(log["R"])) == log["R"]
