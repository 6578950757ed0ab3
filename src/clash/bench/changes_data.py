"""A shop's streams, and twenty joins over them that come and go while the streams run.

Invariant: every row has a number of its own, and every query gives the numbers of its parts: a result is known by them alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from clash.bench.adaptive_feed import TICK, Columns

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "orders": ("id", "customer", "product", "amount"),
    "payments": ("id", "order_id", "account", "amount"),
    "shipments": ("id", "order_id", "carrier", "depot"),
    "clicks": ("id", "customer", "product"),
}
CUSTOMERS, PRODUCTS, ACCOUNTS, DEPOTS, CARRIERS, MOST = 1000, 2000, 2000, 2000, 8, 100
_RECENT = 2  # seconds within which an order is paid and shipped


@dataclass(frozen=True)
class Shop:
    """Every stream at `rate` tuples per second; payments and shipments are of orders that came a little earlier, or come a little later."""

    rate: int
    seconds: float
    seed: int = 1

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        return COLUMNS

    @property
    def ticks(self) -> int:
        return round(self.seconds / TICK)

    def rows(self, tick: int) -> Mapping[str, Columns]:
        random = np.random.default_rng([self.seed, tick])
        first, last = round(tick * TICK * self.rate), round((tick + 1) * TICK * self.rate)
        at = np.arange(first, last, dtype=np.int64)
        kinds = {
            "customer": CUSTOMERS, "product": PRODUCTS, "account": ACCOUNTS, "depot": DEPOTS, "carrier": CARRIERS, "amount": MOST,
        }  # fmt: skip

        def column(name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
            if name == "id":
                return at
            if name == "order_id":
                return at - random.integers(-self.rate // 5, _RECENT * self.rate, len(at))
            return random.integers(0, kinds[name], len(at))

        return {stream: {name: column(name) for name in names} for stream, names in COLUMNS.items()}


@dataclass(frozen=True)
class Question:
    """`parts`: aliases and their streams; `where`: all conditions, in words that Spark and DuckDB share."""

    name: str
    parts: tuple[tuple[str, str], ...]
    where: tuple[str, ...]
    history: bool = True

    @property
    def text(self) -> str:
        return f"SELECT {self.numbers} FROM {self.tables} WHERE {' AND '.join(self.where)}"

    @property
    def numbers(self) -> str:
        return ", ".join(f"{alias}.id AS n_{alias}" for alias, _ in self.parts)

    @property
    def tables(self) -> str:
        return ", ".join(f"{stream} {alias}" for alias, stream in self.parts)


_ALIASES = {
    "o": "orders",
    "q": "orders",
    "p": "payments",
    "r": "payments",
    "s": "shipments",
    "t": "shipments",
    "c": "clicks",
    "d": "clicks",
}
PAID, SHIPPED, BOTH = "o.id = p.order_id", "o.id = s.order_id", "p.order_id = s.order_id"
CUSTOMER, PRODUCT = "o.customer = c.customer", "o.product = c.product"
# reads all four streams all the time: rows of a stream that nobody reads are passed over, and not counted
BASE = Question(
    "base",
    (("o", "orders"), ("p", "payments"), ("s", "shipments"), ("c", "clicks")),
    (PAID, SHIPPED, CUSTOMER, "o.amount > 95"),
)
_ASKED: tuple[tuple[str, ...], ...] = (  # aliases, then conditions
    ("op", PAID),
    ("os", SHIPPED),
    ("oc", CUSTOMER),
    ("ops", PAID, SHIPPED),
    ("oc", CUSTOMER, PRODUCT),
    ("ps", BOTH),
    ("op", PAID, "o.amount > 50"),
    ("os", SHIPPED, "s.carrier = 3"),
    ("opc", PAID, CUSTOMER),
    ("oq", "o.customer = q.customer", "o.id < q.id"),
    ("osc", SHIPPED, CUSTOMER),
    ("opsc", PAID, SHIPPED, CUSTOMER),
    ("pr", "p.account = r.account", "p.id < r.id"),
    ("oc", PRODUCT),
    ("ops", PAID, SHIPPED, "o.amount > 20", "s.carrier < 4"),
    ("op", PAID, "o.amount <> p.amount"),
    ("st", "s.depot = t.depot", "s.id < t.id"),
    ("opq", PAID, "o.customer = q.customer", "o.id < q.id"),
    ("cd", "c.product = d.product", "c.id < d.id"),
    ("opsc", PAID, SHIPPED, PRODUCT, "p.amount > 10"),
)
QUESTIONS = tuple(
    Question(f"q{at:02d}", tuple((alias, _ALIASES[alias]) for alias in aliases), conditions, history=at % 4 != 0)
    for at, (aliases, *rest) in enumerate(_ASKED, start=1)
    if (conditions := tuple(rest))
)
