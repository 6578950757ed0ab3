"""Generated data of a web shop: a function of a seed, written into one folder per stream slice by slice.

Rows arrive up to `DISORDER` after their event time, so none is later than the streams' lateness allows. A file gets its final name only
when it is complete; until then its name starts with a dot, which Spark ignores.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

Longs = npt.NDArray[np.int64]

START = int(datetime(2026, 1, 5, 9, 0, tzinfo=UTC).timestamp()) * 1_000_000
SECOND = 1_000_000
SLICE = 30 * SECOND  # event time that one file of a stream covers
DISORDER = 20 * SECOND
CUSTOMERS = 20_000
SEED = 7
PAGES = ("/home", "/sale", "/search", "/shoes", "/coats", "/lamps", "/cart")
WAREHOUSES = ("Bremen", "Kassel", "Ulm")
HUBS = ("Hamburg", "Hanover", "Fulda", "Nuremberg", "Munich")
SUBJECTS = ("where is it?", "wrong size", "two instead of one", "refund, please", "thank you")


class Surge(NamedTuple):
    """From this minute on there are so many times as many tickets."""

    minute: int
    factor: int


def history(minutes: int, rates: Mapping[str, float], seed: int = SEED, surge: Surge | None = None) -> dict[str, pa.Table]:
    """All streams in order of arrival, with an additional column `slice`: the number of the file that a row belongs to.

    `rates`: tuples per minute of clicks, orders and tickets; the other streams follow from the orders.
    """
    rng = np.random.default_rng(seed)
    span = minutes * 60 * SECOND

    def delayed(times: Longs, seconds: float) -> Longs:
        """The times, each with an exponentially distributed delay of that mean."""
        return times + (rng.exponential(seconds, times.size) * SECOND).astype(np.int64)

    def random_times(rate: float) -> Longs:
        return rng.integers(0, span, int(rate * minutes))

    def random_customers(count: int) -> Longs:
        return rng.integers(0, CUSTOMERS, count)

    ordered = np.sort(random_times(rates["orders"]))
    orders = np.arange(1, ordered.size + 1)
    totals = rng.integers(500, 50_000, orders.size)
    sent = np.sort(rng.permutation(orders.size)[: orders.size * 5 // 6])  # one order in six is never shipped
    shipments = np.arange(1, sent.size + 1) + 1_000_000
    shipped = delayed(ordered[sent], 150)
    clicked, wrote = random_times(rates["clicks"]), random_times(rates["tickets"])
    if surge is not None and surge.minute < minutes:
        more = int(rates["tickets"] * (minutes - surge.minute) * (surge.factor - 1))
        wrote = np.concatenate([wrote, rng.integers(surge.minute * 60 * SECOND, span, more)])
    first_scan = delayed(shipped, 60)
    second_scan = delayed(first_scan, 60)
    streams = {
        "clicks": (clicked, {"customer_id": random_customers(clicked.size), "page": _pick(rng, PAGES, clicked.size)}),
        "orders": (ordered, {"order_id": orders, "customer_id": random_customers(orders.size), "total": _money(totals)}),
        "payments": (delayed(ordered, 60), {"order_id": orders, "amount": _money(totals)}),
        "shipments": (shipped, {"order_id": orders[sent], "shipment_id": shipments, "warehouse": _pick(rng, WAREHOUSES, sent.size)}),
        "scans": (
            np.concatenate([first_scan, second_scan, delayed(second_scan, 60)]),
            {"shipment_id": np.tile(shipments, 3), "hub": _pick(rng, HUBS, 3 * sent.size)},
        ),
        "tickets": (wrote, {"customer_id": random_customers(wrote.size), "subject": _pick(rng, SUBJECTS, wrote.size)}),
    }
    return {name: _in_arrival_order(rng, times, columns, span) for name, (times, columns) in streams.items()}


def _pick(rng: np.random.Generator, words: tuple[str, ...], count: int) -> pa.Array:
    return pa.array(words).take(pa.array(rng.integers(0, len(words), count)))


def _money(cents: Longs) -> pa.Array:
    """Cents as decimal(10,2), built from the buffer: 128 bits each, of which the upper half is zero."""
    halves = np.zeros((cents.size, 2), np.int64)
    halves[:, 0] = cents
    return pa.Array.from_buffers(pa.decimal128(10, 2), cents.size, [None, pa.py_buffer(halves)])


def _in_arrival_order(rng: np.random.Generator, times: Longs, columns: Mapping[str, Longs | pa.Array], span: int) -> pa.Table:
    """The rows that arrive before the end, in order of arrival."""
    arrival = times + rng.integers(0, DISORDER, times.size)
    order = np.argsort(arrival, kind="stable")
    order = order[arrival[order] < span]
    timestamps = pa.array(START + times, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    values = {name: pa.array(column) for name, column in columns.items()}
    return pa.table({**values, "ts": timestamps, "slice": pa.array(arrival // SLICE)}).take(pa.array(order))


def write_slice(tables: Mapping[str, pa.Table], number: int, folder: Path) -> None:
    """Writes one file per stream that has rows in the slice, into `folder`/stream."""
    for name, table in tables.items():
        start, end = np.searchsorted(table["slice"].to_numpy(), [number, number + 1])
        if end > start:
            hidden = folder / name / f".{number:05d}.parquet"
            pq.write_table(table.drop_columns("slice").slice(start, end - start), hidden)
            hidden.rename(folder / name / f"{number:05d}.parquet")


class Feeder(threading.Thread):
    """Writes a slice every `pause` seconds: `slices` of them, with `rows` rows in total; `done` of them are written so far."""

    def __init__(self, tables: Mapping[str, pa.Table], folder: Path, slices: int, pause: float) -> None:
        super().__init__(name="clash-demo-feeder", daemon=True)
        self.tables, self.folder, self.slices, self.pause = tables, folder, slices, pause
        self.rows = sum(table.num_rows for table in tables.values())
        self.done = 0
        self.error: Exception | None = None
        self._stop_requested = threading.Event()
        for name in tables:
            (folder / name).mkdir(parents=True)

    def run(self) -> None:
        try:
            for number in range(self.slices):
                write_slice(self.tables, number, self.folder)
                self.done = number + 1
                if self._stop_requested.wait(self.pause):
                    return
        except Exception as error:  # for example a full disk; the main thread raises it
            self.error = error

    def stop(self) -> None:
        self._stop_requested.set()
        self.join()
