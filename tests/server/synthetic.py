"""Snapshots of a run that there is not: twenty queries over ten streams, planned for real, with tuples that are made up."""

from __future__ import annotations

import random
from typing import Any

import clash
from clash.explain.picture import picture_data

STREAMS = ("clicks", "orders", "payments", "shipments", "scans", "tickets", "returns", "reviews", "carts", "sessions")
KEYS = {
    "clicks": "session", "orders": "customer order_id", "payments": "order_id", "shipments": "order_id shipment", "scans": "shipment",
    "tickets": "customer", "returns": "order_id shipment", "reviews": "customer order_id", "carts": "session customer",
    "sessions": "session customer",
}  # fmt: skip
HOSTILE = "<img src=x onerror=alert(1)>"


def plan(queries: int = 20, seed: int = 4) -> clash.Plan:
    chosen = random.Random(seed)
    columns = {name: KEYS[name].split() for name in STREAMS}
    texts: dict[str, str] = {}
    while len(texts) < queries:
        names = [chosen.choice(STREAMS)]
        joins = ""
        while len(names) < chosen.choice((2, 3, 3, 4)):
            pairs = [(a, b, key) for a in names for b in STREAMS if b not in names for key in columns[a] if key in columns[b]]
            a, b, key = chosen.choice(pairs)
            names.append(b)
            joins += f" JOIN {b} ON {a}.{key} = {b}.{key}"
        texts[f"{'_'.join(name[:4] for name in names)}_{len(texts) + 1}"] = (
            f"SELECT {names[0]}.{columns[names[0]][0]} FROM {names[0]}{joins}"
        )
    streams = [
        clash.Stream.of(name, {**dict.fromkeys(columns[name], "bigint"), "ts": "timestamp"}, time="ts", window="10 minutes")
        for name in STREAMS
    ]
    rates = {name: 10.0 ** chosen.uniform(2.5, 4.5) for name in STREAMS}
    return clash.optimize(texts, clash.Statistics(rates=rates, default_selectivity=1e-4), streams=streams, workers=8, time_limit=0)


def history(batches: int = 90, first: int = 4622) -> list[dict[str, Any]]:
    """As `clash.server.snapshot.history` has it: a batch per second, one of them slow, and some with late rows."""
    chosen = random.Random(2)
    stores = [store.id for store in plan().topology.stores]
    entries = []
    for at in range(batches):
        scale = chosen.uniform(0.8, 1.3) * (12 if at == 70 else 1)
        driver = {"offsets": 0.02, "decide": 0.01, "job": 0.2, "commit": 0.03, "sinks": 0.01, "spark": 0.02}
        entries.append(
            {
                "batch": first + at, "generation": 3, "timestamp": f"2026-11-18T11:{58 + at // 60}:{at % 60:02d}.000+00:00",
                "driver": {name: value * scale for name, value in driver.items()}, "tasks": {"probe": 0.5 * scale, "store": 0.2 * scale},
                "seconds": 0.25 * scale, "trigger": 0.29 * scale, "input": {name: chosen.randrange(200) for name in STREAMS},
                "late": {"orders": 3, "scans": 1} if at % 20 == 9 else {}, "results": {}, "delay": 1.2,
                "stores": dict.fromkeys(stores, 1_000 + 10 * at),
            }
        )  # fmt: skip
    return entries


def snapshots(queries: int = 20) -> dict[str, Any]:
    """By name of an event, as `clash.server.snapshot.EVENTS` takes them of a run."""
    chosen = random.Random(1)
    planned = plan(queries)
    topology = {"generation": 3, **picture_data(planned, planned.topology)}
    rates = {stream: planned.request.statistics.rate(stream) / 600 for stream in STREAMS}
    steps = {step["id"]: [10 ** chosen.uniform(0, 3.5), 10 ** chosen.uniform(0, 3)] for step in topology["steps"]}
    stores = {
        store["id"]: {"rows": int(store["rows"]), "bytes": int(store["rows"] * 60), "containers": 8, "window_share": chosen.random()}
        for store in topology["stores"]
    }
    named = [query["name"] for query in topology["queries"]]
    costs = {query["name"]: query for query in topology["queries"]}
    stream = {"rows": 123_456, "late": 0, "rejected": 0, "lost": 0, "delay": 1.2, "backlog": {"files": 1}, "watermark": None}
    return {
        "status": {
            "active": True, "error": None, "name": HOSTILE, "batch": 4711, "generation": 3, "workers": 8, "queries": len(named),
            "streams": 10,
            "stores": len(stores), "rows": 1, "bytes": sum(store["bytes"] for store in stores.values()), "input_rate": sum(rates.values()),
            "result_rate": 4200.0, "pending": [], "checkpoint": None, "progress": {},
        },
        "topology": topology,
        "flows": {
            "generation": 3, "batch": 4711, "seconds": 10.0, "streams": {name: {**stream, "rate": rate} for name, rate in rates.items()},
            "steps": steps, "stores": stores, "results": {name: 10 ** chosen.uniform(0, 3) for name in named},
            "workers": [0.1, 0.11, 0.12, 0.1, 0.13, 0.22, 0.12, 0.1],
        },
        "queries": [
            {
                "name": name, "sql": f"SELECT '{HOSTILE}'", "results": 1_234_567, "last_batch": 12, "complete_from": 0, "rate": 12.5,
                "latency": {"p50": 0.21, "p95": 0.48}, "share": costs[name]["share"], "in_full": costs[name]["in_full"], "sink": "parquet",
                "columns": ["a"], "streams": costs[name]["streams"], "batch": 0, "history": True,
            }
            for name in named
        ],
        "batch": {
            "batch": 4711, "generation": 3, "timestamp": "2026-11-18T12:00:00.000+00:00", "input": {}, "late": {}, "results": {},
            "watermarks": {},
            "driver": {"offsets": 0.02, "decide": 0.01, "job": 0.2, "commit": 0.03, "sinks": 0.01, "spark": 0.02},
            "tasks": {"source": 0.1, "ingest": 0.2, "store": 0.2, "probe": 0.5, "route": 0.1, "shuffle": 0.1, "sink": 0.1},
            "seconds": 0.27, "trigger": 0.31,
        },
        "generations": [
            {
                "generation": number, "batch": 100 * number, "reason": reason, "queries": named, "workers": 8, "stores": 18, "cost": 1e6,
                "predicted_old": 1.4e6 if number == 2 else None, "predicted_new": 1e6 if number == 2 else None, "batches": 100,
                "measured_before": 14.2 if number else None, "measured": 9.8,
            }
            for number, reason in enumerate(("start", "query q added", f"statistics moved: {HOSTILE}", "workers 4 → 8"))
        ],
        "quality": {
            "generation": 3, "strategy": "global", "cost": 1.1e6, "best": 1e6, "bound": 9e5, "proven": False, "plan_cost": 1.1e6,
            "stores": len(stores), "rows": 5e5, "held": {"rows": 480_000, "bytes": 29_000_000},
            "independent": {"cost": 3.4e6, "stores": 63, "rows": 1.9e6},
        },
    }  # fmt: skip
