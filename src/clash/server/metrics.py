"""`/metrics`: what a run does, for Prometheus. Read from the run when it is scraped; between scrapes nothing is kept or counted.

A label has at most `MAX_LABELS` values, those with the largest numbers; the sum of the others has the value `_other`, which is no name of a
stream, store or query. Names, units and labels are listed in `METRICS`, which docs/monitoring.md is checked against.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

MAX_LABELS = 200
OTHER = "_other"
CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metric(NamedTuple):
    kind: Literal["counter", "gauge"]
    labels: tuple[str, ...]
    help: str


METRICS: Mapping[str, Metric] = {
    "clash_up": Metric("gauge", (), "1 while the run is active, 0 when it has ended."),
    "clash_failed": Metric("gauge", (), "1 if the run has failed."),
    "clash_batches": Metric("counter", (), "Micro-batches committed since the start of the process."),
    "clash_last_batch": Metric("gauge", (), "The number of the last committed micro-batch."),
    "clash_last_commit_timestamp_seconds": Metric("gauge", (), "When the last micro-batch was committed."),
    "clash_generation": Metric("gauge", (), "The number of the plan in force."),
    "clash_batch_seconds": Metric("gauge", ("part",), "Where the time of the last micro-batch went; part batch is all of it."),
    "clash_input_rows": Metric("counter", ("stream",), "Rows read since the start of the process."),
    "clash_late_rows": Metric("counter", ("stream",), "Rows that came too late, or without a time, since the start of the process."),
    "clash_rejected_records": Metric("counter", ("stream",), "Kafka records that are no rows of their stream, since the start."),
    "clash_lost_records": Metric("counter", ("stream",), "Kafka records that were deleted before they were read, since the start."),
    "clash_delay_seconds": Metric("gauge", ("stream",), "How far the newest event time of a stream is behind the clock."),
    "clash_watermark_timestamp_seconds": Metric("gauge", ("stream",), "The watermark of a stream, as event time."),
    "clash_backlog": Metric("gauge", ("stream", "unit"), "What a source has that is not read yet, in files or rows."),
    "clash_results": Metric("counter", ("query",), "Results since the start of the process."),
    "clash_query_complete": Metric("gauge", ("query",), "1 if no result of the query can be missing for want of retained rows."),
    "clash_store_rows": Metric("gauge", ("store",), "Rows in a store."),
    "clash_store_bytes": Metric("gauge", ("store",), "Bytes of a store on disk."),
    "clash_store_containers": Metric("gauge", ("store",), "Files of a store."),
    "clash_queries": Metric("gauge", (), "Live queries."),
    "clash_event_streams": Metric("gauge", (), "Pages and programs that receive events."),
}
_PER_STREAM = {
    "clash_input_rows": "input", "clash_late_rows": "late", "clash_rejected_records": "rejected", "clash_lost_records": "lost",
}  # fmt: skip


class RunCollector(Collector):
    """`listeners`: how many receive events."""

    def __init__(self, run: Any, name: str | None, listeners: Callable[[], int]) -> None:
        self._run, self._name, self._listeners = run, name, listeners

    def collect(self) -> Iterator[Any]:
        info = InfoMetricFamily("clash_job", "The job.")
        info.add_metric([], {"name": self._name or ""})
        yield info
        for name, samples in self._samples().items():
            yield _family(name, samples)

    def _samples(self) -> dict[str, dict[tuple[str, ...], float]]:
        run = self._run
        progress, totals, queries = run.progress, run.progress["totals"], run.queries
        complete = run.complete_from
        samples: dict[str, dict[tuple[str, ...], float]] = {
            "clash_up": {(): float(run.is_active)},
            "clash_failed": {(): float(run.exception is not None)},
            "clash_batches": {(): totals["batches"]},
            "clash_last_batch": {(): progress["batch"]},
            "clash_last_commit_timestamp_seconds": {} if progress["timestamp"] is None else {(): _seconds(progress["timestamp"])},
            "clash_generation": {} if progress["generation"] is None else {(): progress["generation"]},
            "clash_batch_seconds": _by_label(
                {name: value for name, value in progress["seconds"].items() if isinstance(value, int | float)}
            ),
            "clash_delay_seconds": _by_label(progress["delay"], total=max),
            "clash_watermark_timestamp_seconds": _by_label(
                {stream: _seconds(text) for stream, text in progress["watermarks"].items() if text is not None and not text.isdigit()},
                total=min,
            ),
            "clash_backlog": {
                (stream, unit): number
                for unit in ("files", "rows")
                for (stream,), number in _by_label({name: b[unit] for name, b in progress["backlog"].items() if unit in b}).items()
            },
            "clash_results": _by_label(totals["results"], more=totals["other_results"]),
            "clash_query_complete": _by_label({name: float(complete.get(name) is not None) for name in queries}, total=min),
            "clash_queries": {(): len(queries)},
            "clash_event_streams": {(): self._listeners()},
        }
        for name, part in _PER_STREAM.items():
            samples[name] = _by_label(totals[part])
        for part in ("rows", "bytes", "containers"):
            samples[f"clash_store_{part}"] = _by_label({store: size[part] for store, size in progress["stores"].items()})
        return samples


def metrics_text(run: Any, name: str | None, listeners: Callable[[], int]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(RunCollector(run, name, listeners))
    return generate_latest(registry)


def _family(name: str, samples: Mapping[tuple[str, ...], float]) -> Any:
    metric = METRICS[name]
    family = (CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily)(name, metric.help, labels=metric.labels)
    for labels, value in samples.items():
        family.add_metric(list(labels), value)
    return family


def _by_label(
    values: Mapping[str, float], total: Callable[[Iterable[float]], float] = sum, more: float = 0
) -> dict[tuple[str, ...], float]:
    """The largest values by name, and the others as one. `more`: of names that are forgotten."""
    ranked = sorted(values.items(), key=lambda item: (-item[1], item[0]))
    shown: dict[tuple[str, ...], float] = {(name,): value for name, value in sorted(ranked[:MAX_LABELS])}
    rest = [value for _, value in ranked[MAX_LABELS:]] + ([more] if more else [])
    return {**shown, **({(OTHER,): total(rest)} if rest else {})}


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
