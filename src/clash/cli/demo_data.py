"""Some minutes of a web shop, made up from a seed, and dropped into folders piece by piece as time goes by.

Rows arrive up to `DISORDER` after their time, so none is later than the streams' lateness allows. A file has its name only once it is
complete: Spark leaves names with a dot in front alone.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

Longs = npt.NDArray[np.int64]

OPENS = int(datetime(2026, 1, 5, 9, 0, tzinfo=UTC).timestamp()) * 1_000_000
SECOND = 1_000_000
SLICE = 30 * SECOND  # of the shop's time, in one file per stream
DISORDER = 20 * SECOND
CUSTOMERS = 20_000
SEED = 7
PAGES = ("/home", "/sale", "/search", "/shoes", "/coats", "/lamps", "/cart")
HOUSES = ("Bremen", "Kassel", "Ulm")
HUBS = ("Hamburg", "Hanover", "Fulda", "Nuremberg", "Munich")
SUBJECTS = ("where is it?", "wrong size", "two instead of one", "refund, please", "thank you")


def history(minutes: int, rates: Mapping[str, float], seed: int = SEED) -> dict[str, pa.Table]:
    """All streams in order of arrival, with one more column, `slice`. `rates`: tuples per minute of clicks, orders and tickets."""
    rng = np.random.default_rng(seed)
    span = minutes * 60 * SECOND

    def wait(times: Longs, seconds: float) -> Longs:
        return times + (rng.exponential(seconds, times.size) * SECOND).astype(np.int64)

    def moments(rate: float) -> Longs:
        return rng.integers(0, span, int(rate * minutes))

    def people(count: int) -> Longs:
        return rng.integers(0, CUSTOMERS, count)

    ordered = np.sort(moments(rates["orders"]))
    orders = np.arange(1, ordered.size + 1)
    totals = rng.integers(500, 50_000, orders.size)
    sent = np.sort(rng.permutation(orders.size)[: orders.size * 5 // 6])  # one order in six is never shipped
    shipments = np.arange(1, sent.size + 1) + 1_000_000
    shipped = wait(ordered[sent], 150)
    clicked, wrote = moments(rates["clicks"]), moments(rates["tickets"])
    first = wait(shipped, 60)
    second = wait(first, 60)
    found = {
        "clicks": (clicked, {"customer_id": people(clicked.size), "page": _pick(rng, PAGES, clicked.size)}),
        "orders": (ordered, {"order_id": orders, "customer_id": people(orders.size), "total": _money(totals)}),
        "payments": (wait(ordered, 60), {"order_id": orders, "amount": _money(totals)}),
        "shipments": (shipped, {"order_id": orders[sent], "shipment_id": shipments, "warehouse": _pick(rng, HOUSES, sent.size)}),
        "scans": (
            np.concatenate([first, second, wait(second, 60)]),
            {"shipment_id": np.tile(shipments, 3), "hub": _pick(rng, HUBS, 3 * sent.size)},
        ),
        "tickets": (wrote, {"customer_id": people(wrote.size), "subject": _pick(rng, SUBJECTS, wrote.size)}),
    }
    return {name: _arrived(rng, times, columns, span) for name, (times, columns) in found.items()}


def _pick(rng: np.random.Generator, words: tuple[str, ...], count: int) -> pa.Array:
    return pa.array(words).take(pa.array(rng.integers(0, len(words), count)))


def _money(cents: Longs) -> pa.Array:
    """Cents as decimal(10,2): 128 bits each, the upper half empty."""
    halves = np.zeros((cents.size, 2), np.int64)
    halves[:, 0] = cents
    return pa.Array.from_buffers(pa.decimal128(10, 2), cents.size, [None, pa.py_buffer(halves)])


def _arrived(rng: np.random.Generator, times: Longs, columns: Mapping[str, Longs | pa.Array], span: int) -> pa.Table:
    """What arrives before the end, in order of arrival."""
    arrival = times + rng.integers(0, DISORDER, times.size)
    order = np.argsort(arrival, kind="stable")
    order = order[arrival[order] < span]
    stamps = pa.array(OPENS + times, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    whole = pa.table({**{name: pa.array(column) for name, column in columns.items()}, "ts": stamps, "slice": pa.array(arrival // SLICE)})
    return whole.take(pa.array(order))


def write_slice(tables: Mapping[str, pa.Table], number: int, folder: Path) -> None:
    """One file per stream, into `folder`/stream, if there are rows for it."""
    for name, table in tables.items():
        start, end = np.searchsorted(table["slice"].to_numpy(), [number, number + 1])
        if end > start:
            hidden = folder / name / f".{number:05d}.parquet"
            pq.write_table(table.drop_columns("slice").slice(start, end - start), hidden)
            hidden.rename(folder / name / f"{number:05d}.parquet")


class Feeder(threading.Thread):
    """Drops a slice every `pause` seconds; `slices` of them with `rows` in all, `done` so far."""

    def __init__(self, tables: Mapping[str, pa.Table], folder: Path, slices: int, pause: float) -> None:
        super().__init__(name="clash-demo-feeder", daemon=True)
        self.tables, self.folder, self.slices, self.pause = tables, folder, slices, pause
        self.rows = sum(table.num_rows for table in tables.values())
        self.done = 0
        self.error: Exception | None = None
        self._halt = threading.Event()
        for name in tables:
            (folder / name).mkdir(parents=True)

    def run(self) -> None:
        try:
            for number in range(self.slices):
                write_slice(self.tables, number, self.folder)
                self.done = number + 1
                if self._halt.wait(self.pause):
                    return
        except Exception as error:  # a full disk: the one who watches raises it
            self.error = error

    def halt(self) -> None:
        self._halt.set()
        self.join()
