"""Job files: what is read, and errors that name file, line and key."""
# ruff: noqa: E501

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from urllib.parse import quote

import pytest

from clash import sinks
from clash.errors import ClashError
from clash.job.declared import Declared, declare
from clash.job.load import JobFile, parse_job
from clash.job.variables import Variables

ISSUE = """
name: shop
checkpoint: ./state
streams:
  orders:    { format: parquet, path: ./in/orders, schema: "order_id long, customer long, total double, ts timestamp", time: ts, window: 10 minutes, lateness: 5 seconds }
  payments:  { format: kafka, topic: payments, value: json, schema: "order_id long, amount double, ts timestamp", time: ts, window: 10 minutes, lateness: 5 seconds }
queries:
  paid:      { sql: "SELECT o.order_id, p.amount FROM orders o JOIN payments p USING (order_id)", sink: { parquet: ./out/paid } }
  tracking:  { file: tracking.sql, sink: { kafka: tracking } }
engine: { workers: 4, epoch: 1 second, adaptive: true }
spark:  { master: "local[2]", config: { spark.driver.memory: 4g } }
"""
HEAD = """\
name: shop
checkpoint: ./state
streams:
  R: { format: parquet, path: in/R, schema: "a long, b string, ts timestamp", time: ts, window: 1 minute, lateness: 5 seconds }
  S: { format: parquet, path: in/S, schema: "a long, c string, ts timestamp", time: ts, window: 1 minute, lateness: 5 seconds }
"""
QUERIES = 'queries:\n  q: { sql: "SELECT R.b, S.c FROM R JOIN S ON R.a = S.a" }\n'


def parse(text: str, path: Path = Path("job.yaml"), **environment: str) -> JobFile:
    return parse_job(textwrap.dedent(text), path, environment)


def checked(text: str, path: Path = Path("job.yaml"), **environment: str) -> Declared:
    return declare(parse(text, path, **environment))


def refused(text: str, **environment: str) -> ClashError:
    with pytest.raises(ClashError) as caught:
        checked(text, **environment)
    assert caught.value.what
    assert caught.value.what[0].islower()
    assert caught.value.hint
    assert caught.value.detail.startswith("job.yaml")
    return caught.value


def test_the_file_of_the_issue(tmp_path: Path) -> None:
    (tmp_path / "tracking.sql").write_text("SELECT o.customer FROM orders o JOIN payments p USING (order_id);\n")
    file = parse(ISSUE, tmp_path / "job.yaml")
    declared = declare(file)
    assert [*declared.streams] == ["orders", "payments"]
    assert declared.streams["orders"].window == 600_000_000
    assert declared.queries["tracking"].endswith("USING (order_id)")
    assert declared.sinks == {
        "paid": sinks.Parquet(str(tmp_path / "out/paid")),
        "tracking": sinks.Kafka("tracking", servers="localhost:9092"),
    }
    assert not declared.unchecked
    assert file.checkpoint == str(tmp_path / "state")
    assert file.job.spark.config == {"spark.driver.memory": "4g"}


@pytest.mark.parametrize(
    ("text", "what", "detail"),
    [
        ("", "the file is empty", "job.yaml"),
        ("- a", "the file is not a job", "job.yaml"),
        ("name: [", "the file is not YAML", "job.yaml, line 1"),
        ("name: a\nname: b", "a key is given twice", "job.yaml, line 2: name; the first is in line 1"),
        (HEAD, "a key is missing", "job.yaml, line 1, queries"),
        (HEAD + QUERIES + "stream: {}", "unknown key", "job.yaml, line 8, stream"),
        (HEAD.replace("format: parquet, path: in/S, ", "formt: parquet, "), "unknown key", "job.yaml, line 5, streams.S.formt"),
        (HEAD.replace("path: in/R", "path: 5") + QUERIES, "the value is not a text", "job.yaml, line 4, streams.R.path: 5"),
        (HEAD.replace("window: 1 minute", "window: 1 minit") + QUERIES, "", "job.yaml, line 4, streams.R"),
        (HEAD.replace("time: ts", "time: when") + QUERIES, "the time column is not a column of the stream", "job.yaml, line 4, streams.R"),
        (HEAD.replace("a long", "a lnog") + QUERIES, "unknown type", "job.yaml, line 4, streams.R: 'lnog'"),
        (HEAD.replace("a long", "long") + QUERIES, "the schema cannot be read", "job.yaml, line 4, streams.R: 'long'"),
        (HEAD.replace("a long", "a long, A int") + QUERIES, "two columns of one name", "job.yaml, line 4, streams.R: A"),
        (HEAD.replace("  R:", "  R-1:") + QUERIES, "not a valid stream name", "job.yaml, line 4, streams.R-1"),
        (HEAD + "queries: {}", "the job has no queries", "job.yaml, line 6, queries"),
        (HEAD + "queries:\n  q: {}", "a query without a text", "job.yaml, line 7, queries.q"),
        (HEAD + "queries:\n  q: { sql: x, file: y }", "a query has two texts", "job.yaml, line 7, queries.q"),
        (HEAD + "queries:\n  q: { file: nothing.sql }", "the file of a query cannot be read", "job.yaml, line 7, queries.q: nothing.sql"),
        (HEAD + QUERIES.replace("R.b,", "R.x,"), "", "job.yaml, query q, line 7, column 21"),
        (HEAD + QUERIES + "engine: { workers: 0 }", "", "job.yaml, line 8, engine"),
        (HEAD + QUERIES + "engine: { workers: four }", "the value is not a whole number", "job.yaml, line 8, engine.workers: 'four'"),
        (HEAD + QUERIES + "engine: { workers: true }", "the value is not a whole number", "job.yaml, line 8, engine.workers: True"),
        (HEAD + QUERIES + "engine: { strategy: best }", "not a value of strategy", "job.yaml, line 8, engine.strategy: 'best'"),
        (HEAD + QUERIES + "engine: { epoch: 0 }", "the epoch is out of range", "job.yaml, line 8, engine"),
        (HEAD + QUERIES + "engine: { statistics: none.json }", "", "job.yaml, line 8, engine.statistics"),
        (HEAD + QUERIES.replace(" }", ", sink: { function: f } }"), "a function that takes results needs Python", "job.yaml, line 7"),
        (HEAD + QUERIES.replace(" }", ", sink: { parket: x } }"), "unknown key", "job.yaml, line 7, queries.q.sink.parket"),
        (HEAD + QUERIES.replace(" }", ", sink: {} }"), "a sink without a kind", "job.yaml, line 7, queries.q"),
        (HEAD + QUERIES.replace(" }", ", sink: { console: {}, memory: {} } }"), "a sink has one kind", "job.yaml, line 7"),
        (HEAD + QUERIES.replace(" }", ", sink: { postgres: t } }"), "a PostgreSQL sink without a database", "job.yaml, line 7"),
        (HEAD + QUERIES.replace(" }", ", sink: { kafka: { topic: t, keys: a } } }"), "unknown key", "job.yaml, line 7, queries.q.sink.kafka.keys"),
        (HEAD + QUERIES.replace(" }", ", sink: { kafka: { key: a } } }"), "a key is missing", "job.yaml, line 7, queries.q.sink.kafka.topic"),
        (HEAD + QUERIES.replace(" }", ", mode: update }"), "a mode needs aggregates or DISTINCT", "job.yaml, line 7, queries.q"),
        (HEAD + QUERIES.replace(" }", ", windows: { X: 1 minute } }"), "", "job.yaml"),
        (HEAD.replace("shop", "sh-op") + QUERIES, "not a valid job name", "job.yaml, line 1, name"),
        (HEAD + QUERIES + "? [a]\n: b", "a key is not a text", "job.yaml, line 8"),
        (HEAD + QUERIES + "x-loop: &a { b: *a }", "the file is too large or nested too deep", "job.yaml, line 8"),
        (HEAD + QUERIES + "kafka: { options: { a: [1] } }", "", "job.yaml, line 8, kafka.options.a"),
        (HEAD.replace("path: in/R", "path: in/R, table: t") + QUERIES, "a stream has two places", "job.yaml, line 4, streams.R"),
        (HEAD.replace("format: parquet, path: in/R, schema:", "format: kafka, value: json, schema:") + QUERIES, "a key is missing", "job.yaml, line 4, streams.R.topic"),
        (HEAD.replace('lateness: 5 seconds', 'idle: 5 seconds') + QUERIES, "idle needs lateness", "job.yaml, line 4, streams.R"),
    ],
)  # fmt: skip
def test_what_is_refused_and_where(text: str, what: str, detail: str) -> None:
    error = refused(text)
    assert detail in error.detail
    assert error.what == (what or error.what)


def test_hints() -> None:
    assert refused(HEAD + QUERIES + "stream: {}").hint.startswith("did you mean streams?")
    assert refused(HEAD.replace("format: parquet, path: in/S, ", "formt: parquet, ")).hint.endswith("2 more problems in the file")
    assert "ForeachBatch" in refused(HEAD + QUERIES.replace(" }", ", sink: { foreach: f } }")).hint


def test_lines_of_queries_in_blocks() -> None:
    block = "queries:\n  q:\n    sql: |\n\n      SELECT R.b\n      FROM R JOIN S\n        ON R.a = S.nope\n"
    assert "job.yaml, query q, line 12, column 18" in refused(HEAD + block).detail
    folded = block.replace("|", ">")
    assert "job.yaml, line 8, queries.q.sql" in refused(HEAD + folded).detail


def test_lines_of_queries_in_files(tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("SELECT R.b\nFROM R JOIN S ON R.a = S.nope")
    with pytest.raises(ClashError) as caught:
        checked(HEAD + "queries:\n  q: { file: q.sql }\n", tmp_path / "job.yaml")
    assert "q.sql, query q, line 2" in caught.value.detail


def test_scalars_are_those_of_yaml_1_2() -> None:
    file = parse(HEAD + QUERIES + "spark: { config: { a: on, b: no, c: true, d: 2026-11-18, e: 1_0, f: 010, g: '5', h: 1.5 } }")
    assert file.job.spark.config == {"a": "on", "b": "no", "c": True, "d": "2026-11-18", "e": "1_0", "f": 10, "g": "5", "h": 1.5}


def test_anchors_and_merge_keys() -> None:
    text = """
    x-defaults: &timed { format: parquet, time: ts, window: 1 minute, lateness: 5 seconds }
    name: shop
    checkpoint: state
    streams:
      R: { <<: *timed, path: in/R, schema: "a long, ts timestamp" }
      S: { <<: *timed, path: in/S, schema: "a long, ts timestamp", window: 2 minutes }
    queries:
      q: { sql: "SELECT R.a FROM R JOIN S ON R.a = S.a" }
    """
    streams = checked(text).streams
    assert (streams["R"].window, streams["S"].window) == (60_000_000, 120_000_000)


def test_every_kind_of_error_has_its_place() -> None:
    """Also those that are made of other things than their three parts."""
    schema = 'path: in/S, schema: "a string,'
    error = refused(HEAD.replace('path: in/S, schema: "a long,', schema) + QUERIES)
    assert error.what == "not all relations are joined by an equality"
    assert error.detail.startswith("job.yaml, query q, line 7, column ")


# ---- variables -------------------------------------------------------------------------------------------------------


def test_variables() -> None:
    text = HEAD.replace("./state", "${ROOT}/state") + QUERIES
    text += "engine: { workers: '${N}', adaptive: '${B}', epoch: '$${x}' }\nspark: { master: '${M:-local[1]}', config: { a: 'x${E}y' } }"
    file = parse(text, ROOT="/data", N="8", B="false", E="")
    assert file.checkpoint == "/data/state"
    assert file.job.engine.workers == 8
    assert file.job.engine.adaptive is False
    assert file.job.engine.epoch == "${x}"
    assert file.job.spark.master == "local[1]"
    assert file.job.spark.config == {"a": "xy"}


@pytest.mark.parametrize("reference", ["${NOTHING}", "${}", "${1}", "${A B}", "${OPEN"])
def test_variables_that_are_not_set(reference: str) -> None:
    error = refused(HEAD.replace("./state", f"'{reference}'") + QUERIES)
    assert error.what == "a variable is not set"
    assert error.detail.startswith("job.yaml, line 2, checkpoint: ")


def test_a_variable_cannot_inject_yaml() -> None:
    file = parse(HEAD.replace("./state", "${C}") + QUERIES, C="x\nname: other")
    assert file.job.name == "shop"
    assert file.checkpoint.endswith("x\nname: other")


def test_values_of_variables_are_never_shown() -> None:
    secret = "hunter2secret"
    epoch = HEAD + QUERIES + "engine: { epoch: '${S}' }"
    texts = [
        epoch,
        HEAD + QUERIES + "engine: { workers: '${S}' }",
        HEAD + QUERIES + "engine: { strategy: '${S}' }",
        HEAD + QUERIES + "kafka: { options: { sasl.password: ['${S}'] } }",
        HEAD + QUERIES.replace(" }", ", sink: { postgres: { table: t, dsn: 'host=db passwort=${S}' } } }"),
        HEAD.replace("path: in/R", "'${S}': 1") + QUERIES,
    ]
    for text in texts:
        assert secret not in str(refused(text, S=secret)), text
    assert "${S}" in refused(epoch, S=secret).detail
    assert "'${S}'" in refused(epoch, S="ab").detail
    assert "'ab'" not in str(refused(epoch, S="ab").args)


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("R.b", "'${S}'", "queries.q.sql"),
        ("name: shop", "name: '${S}'", "name"),
        ("window: 1 minute", "window: '${S}'", "streams.R.window"),
        ("a long, b", "a ${S}, b", "streams.R.schema"),
        ("lateness: 5 seconds", "lateness: '${S}'", "streams.R.lateness"),
        ('S.a"', 'S.a", windows: { R: "${S}" }', "queries.q.windows.R"),
    ],
)
def test_what_the_plan_shows_has_no_variables(old: str, new: str, key: str) -> None:
    error = refused((HEAD + QUERIES).replace(old, new), S="hunter2secret")
    assert error.what == "this key cannot have a variable"
    assert error.detail.endswith(key)


VALUES = ["hunter2", "pa'ss", 'pa"ss\\word', "two\nlines", "tür kei", "/srv/data/", "x'y", "7"]


@pytest.mark.parametrize("value", VALUES)
def test_a_value_is_hidden_as_it_is_and_in_quotes(value: str) -> None:
    variables = Variables({"S": value})
    variables.replace("${S}")
    shown = {f"'{value}'", repr(value), json.dumps(value), json.dumps(value, ensure_ascii=False), f'"{quote(value)}"', f"key='{value}'"}
    for text in shown:
        hidden = variables.hide(f"before {text} after")
        assert "${S}" in hidden
        assert value.strip("/") not in hidden.replace("${S}", "")


def test_a_short_value_is_hidden_as_a_word() -> None:
    variables = Variables({"A": "ab", "N": "5"})
    variables.replace("${A}${N}")
    assert variables.hide("ab, a/ab/c: 'ab' but a cable of line 5, port='5', workers=5") == (
        "${A}, a/${A}/c: '${A}' but a cable of line 5, port='${N}', workers=${N}"
    )


# ---- what only Spark knows ---------------------------------------------------------------------------------------------


def test_streams_without_a_schema_are_left_to_spark() -> None:
    declared = checked(HEAD.replace('schema: "a long, b string, ts timestamp", ', "") + QUERIES)
    assert declared.without_schema == ["R"]
    assert declared.unchecked == {"q": "R has no schema in the file"}


def test_expressions_that_spark_computes_are_left_to_spark() -> None:
    declared = checked(HEAD + QUERIES.replace("R.b", "reverse(soundex(R.b))"))
    assert declared.unchecked["q"] == "Spark computes SOUNDEX(`b`)"
    assert not declared.checked


def test_tables() -> None:
    table = "tables:\n  names: { format: csv, path: n.csv, schema: 'a long, name string', refresh: 10 minutes }\n"
    query = "queries:\n  q: { sql: 'SELECT R.b, n.name FROM R JOIN names n ON R.a = n.a' }\n"
    declared = checked(HEAD + table + query)
    assert declared.streams["names"].is_table
    assert not declared.unchecked
    assert "names has no schema" in checked(HEAD + table.replace("schema: 'a long, name string', ", "") + query).unchecked["q"]
    assert "line 7, tables.names" in refused(HEAD + table.replace("10 minutes", "10 minits") + query).detail
    assert "line 7, tables.names.refesh" in refused(HEAD + table.replace("refresh", "refesh") + query).detail
    assert refused(HEAD + table.replace("names:", "r:") + query).what == "there is a stream of that name already"
