"""The streams of a shop, and twenty joins over them that are added and removed while the streams run.

Invariant: every row has a unique number, and every query returns the numbers of its parts, so that these identify a result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from clash_bench.adaptive_feed import TICK, Columns

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "orders": ("id", "customer", "product", "amount"),
    "payments": ("id", "order_id", "account", "amount"),
    "shipments": ("id", "order_id", "carrier", "depot"),
    "clicks": ("id", "customer", "product"),
}
CUSTOMERS, PRODUCTS, ACCOUNTS, DEPOTS, CARRIERS, MAX_AMOUNT = 1000, 2000, 2000, 2000, 8, 100
_MAX_DELAY = 2  # seconds within which an order is paid and shipped


@dataclass(frozen=True)
class ShopScript:
    """Every stream has `rate` tuples per second; payments and shipments refer to orders that arrive slightly earlier or later."""

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
        numbers = np.arange(first, last, dtype=np.int64)
        distinct = {
            "customer": CUSTOMERS, "product": PRODUCTS, "account": ACCOUNTS, "depot": DEPOTS, "carrier": CARRIERS, "amount": MAX_AMOUNT,
        }  # fmt: skip

        def column(name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
            if name == "id":
                return numbers
            if name == "order_id":
                return numbers - random.integers(-self.rate // 5, _MAX_DELAY * self.rate, len(numbers))
            return random.integers(0, distinct[name], len(numbers))

        return {stream: {name: column(name) for name in names} for stream, names in COLUMNS.items()}


@dataclass(frozen=True)
class JoinQuery:
    """A query, from which both our SQL and that of DuckDB are built."""

    name: str
    parts: tuple[tuple[str, str], ...]
    """Aliases and their streams."""
    where: tuple[str, ...]
    """All conditions, in SQL that Spark and DuckDB share."""
    history: bool = True

    @property
    def text(self) -> str:
        return f"SELECT {self.numbers} FROM {self.tables} WHERE {' AND '.join(self.where)}"

    @property
    def numbers(self) -> str:
        """The SELECT list: the number of every part."""
        return ", ".join(f"{alias}.id AS n_{alias}" for alias, _ in self.parts)

    @property
    def tables(self) -> str:
        """The FROM list."""
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
# reads all four streams all the time, because rows of a stream that no query reads are skipped and not counted
BASE = JoinQuery(
    "base",
    (("o", "orders"), ("p", "payments"), ("s", "shipments"), ("c", "clicks")),
    (PAID, SHIPPED, CUSTOMER, "o.amount > 95"),
)
_JOINS: tuple[tuple[str, ...], ...] = (  # aliases, then conditions
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
QUERIES = tuple(
    JoinQuery(f"q{i:02d}", tuple((alias, _ALIASES[alias]) for alias in aliases), conditions, history=i % 4 != 0)
    for i, (aliases, *rest) in enumerate(_JOINS, start=1)
    if (conditions := tuple(rest))
)
