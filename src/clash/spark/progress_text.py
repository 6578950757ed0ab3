"""Progress as plain data that prints as a table: a dict and a list, with their own text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from clash.explain.wording import bytes_text


class BatchProgress(dict[str, Any]):
    """The last batch and the totals, as `run.progress` returns them."""

    def __str__(self) -> str:
        return progress_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return progress_html(self)


class RecentProgress(list[dict[str, Any]]):
    """The last batches, as `run.recent_progress` returns them."""

    def __str__(self) -> str:
        return recent_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _html_table(*_recent_table(self)) if self else escape(recent_text(self))


Table = tuple[Sequence[str], Sequence[Sequence[str]]]


def progress_text(progress: Mapping[str, Any]) -> str:
    if progress["timestamp"] is None:
        return _head(progress)
    lines = [line for table in _tables(progress) for line in _table(*table)]
    return "\n".join([_head(progress), *lines, _sums(progress)])


def progress_html(progress: Mapping[str, Any]) -> str:
    """For a notebook."""
    if progress["timestamp"] is None:
        return f"<p>{escape(_head(progress))}</p>"
    tables = "".join(_html_table(*table) for table in _tables(progress))
    return f"<p>{escape(_head(progress))}</p>{tables}<p>{escape(_sums(progress))}</p>"


def _head(progress: Mapping[str, Any]) -> str:
    if progress["timestamp"] is None:
        last = progress["batch"]
        return "no batch yet in this run" if last < 0 else f"no batch yet in this run; the last one before it is {last}"
    return f"batch {progress['batch']} of generation {progress['generation']}, {progress['timestamp']}, {_seconds(progress)}"


def _tables(progress: Mapping[str, Any]) -> list[Table]:
    """Of streams, rejected and lost records, queries, stores and reference tables."""
    streams = sorted({*progress["input"], *progress["watermarks"], *progress["delay"], *progress["backlog"]})
    rows = [
        [
            stream,
            f"{progress['input'].get(stream, 0):,}",
            f"{progress['input_per_second'].get(stream, 0):,.0f}",
            f"{progress['late'].get(stream, 0):,}",
            duration_text(progress["delay"].get(stream)),
            backlog_text(progress["backlog"].get(stream)),
            progress["watermarks"].get(stream) or "-",
        ]
        for stream in streams
    ]
    bad = [
        [stream, f"{progress['rejected'].get(stream, 0):,}", f"{progress['lost'].get(stream, 0):,}"]
        for stream in sorted({*progress["rejected"], *progress["lost"]})
    ]
    sizes = [
        [store, f"{size['rows']:,}", bytes_text(size["bytes"]), f"{size['containers']:,}"]
        for store, size in sorted(progress["stores"].items())
    ]
    tables = [
        [
            name,
            f"{table['version']:,}",
            f"{table['rows']:,}",
            bytes_text(table["bytes"]),
            duration_text(table["age"]),
            table["error"] or "-",
        ]
        for name, table in sorted(progress.get("tables", {}).items())
    ]
    return [
        (["stream", "rows", "rows/s", "late", "delay", "backlog", "watermark"], rows),
        (["stream", "rejected", "lost"], bad),
        (["query", "results"], [[query, f"{count:,}"] for query, count in sorted(progress["results"].items())]),
        (["store", "rows", "size", "containers"], sizes),
        (["table", "version", "rows", "size", "age", "error"], tables),
    ]


def _sums(progress: Mapping[str, Any]) -> str:
    totals = progress["totals"]
    sums = {part: sum(totals[part].values()) for part in ("input", "late", "rejected", "lost", "results")}
    named = {"rows": sums["input"], "late": sums["late"], "rejected": sums["rejected"], "lost": sums["lost"]}
    named = {name: count for name, count in named.items() if count or name in ("rows", "late")}
    counts = [f"{count:,} {name}" for name, count in {**named, "results": sums["results"] + totals["other_results"]}.items()]
    return f"since the start: {totals['batches']:,} batches, {', '.join(counts)}"


def recent_text(recent: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(_table(*_recent_table(recent))) if recent else "no batch yet in this run"


def _recent_table(recent: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        [
            str(entry["batch"]),
            entry["timestamp"],
            f"{entry['seconds']['batch']:.3f}",
            f"{sum(entry['input'].values()):,}",
            f"{sum(entry['late'].values()):,}",
            f"{sum(entry['results'].values()):,}",
            duration_text(max(entry["delay"].values(), default=None)),
        ]
        for entry in recent
    ]
    return ["batch", "committed", "seconds", "rows", "late", "results", "delay"], rows


def duration_text(seconds: float | None) -> str:
    """
    >>> duration_text(1.84), duration_text(7325), duration_text(-0.5), duration_text(900_000)
    ('1.8 s', '2 h 2 min', '-0.5 s', '10 d 10 h')
    """
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if hours < 1:
        return f"{minutes} min {int(seconds % 60)} s"
    return f"{hours} h {minutes % 60} min" if days < 2 else f"{days} d {hours % 24} h"


def backlog_text(backlog: Mapping[str, int] | None) -> str:
    return "-" if backlog is None else ", ".join(f"{number:,} {unit}" for unit, number in backlog.items())


def _seconds(progress: Mapping[str, Any]) -> str:
    trigger = progress["durationMs"].get("triggerExecution")
    return f"{progress['seconds']['batch']:.3f} s" + ("" if trigger is None else f" of the trigger's {trigger / 1000:.3f} s")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The first column to the left, the others to the right; nothing at all without rows."""
    if not rows:
        return []
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
    return [
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width) for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [head, *rows]
    ]


def _html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same for a notebook."""
    if not rows:
        return ""
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"
