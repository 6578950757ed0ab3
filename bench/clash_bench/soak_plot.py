"""The soak as a picture of small multiples over time, and its trends in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from clash_bench.plots import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, dress, figure, save, thousands
from clash_bench.soak_sample import Sample

WARM_UP = 0.5  # of the run, in which streams come, compilers work, and what is retained by number of batches fills up
FLAT = 0.05  # of the mean: what changes by less within an hour is flat

_PANELS: tuple[tuple[str, str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "Memory",
        "MB",
        (
            ("jvm_pss", "JVM, PSS", ORANGE),
            ("driver_private", "driver, private", BLUE),
            ("driver_malloc", "driver, malloc in use", PURPLE),
            ("workers_pss", "Python workers, PSS", GREEN),
        ),
    ),
    ("JVM after a full collection", "MB", (("jvm_heap", "heap", ORANGE), ("jvm_metaspace", "outside the heap", PURPLE))),
    ("Blocks of the driver's Python", "blocks", (("driver_blocks", "blocks", BLUE),)),
    (
        "Open descriptors",
        "descriptors",
        (("jvm_descriptors", "JVM", ORANGE), ("driver_descriptors", "driver", BLUE), ("workers_descriptors", "Python workers", GREEN)),
    ),
    (
        "Threads",
        "threads",
        (("jvm_threads", "JVM", ORANGE), ("driver_threads", "driver", BLUE), ("workers_threads", "Python workers", GREEN)),
    ),
    ("Files of the checkpoint", "files", (("clash_files", "ours", BLUE), ("spark_files", "Spark's", ORANGE))),
    ("Bytes of the checkpoint", "MB", (("clash_mb", "ours", BLUE), ("spark_mb", "Spark's", ORANGE))),
    ("Records of generations", "kB", (("generation_kb", "kB", PURPLE),)),
    ("Changes so far", "number", (("changes", "requested", GREEN), ("generation", "generations", PURPLE))),
    ("Seconds per batch", "seconds", (("batch_seconds", "median of 10 s", RED),)),
    ("Cores in use, load of the machine", "cores", (("load", "load", GREY), ("cores", "this job", BLUE))),
    ("Results equal to DuckDB's", "results", (("compared", "compared so far", GREEN),)),
)
_GROWING = {"changes", "generation", "compared", "load", "cores"}  # not expected to be flat, or not ours


def draw_soak(samples: Sequence[Sample], path: Path) -> None:
    last = samples[-1]
    title = f"{last.second / 60:.0f} minutes, {last.changes:,} changes, {last.batch + 1:,} batches, {last.compared:,} results compared"
    plot = figure(12.5, 11.0, title)
    for at, (name, unit, lines) in enumerate(_PANELS):
        axes = plot.add_subplot(4, 3, at + 1)
        dress(axes, name, "minutes" if at >= 9 else "", unit)
        for attribute, label, colour in lines:
            found = _series(samples, attribute)
            axes.plot(found[0] / 60, found[1], color=colour, label=label, linewidth=0.9)
        axes.axvline(last.second * WARM_UP / 60, color=GREY, linestyle=":", linewidth=0.8)
        axes.set_ylim(bottom=0)
        axes.set_xlim(0, last.second / 60)
        if name.startswith(("Blocks", "Results", "Changes")):
            thousands(axes)
        if len(lines) > 1:
            axes.legend(fontsize=7.5, frameon=False, loc="best")
    save(plot, path)


def describe_trends(samples: Sequence[Sample]) -> Iterator[str]:
    """What each figure does after the warm-up."""
    for _, _, lines in _PANELS:
        for attribute, _, _ in lines:
            if attribute not in _GROWING:
                yield f"{attribute}: {trend(*_series(samples, attribute))}"


def trend(seconds: np.ndarray, values: np.ndarray) -> str:
    """By the medians of thirds of the time after the warm-up: single peaks do not matter, and a straight line is not assumed."""
    late = seconds >= seconds.max(initial=0) * WARM_UP
    seconds, values = seconds[late], values[late]
    if len(values) < 6:
        return "too few values"
    first, middle, last = (float(np.median(part)) for part in np.array_split(values, 3))
    hours = float(np.mean(np.array_split(seconds, 3)[2]) - np.mean(np.array_split(seconds, 3)[0])) / 3600
    change, level = (last - first) / hours, max(abs(float(np.mean(values))), 1e-9)
    told = f"{first:.4g}, {middle:.4g}, {last:.4g} in thirds after the warm-up"
    is_count = bool(np.all(values == np.round(values)))
    if abs(change) < FLAT * level or (is_count and abs(last - first) <= 1):
        return f"flat, {change:+.2g} an hour ({told})"
    return f"{'grows' if change > 0 else 'falls'} by {abs(change):.3g} an hour, {abs(change) / level:.1%} ({told})"


def _series(samples: Sequence[Sample], attribute: str) -> tuple[np.ndarray, np.ndarray]:
    pairs = [(sample.second, value) for sample in samples if (value := getattr(sample, attribute)) is not None]
    return np.array([second for second, _ in pairs], dtype=float), np.array([value for _, value in pairs], dtype=float)
