"""A run of nothing, with what the server reads of one."""

from __future__ import annotations

import json
from threading import Lock
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from clash.errors import ClashError, OptionError, QueryError, TakenNameError, UnknownNameError
from clash.inprocess.engine import InProcessEngine
from clash.model.stream import Stream, check_name
from clash.spark.probe_rates import ProbeRates

PROGRESS: dict[str, Any] = {
    "batch": 7, "generation": 0, "timestamp": "2026-11-18T12:00:00.000+00:00", "input": {"orders": 10, "payments": 8},
    "input_per_second": {"orders": 100.0, "payments": 80.0}, "late": {"orders": 1}, "rejected": {}, "lost": {}, "results": {"paid": 8},
    "stores": {"orders": {"rows": 10, "bytes": 400, "containers": 1}}, "watermarks": {"orders": "2026-11-18T11:59:55+00:00"},
    "delay": {"orders": 0.4}, "seconds": {"batch": 0.1}, "durationMs": {"triggerExecution": 120},
    "backlog": {"orders": {"files": 2}}, "outer": {},
    "totals": {
        "batches": 8, "input": {"orders": 80, "payments": 64}, "late": {"orders": 1}, "rejected": {}, "lost": {},
        "results": {"paid": 64}, "other_results": 0,
    },
}  # fmt: skip


def _stream(name: str) -> Stream:
    return Stream.of(name, {"order_id": "bigint", "amount": "double"})


class FakeRun:
    """Queries come and go at once."""

    def __init__(self) -> None:
        self.is_active = True
        self._lock = Lock()
        self.options: dict[str, Any] = {}
        self.exception: ClashError | None = None
        self.unreadable: ClashError | None = None
        self.progress = json.loads(json.dumps(PROGRESS))
        self.queries = {"paid": "SELECT * FROM orders JOIN payments USING (order_id)"}
        self.complete_from = {"paid": 0}
        self.generations: list[dict[str, Any]] = [
            {
                "generation": 0, "batch": 0, "reason": "start", "queries": ["paid"], "workers": 2, "stores": 2, "cost": 1.0,
                "predicted_old": None, "predicted_new": None, "batches": 8, "measured_before": None, "measured": None,
            }
        ]  # fmt: skip
        self.name = None
        self.probe_rates = ProbeRates()
        self.coordinator = InProcessEngine([_stream("orders"), _stream("payments")], self.queries).coordinator

    def explain(self, format: str = "text") -> str:
        return json.dumps({"format": "clash plan", "stores": [], "queries": []}) if format == "json" else "a plan"

    def progress_after(self, batch: int) -> list[dict[str, Any]]:
        return [self.progress] if batch < self.progress["batch"] else []

    # ---- changes ---------------------------------------------------------------------------------------------------

    def add_query(self, name: str, text: str, **options: Any) -> FakeChange:
        self._check(name, text, options)
        with self._lock:
            if name in self.queries:
                raise TakenNameError("there is a query of that name already", repr(name), "give the new one another name")
            self.queries = {**self.queries, name: text}
        return FakeChange(f"add {name}")

    def replace_query(self, name: str, text: str, **options: Any) -> FakeChange:
        self._check(name, text, options)
        self._find(name)
        self.queries = {**self.queries, name: text}
        return FakeChange(f"replace {name}")

    def remove_query(self, name: str) -> FakeChange:
        self._find(name)
        self.queries = {other: text for other, text in self.queries.items() if other != name}
        return FakeChange(f"remove {name}")

    def rescale(self, workers: int) -> FakeChange:
        return FakeChange(f"rescale to {workers}")

    def refresh(self, table: str) -> FakeChange:
        if table != "customers":
            raise UnknownNameError("unknown table", repr(table), "tables are customers")
        if self.unreadable is not None:
            raise self.unreadable
        return FakeChange(f"refresh {table}")

    def what_if(self, text: str, **options: Any) -> Any:
        self._check("what_if", text, options)
        data = {
            "name": "what_if", "marginal": 0.0, "alone": 1.0, "cost": 1.0, "saved": 0.0, "stores": [], "steps": [], "columns": [],
            "completeness": {"is_complete": True, "needed_watermarks": {}},
        }  # fmt: skip
        return SimpleNamespace(to_data=lambda: data, explain=lambda _format: "{}")

    def last_results(self, query: str, last: int = 20, after: int = -1) -> Any:
        self._find(query)
        rows = pa.table({"order_id": [1, 2**60], "page": ["<script>alert(1)</script>", None]})
        return SimpleNamespace(rows=rows.slice(0, last), batch=max(7, after), has_more=last < 2)

    def _check(self, name: str, text: str, options: dict[str, Any]) -> None:
        check_name("query", name)
        self.options = options
        if not text.startswith("SELECT"):
            raise QueryError("the query cannot be parsed", f"query {name}, line 1, column 1", "write SELECT …")

    def _find(self, name: str) -> None:
        if name not in self.queries:
            raise UnknownNameError("unknown query", repr(name), "queries are paid")


class FakeChange:
    complete_from = None

    def __init__(self, description: str) -> None:
        self.description = description

    def wait(self, timeout: float | None = None) -> int:
        if timeout is None or timeout > 1:
            raise OptionError("a request would wait in a thread")
        return 8
