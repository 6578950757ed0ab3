"""Metrics: what is scraped, bounded whatever a run has, and documented by name."""

from __future__ import annotations

import json
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient
from tests.server.fake_run import FakeRun

from clash.server.metrics import MAX_LABELS, METRICS, OTHER, metrics_text

DOCS = Path(__file__).parents[2] / "docs"


def families(run: FakeRun) -> dict[str, dict[tuple[str, ...], float]]:
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(metrics_text(run, "shop", lambda: 3).decode()):
        found[family.name] = {tuple(sample.labels.values()): sample.value for sample in family.samples}
    return found


def test_a_scrape(client: TestClient, anonymous: TestClient) -> None:
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain")
    assert 'clash_input_rows_total{stream="orders"} 80.0' in response.text
    del anonymous.headers["Authorization"]
    assert anonymous.get("/metrics").status_code == 401


def test_every_listed_metric_is_there() -> None:
    found = families(FakeRun())
    assert found.keys() - {"clash_job_info"} == METRICS.keys()
    assert found["clash_job_info"] == {("shop",): 1.0}
    assert found["clash_results"] == {("paid",): 64.0}
    assert found["clash_delay_seconds"] == {("orders",): 0.4}
    assert found["clash_backlog"] == {("orders", "files"): 2.0}
    assert found["clash_query_complete"] == {("paid",): 1.0}
    assert found["clash_event_streams"] == {(): 3.0}
    assert found["clash_up"] == {(): 1.0}


def test_labels_are_bounded_and_nothing_is_lost() -> None:
    run = FakeRun()
    run.progress["totals"]["results"] = {f"q{number}": number for number in range(1000)}
    run.progress["totals"]["other_results"] = 7
    run.progress["backlog"] = {f"s{number}": {"files": 1} for number in range(1000)}
    run.queries = {f"q{number}": "" for number in range(1000)}
    found = families(run)
    assert len(found["clash_results"]) == MAX_LABELS + 1
    assert sum(found["clash_results"].values()) == sum(range(1000)) + 7
    assert found["clash_results"][OTHER,] == sum(range(1000 - MAX_LABELS)) + 7
    assert len(found["clash_backlog"]) == MAX_LABELS + 1
    assert sum(found["clash_backlog"].values()) == 1000
    assert len(found["clash_query_complete"]) == MAX_LABELS + 1


def test_before_the_first_batch() -> None:
    run = FakeRun()
    empty = {"timestamp": None, "generation": None, "batch": -1, "seconds": {}, "stores": {}, "watermarks": {}, "delay": {}, "backlog": {}}
    run.progress.update(empty)
    assert families(run)["clash_last_commit_timestamp_seconds"] == {}


def test_the_page_and_the_dashboard_know_the_metrics() -> None:
    page = (DOCS / "monitoring.md").read_text()
    for name, metric in METRICS.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}{'_total' if metric.kind == 'counter' else ''}` |"))
        assert metric.help in row
        assert all(f"`{label}`" in row for label in metric.labels)
    dashboard = json.loads((DOCS / "grafana-dashboard.json").read_text())
    used = set(re.findall(r"clash_\w+", json.dumps(dashboard["panels"])))
    exposed = {f"{name}_total" if metric.kind == "counter" else name for name, metric in METRICS.items()}
    assert used <= exposed
    assert exposed - used <= {"clash_failed", "clash_last_batch", "clash_store_containers", "clash_event_streams"}
