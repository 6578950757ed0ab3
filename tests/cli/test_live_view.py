"""The live view of a run."""

from __future__ import annotations

import io

from rich.console import Console
from tests.server.fake_run import PROGRESS

from clash.cli.live_view import live_view


def shown(queries: dict[str, str]) -> str:
    console = Console(file=io.StringIO(), width=120, highlight=False)
    console.print(live_view("shop", "http://127.0.0.1:4242/?token=x", PROGRESS, queries, 60))
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_streams_queries_and_stores() -> None:
    text = shown({"paid": "SELECT …", "[bold]": "SELECT …"})
    assert "batch 7 in 0.10 s" in text
    assert "144 rows read" in text
    assert "10 rows in 1 stores" in text
    assert "2 files" in text
    assert "+8" in text
    assert "[bold]" in text


def test_many_queries_are_cut() -> None:
    assert "and 70 more queries" in shown({f"q{number}": "" for number in range(100)})
