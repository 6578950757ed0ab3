"""The control API: what each route answers, and what it refuses."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pyarrow as pa
import pytest
from starlette.testclient import TestClient
from tests.server.conftest import TOKEN
from tests.server.fake_run import FakeRun

from clash import sinks
from clash.errors import ClashError, DataError
from clash.job.variables import Variables
from clash.server import app
from clash.server.access import Access
from clash.server.context import JobContext
from clash.server.limits import MAX_BODY, MAX_SQL
from clash.server.threads import Threads
from clash.server.values import table_to_data

SQL = "SELECT * FROM orders JOIN payments USING (order_id)"


def problem(response: Any, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["status"] == status
    assert body["what"] == body["title"]
    assert {"detail", "hint"} <= body.keys()
    return body


def test_reading(client: TestClient) -> None:
    assert client.get("/api/status").json()["active"] is True
    assert {store["name"] for store in client.get("/api/topology").json()["stores"]} == {"orders", "payments"}
    assert [entry["batch"] for entry in client.get("/api/history?after=6").json()] == [7]
    assert [query["name"] for query in client.get("/api/queries").json()] == ["paid"]
    assert client.get("/api/generations").json()[0]["reason"] == "start"
    assert client.get("/api/openapi.json").json()["openapi"].startswith("3.1")
    assert client.head("/api/queries").status_code == 200


def test_values_of_variables_are_hidden_in_errors_and_paths_alone(run: FakeRun) -> None:
    """Names and data may happen to be what a variable has: with another in its place, the page would find no such stream."""
    variables = Variables({"TOPIC": "orders", "ROOT": "/srv/secret"})
    variables.replace("${TOPIC} ${ROOT}")
    run.coordinator.uri = "file:/srv/secret/state"
    run.exception = ClashError("the file cannot be read", "'/srv/secret/in/1'", "look at /srv/secret")
    with closing(Threads()) as threads:
        guard = app.create_app(run, Access(TOKEN, "127.0.0.1", 4242), threads, JobContext("shop", hide=variables.hide))
        client = TestClient(guard, base_url="http://127.0.0.1:4242", headers={"Authorization": f"Bearer {TOKEN}"})
        status = client.get("/api/status").json()
        assert status["checkpoint"] == "file:${ROOT}/state"
        assert status["error"] == {"what": "the file cannot be read", "detail": "'${ROOT}/in/1'", "hint": "look at ${ROOT}"}
        assert {store["name"] for store in client.get("/api/topology").json()["stores"]} == {"orders", "payments"}
        assert "FROM orders JOIN" in client.get("/api/queries").json()[0]["sql"]
        assert client.get("/api/results/paid").json()["columns"][0]["name"] == "order_id"
        assert client.post("/api/what-if", json={"sql": "orders"}).json()["detail"].startswith("query")
        assert "'${TOPIC}'" in client.get("/api/results/orders").json()["detail"]
        run.is_active = False
        with client.stream("GET", "/api/events") as response:
            text = "".join(response.iter_text())
        assert "/srv/secret" not in text
        assert '"orders"' in text


def test_adding_replacing_removing(client: TestClient, run: FakeRun) -> None:
    response = client.post("/api/queries?wait=5", json={"name": "sent", "sql": SQL})
    assert response.status_code == 202
    assert response.json() == {"change": "add sent", "batch": 8, "complete_from": None}
    assert run.options == {"sink": None, "history": True, "windows": None, "mode": None}
    body = {"sql": SQL, "windows": {"orders": "5 seconds"}, "history": False, "mode": "update", "sink": {"console": {"rows": 3}}}
    assert client.put("/api/queries/sent", json=body).json()["change"] == "replace sent"
    assert run.options == {"sink": sinks.Console(3), "history": False, "windows": {"orders": "5 seconds"}, "mode": "update"}
    assert client.delete("/api/queries/sent").json()["change"] == "remove sent"
    assert [*run.queries] == ["paid"]
    assert client.post("/api/workers", json={"workers": 8}).json()["change"] == "rescale to 8"


def test_a_table_is_refreshed(client: TestClient, run: FakeRun) -> None:
    assert client.post("/api/tables/customers/refresh?wait=5").json() == {"change": "refresh customers", "batch": 8, "complete_from": None}
    assert problem(client.post("/api/tables/nothing/refresh"), 404)["what"] == "unknown table"
    problem(client.get("/api/tables/customers/refresh"), 405)
    run.unreadable = DataError("table customers cannot be read", "the file is gone", "put it back")
    assert problem(client.post("/api/tables/customers/refresh"), 422)["detail"] == "the file is gone"


def test_a_sink_counts_from_the_folder_of_the_job(client: TestClient, run: FakeRun) -> None:
    client.post("/api/queries", json={"name": "a", "sql": SQL, "sink": {"parquet": "out/a"}})
    assert run.options["sink"] == sinks.Parquet(str(Path.cwd() / "out/a"))


def test_a_request_cannot_name_any_sink_unless_the_server_says_so(client: TestClient, run: FakeRun) -> None:
    sink = {"kafka": {"topic": "t", "options": {"plugin.library.paths": "/tmp/evil.so"}}}
    body = problem(client.post("/api/queries", json={"name": "a", "sql": SQL, "sink": sink}), 422)
    assert "plugin.library.paths" in body["detail"]
    assert "--ui-any-sink" in body["hint"]
    assert "a" not in run.queries
    with closing(Threads()) as threads:
        guard = app.create_app(run, Access(TOKEN, "127.0.0.1", 4242), threads, JobContext("shop", any_sink=True))
        free = TestClient(guard, base_url="http://127.0.0.1:4242", headers={"Authorization": f"Bearer {TOKEN}"})
        assert free.post("/api/queries", json={"name": "a", "sql": SQL, "sink": {"parquet": "/tmp/x"}}).status_code == 202
        assert run.options["sink"] == sinks.Parquet("/tmp/x")


def test_results(client: TestClient) -> None:
    body = client.get("/api/results/paid").json()
    assert body["rows"] == [[1, "<script>alert(1)</script>"], [str(2**60), None]]
    assert [column["name"] for column in body["columns"]] == ["order_id", "page"]
    assert client.get("/api/results/paid?last=1").json()["has_more"] is True
    for last in ("0", "1001", "-1", "x", "1e3", "", "٣"):
        problem(client.get("/api/results/paid", params={"last": last}), 422)


def test_what_if(client: TestClient, run: FakeRun) -> None:
    assert client.post("/api/what-if", json={"sql": SQL}).json()["plan"] == {}
    assert client.post("/api/what-if", json={"sql": SQL, "replaces": "paid"}).json()["saved"] == 0
    assert run.options["replaces"] == "paid"
    problem(client.post("/api/what-if", json={"sql": SQL, "replaces": "../x"}), 422)
    body = problem(client.post("/api/what-if", json={"sql": "SELEC"}), 422)
    assert body["what"] == "the query cannot be parsed"
    assert body["hint"] == "write SELECT …"


def test_names_that_do_not_exist_or_are_taken(client: TestClient) -> None:
    for response in (
        client.put("/api/queries/nothing", json={"sql": SQL}),
        client.delete("/api/queries/nothing"),
        client.get("/api/results/nothing"),
    ):
        assert problem(response, 404)["what"] == "unknown query"
    assert problem(client.post("/api/queries", json={"name": "paid", "sql": SQL}), 409)["what"].startswith("there is a query")


@pytest.mark.parametrize("name", ["../x", "..%2fx", "a/b", "a\\b", "", "x" * 101, "ä", "a b", "1a", "a\u0000", "$(rm)", "<b>", ".", ".."])
def test_names_with_tricks_are_refused(client: TestClient, run: FakeRun, name: str) -> None:
    problem(client.post("/api/queries", json={"name": name, "sql": SQL}), 422)
    response = client.delete("/api/queries/" + name.replace("%", "%25").replace("/", "%2F").replace("\u0000", "%00"))
    assert response.status_code in (404, 405)
    assert [*run.queries] == ["paid"]


@pytest.mark.parametrize(
    "body",
    [
        [], 1, "x", {}, {"name": "a"}, {"sql": SQL}, {"name": 1, "sql": SQL}, {"name": "a", "sql": ["x"]}, {"name": "a", "sql": ""},
        {"name": "a", "sql": SQL, "other": 1}, {"name": "a", "sql": SQL, "sink": {"foreach": "x"}}, {"name": "a", "sql": SQL, "sink": {}},
        {"name": "a", "sql": SQL, "sink": {"console": {}, "memory": {}}}, {"name": "a", "sql": SQL, "sink": {"console": {"rows": 0}}},
        {"name": "a", "sql": SQL, "sink": {"postgres": "t"}}, {"name": "a", "sql": SQL, "sink": {"kafka": "../x"}},
        {"name": "a", "sql": SQL, "mode": "x"}, {"name": "a", "sql": SQL, "history": 1}, {"name": "a", "sql": "x" * (MAX_SQL + 1)},
    ],
)  # fmt: skip
def test_bodies_that_are_refused(client: TestClient, run: FakeRun, body: Any) -> None:
    problem(client.post("/api/queries", json=body), 422)
    assert [*run.queries] == ["paid"]


def test_bodies_that_are_no_json(client: TestClient) -> None:
    json_type = {"Content-Type": "application/json"}
    problem(client.post("/api/queries", content=b"{", headers=json_type), 400)
    problem(client.post("/api/queries", content=b"\xff", headers=json_type), 400)
    problem(client.post("/api/queries", content=b"[" * 100_000, headers=json_type), 400)
    problem(client.post("/api/queries", content=b"", headers=json_type), 400)
    problem(client.post("/api/queries", content=b"{}", headers={"Content-Type": "text/plain"}), 415)
    problem(client.post("/api/queries", data={"name": "a"}), 415)
    problem(client.post("/api/queries", content=b" " * (MAX_BODY + 1), headers=json_type), 413)


@pytest.mark.parametrize("workers", [0, -1, 1025, 10**30, 1.5, "4", True, None])
def test_numbers_of_workers(client: TestClient, workers: Any) -> None:
    problem(client.post("/api/workers", json={"workers": workers}), 422)


def test_an_ended_run(client: TestClient, run: FakeRun) -> None:
    run.is_active = False
    run.exception = ClashError("the disk is full", "/data", "make room")
    assert problem(client.delete("/api/queries/paid"), 409)["what"] == "the run has ended"
    assert client.get("/api/status").json()["error"]["what"] == "the disk is full"


def test_methods_and_addresses_that_are_not_there(client: TestClient) -> None:
    assert "GET" in problem(client.post("/api/status", json={}), 405)["detail"] or client.post("/api/status").headers["allow"]
    problem(client.patch("/api/queries/paid"), 405)
    problem(client.get("/api"), 404)
    problem(client.get("/api/other"), 404)


def test_a_failure_is_a_problem_without_a_trace(client: TestClient, run: FakeRun) -> None:
    run.progress = None
    body = problem(client.get("/api/status"), 500)
    assert "Traceback" not in str(body)


def test_changes_are_limited_in_rate(run: FakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "CHANGES", (1e-6, 3))
    with closing(Threads()) as threads:
        application = app.create_app(run, Access(TOKEN, "127.0.0.1", 4242), threads)
        client = TestClient(application, base_url="http://127.0.0.1:4242", headers={"Authorization": f"Bearer {TOKEN}"})
        codes = [client.post("/api/workers", json={"workers": 2}).status_code for _ in range(5)]
        assert codes == [202, 202, 202, 429, 429]
        assert client.get("/api/status").status_code == 200


def test_one_of_many_concurrent_additions_of_a_name_succeeds(http: httpx.Client, run: FakeRun) -> None:
    with ThreadPoolExecutor(8) as threads:
        added = [threads.submit(http.post, "/api/queries", json={"name": "same", "sql": SQL}) for _ in range(16)]
        codes = sorted(each.result().status_code for each in added)
    assert codes == [202, *[409] * 15]
    assert run.queries["same"] == SQL


def test_values_of_all_types() -> None:
    rows = pa.table(
        {
            "d": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
            "t": pa.array([1_000_000], pa.timestamp("us", "UTC")),
            "b": pa.array([b"\x00\xff"]),
            "f": pa.array([float("nan")]),
            "s": pa.array([{"a": [1, 2**60]}]),
            "n": pa.nulls(1),
            "y": pa.array([True]),
        }
    )
    data = table_to_data(rows)
    assert data["rows"] == [["1.50", "1970-01-01T00:00:01+00:00", "AP8=", "nan", {"a": [1, str(2**60)]}, None, True]]
