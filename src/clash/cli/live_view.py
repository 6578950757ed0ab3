"""What a run does, on a terminal, as it does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

_MAX_QUERIES = 30  # that are listed
_MAX_STREAMS = 30


def live_view(name: str, address: str | None, progress: Mapping[str, Any], queries: Mapping[str, str], seconds: float) -> RenderableType:
    """`seconds`: since the start."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from clash.explain.wording import bytes_text
    from clash.spark.progress_text import backlog_text, duration_text

    totals, stores = progress["totals"], progress["stores"].values()
    rows = sum(totals["input"].values())
    stored, size = sum(store["rows"] for store in stores), bytes_text(sum(store["bytes"] for store in stores))
    head = Text.assemble((name, "bold"), f"  {duration_text(seconds)}", (f"   {address}" if address else "", "cyan"))
    batch = "no batch yet" if progress["timestamp"] is None else f"batch {progress['batch']} in {progress['seconds']['batch']:.2f} s"
    numbers = Text.assemble(
        batch, "   ", (f"{rows:,}", "bold"), f" rows read, {rows / max(seconds, 1):,.0f} per second   ",
        (f"{stored:,}", "bold"), f" rows in {len(stores)} stores, {size}",
    )  # fmt: skip
    streams = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading, align in (
        ("stream", "left"),
        ("rows", "right"),
        ("per second", "right"),
        ("late", "right"),
        ("delay", "right"),
        ("backlog", "right"),
    ):
        streams.add_column(heading, justify="right" if align == "right" else "left", no_wrap=True)
    for stream in sorted({*totals["input"], *progress["delay"], *progress["backlog"]})[:_MAX_STREAMS]:
        streams.add_row(
            Text(stream, "bold"), f"{totals['input'].get(stream, 0):,}", f"{progress['input_per_second'].get(stream, 0):,.0f}",
            f"{totals['late'].get(stream, 0):,}", duration_text(progress["delay"].get(stream)),
            backlog_text(progress["backlog"].get(stream)),
        )  # fmt: skip
    answered = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    answered.add_column("query", style="bold cyan", no_wrap=True)
    answered.add_column("results", justify="right")
    answered.add_column("in the last batch", justify="right", style="green")
    for query in list(queries)[:_MAX_QUERIES]:
        answered.add_row(Text(query), f"{totals['results'].get(query, 0):,}", f"+{progress['results'].get(query, 0):,}")
    more = len(queries) - _MAX_QUERIES
    return Group(head, numbers, streams, answered, *([Text(f"and {more} more queries", "dim")] if more > 0 else []))
