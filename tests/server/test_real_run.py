"""The API over a run on Spark: every route, while rows arrive, and the results against DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pyarrow as pa
import pytest
from tests.spark import files

import clash
from clash.server.schemas import ANSWERS, WHAT_IF
from clash.server.serve import Server

PAIR = "SELECT R.a, R.x FROM R JOIN S ON R.a = S.a"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("real")
    files.write(made / "in", range(3))
    return made


@pytest.fixture(scope="module")
def run(spark: Any, folder: Path) -> Iterator[Any]:
    engine = clash.Engine(spark, folder / "checkpoint", epoch=1, workers=2)
    files.declare(engine, spark, folder / "in")
    engine.query("all", files.JOIN)
    engine.query("memory", PAIR, sink=clash.sinks.Memory())
    engine.query("counted", "SELECT R.a, count(*) AS n FROM R JOIN S ON R.a = S.a GROUP BY R.a")
    started = engine.start()
    started.process_all_available()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def http(run: Any) -> Iterator[httpx.Client]:
    server: Server = clash.serve(run, "127.0.0.1:0", any_sink=True)
    headers = {"Authorization": f"Bearer {server.access.token}"}
    with httpx.Client(base_url=server.address, headers=headers, trust_env=False, timeout=60) as client:
        yield client
    server.stop()


def test_snapshots(http: httpx.Client) -> None:
    status = http.get("/api/status").json()
    assert status["active"]
    assert status["progress"]["totals"]["input"]["R"] == 360
    assert {query["name"] for query in http.get("/api/queries").json()} == {"all", "memory", "counted"}
    assert http.get("/api/topology").status_code == 200
    assert http.get("/api/generations").json()


def test_answers_are_what_the_document_says(http: httpx.Client) -> None:
    jsonschema_rs = pytest.importorskip("jsonschema_rs")
    for name, schema in ANSWERS.items():
        jsonschema_rs.validator_for(schema).validate(http.get(f"/api/{name}").json())
    answer = http.post("/api/what-if", json={"sql": PAIR, "replaces": "memory"}).json()
    jsonschema_rs.validator_for(WHAT_IF).validate(answer)


def test_results_are_the_newest(http: httpx.Client, run: Any) -> None:
    everything = run.results("all").toArrow()
    body = http.get("/api/results/all?last=1000").json()
    assert body["batch"] == run.progress["batch"]
    assert [column["name"] for column in body["columns"]] == everything.column_names
    assert len(body["rows"]) == min(1000, everything.num_rows)
    assert body["has_more"] == (everything.num_rows > 1000)
    found = run.last_results("all", everything.num_rows)
    assert not found.has_more
    assert files.counted(found.rows.cast(everything.schema)) == files.counted(everything)
    assert run.last_results("all", 5, after=found.batch).rows.num_rows == 0
    few = run.last_results("all", 5)
    assert few.has_more
    assert files.counted(few.rows) <= files.counted(found.rows)
    assert len(http.get("/api/results/memory?last=3").json()["rows"]) == 3
    assert isinstance(run.last_results("memory", 3).rows, pa.Table)
    assert http.get("/api/results/counted?last=1000").json()["rows"]


def test_a_query_is_assessed_added_replaced_and_removed(http: httpx.Client, run: Any, folder: Path) -> None:
    answer = http.post("/api/what-if", json={"sql": PAIR}).json()
    assert answer["marginal"] == pytest.approx(0, abs=1e-6)
    assert answer["completeness"]["is_complete"]
    assert http.post("/api/queries", json={"name": "more", "sql": PAIR, "sink": {"parquet": str(folder / "out")}}).json()["batch"] is None
    files.write(folder / "in", [3])
    run.process_all_available()
    assert "more" in run.queries
    rows = http.get("/api/results/more").json()["rows"]
    assert rows
    assert http.put("/api/queries/more", json={"sql": "SELECT S.b FROM R JOIN S ON R.a = S.a"}).status_code == 202
    assert http.post("/api/workers", json={"workers": 3}).status_code == 202
    files.write(folder / "in", [4])
    run.process_all_available()
    assert http.get("/api/results/more").json()["columns"] == [{"name": "b", "type": "int64"}]
    assert http.delete("/api/queries/more").json()["change"] == "remove more"
    files.write(folder / "in", [5])
    run.process_all_available()
    assert "more" not in run.queries
    everything = run.results("all").toArrow()
    assert files.counted(everything) == files.expected(folder / "in", everything.schema)


def test_what_the_engine_refuses(http: httpx.Client) -> None:
    refused = http.post("/api/what-if", json={"sql": "SELECT R.nothing FROM R JOIN S ON R.a = S.a"})
    assert refused.status_code == 422
    assert refused.json()["what"]
    assert "line 1" in refused.json()["detail"]
    assert http.post("/api/queries", json={"name": "all", "sql": PAIR}).status_code == 409
    assert http.delete("/api/queries/nothing").status_code == 404
    assert http.get("/api/results/nothing").status_code == 404
