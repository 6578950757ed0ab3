"""Proposals of names: plausible misspellings only."""

from __future__ import annotations

import pytest

from clash.hints import did_you_mean
from clash.sql.functions import NAMES


@pytest.mark.parametrize(
    ("name", "candidates", "proposed"),
    [
        ("nmae", ["a", "name"], "name"),
        ("amuont", ["amount", "account"], "amount"),
        ("Amount", ["amount"], "amount"),
        ("customerid", ["customer_id"], "customer_id"),
        ("paymets", ["payments", "payment"], "payments"),
        ("frist", ["first"], "first"),
        ("Q1", ["q1", "q2"], "q1"),
        ("LENGHT", NAMES, "LENGTH"),
        ("SUBSTING", NAMES, "SUBSTRING"),
        ("LOWR", NAMES, "LOWER"),
        ("DATEDIF", NAMES, "DATEDIFF"),
        ("RAND", NAMES, None),
        ("CBRT", NAMES, None),
        ("MAX", NAMES, None),
        ("MD5", NAMES, None),
        ("b", ["a"], None),
        ("ts", ["st"], None),
        ("sum", ["num"], None),
        ("", ["a", ""], None),
        ("x" * 5000, ["x" * 4999], None),
    ],
)
def test_proposals(name: str, candidates: list[str], proposed: str | None) -> None:
    assert did_you_mean(name, candidates, "otherwise") == (f"did you mean {proposed}?" if proposed else "otherwise")
