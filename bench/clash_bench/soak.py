"""A long run on local Spark with a change every few seconds: do memory, files, descriptors and threads stay flat, and are results exact?

Queries are added, removed and replaced, workers and plans change, and streams are added a few times. Every minute the results since the
last look are compared with DuckDB's join of the same rows (`soak_check`), and what was compared is deleted, as are input files.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from clash.errors import ClashError
from clash.model.statistics import Statistics
from clash_bench.soak_check import MARGIN, CheckedLife, Verdict, check, result_files
from clash_bench.soak_data import EXTRA, FILES, GENERATED, SCHEMA, WINDOW, Feeder, SoakQuery, generated, random_query, tap
from clash_bench.soak_plot import describe_trends, draw_soak
from clash_bench.soak_sample import Sample, Sampler, read_samples
from clash_bench.tables import note, write

CORES, WORKERS, TRIGGER, LATENESS = 2, 2, "2 seconds", "2 seconds"
SAMPLED, CHECKED, COLLECTED = 10.0, 60.0, 300.0  # seconds between two samples, two comparisons, two full garbage collections
MIN_QUERIES, MAX_QUERIES, MAX_WORKERS = 3, 10, 3
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
STREAMS_UNTIL = 0.25  # of the run: the last stream is added then


@dataclass
class _Life:
    name: str
    query: SoakQuery
    folder: Path
    history: bool
    change: Any
    end: Any = None
    """The change that ended it."""

    def checked(self) -> CheckedLife | None:
        """None before its first batch."""
        if self.change.batch is None:
            return None
        removed = None if self.end is None else self.end.batch
        return CheckedLife(self.name, self.query, self.folder, self.history, self.change.batch, self.change.complete_from, removed)


@dataclass
class _Checks:
    """What was compared so far."""

    end: int = 0
    next_ids: dict[str, int] = field(default_factory=dict)
    tuples: int = 0
    results: int = 0
    differences: list[str] = field(default_factory=list)


def run(minutes: float, every: float, out: Path, draw: bool = False) -> None:
    """The options are those of the command `soak`."""
    csv, picture = out / "soak.csv", out / "soak.png"
    if not draw:
        with TemporaryDirectory(prefix="clash-soak-", ignore_cleanup_errors=True) as name, _session(Path(name)) as spark:
            soak = Soak(spark, Path(name), Random(1), csv)
            try:
                soak.run(minutes * 60, every)
            finally:
                note(f"{soak.checks.tuples:,} tuples and {soak.checks.results:,} results compared, {soak.changes:,} changes")
                for text in soak.checks.differences[:20]:
                    note(text)
        if soak.checks.differences:
            raise ClashError("results differ from DuckDB's", soak.checks.differences[0], "this is a bug of ours")
    samples = read_samples(csv)
    draw_soak(samples, picture)
    for line in describe_trends(samples):
        note(line)


@contextmanager
def _session(folder: Path) -> Iterator[Any]:
    from clash.spark.configure import ON_ONE_MACHINE
    from clash.spark.local_session import local_session

    # the whole heap from the start: otherwise the JVM extends it in steps up to its limit, which looks like a leak
    java = f"{ON_ONE_MACHINE[JAVA_OPTIONS]} -Xms1g -XX:+AlwaysPreTouch"
    with local_session("clash bench soak", CORES, folder / "spark.log", {"spark.driver.memory": "1g", JAVA_OPTIONS: java}) as spark:
        yield spark


class Soak:
    def __init__(self, spark: Any, folder: Path, random: Random, csv: Path) -> None:
        self.spark, self.folder, self.random, self.csv = spark, folder, random, csv
        self.streams: list[str] = []
        self.lives: list[_Life] = []
        self.changes = 0
        self.checks = _Checks()
        self._checking: tuple[int, Future[Verdict]] | None = None
        self._run: Any = None

    def run(self, seconds: float, every: float) -> None:
        import clash

        engine = clash.Engine(self.spark, checkpoint=self.folder / "checkpoint", workers=WORKERS, epoch="1 second")
        options: dict[str, Any] = {"time": "ts", "window": f"{WINDOW} seconds", "lateness": LATENESS}
        with Feeder(self.folder / "in") as feeder, ProcessPoolExecutor(1, get_context("spawn")) as checker:
            for stream in (*FILES, GENERATED):
                engine.stream(stream, self._frame(feeder, stream), **options)
                engine.query(f"tap_{stream}", tap(stream), sink=self._sink(f"tap_{stream}"))
                self.streams.append(stream)
            self._run = engine.start(trigger=TRIGGER)
            try:
                self._loop(seconds, every, feeder, options, checker)
                self._run.stop()
                self._check(checker, wait=True)
            finally:
                if self._run.is_active:
                    self._run.stop()

    def _loop(self, seconds: float, every: float, feeder: Feeder, options: dict[str, Any], checker: Any) -> None:
        begin = time.time()
        sampler = Sampler(self.spark, self.folder / "checkpoint", begin)
        write(self.csv, Sample, ())
        due = {"change": begin + every, "sample": begin, "check": begin + CHECKED, "collect": begin + COLLECTED}
        while (now := time.time()) < begin + seconds:
            if not self._run.is_active:
                self._run.await_termination()  # raises why it ended
            added = len(self.streams) - len(FILES) - 1
            if added < len(EXTRA) and now - begin > seconds * STREAMS_UNTIL * (added + 1) / len(EXTRA):
                self._add_stream(feeder, EXTRA[added], options)
            for what in [name for name, moment in due.items() if moment <= now]:
                if what == "change":
                    self._change()
                    due[what] = now + every
                elif what == "check":
                    self._check(checker)
                    due[what] = now + CHECKED
                elif what == "collect":
                    sampler.collect_garbage()
                    due[what] = now + COLLECTED
                else:
                    sample = sampler.take(self._run, len(self._live()), self.changes, self.checks.results)
                    write(self.csv, Sample, [sample], is_added=True)  # samples are not kept: they would be memory of the driver
                    due[what] = now + SAMPLED
            time.sleep(max(0.05, min(due.values()) - time.time()))

    # ---- changes -----------------------------------------------------------------------------------------------

    def _live(self) -> list[_Life]:
        return [life for life in self.lives if life.end is None]

    def _change(self) -> None:
        live, random = self._live(), self.random
        kind = random.choices(("add", "remove", "replace", "rescale", "replan"), (30, 25, 20, 10, 15))[0]
        if len(live) < MIN_QUERIES:
            kind = "add"
        elif kind == "add" and len(live) >= MAX_QUERIES:
            kind = "remove"
        self.changes += 1
        if kind == "add":
            self._begin(f"q{self.changes}", self._run.add_query)
        elif kind == "remove":
            life = random.choice(live)
            life.end = self._run.remove_query(life.name)
        elif kind == "replace":
            life = random.choice(live)
            life.end = self._begin(life.name, self._run.replace_query)
        elif kind == "rescale":
            self._run.rescale(random.randrange(1, MAX_WORKERS + 1))
        else:
            changes = self._run._coordinator.changes
            rates = {stream: float(random.choice((1, 10, 100, 1000))) for stream in changes.setup.streams_by_name}
            changes.replan(changes.setup.optimize(Statistics(rates=rates)))

    def _begin(self, name: str, call: Any) -> Any:
        query, history = random_query(self.random, self.streams), self.random.random() < 0.7
        folder = self.folder / "out" / f"{name}-{self.changes}"
        change = call(name, query.text, sink=self._sink(folder.name), history=history)
        self.lives.append(_Life(name, query, folder, history, change))
        return change

    def _add_stream(self, feeder: Feeder, stream: str, options: dict[str, Any]) -> None:
        note(f"stream {stream} is added")
        self._run.stream(stream, self._frame(feeder, stream), **options)
        self._run.add_query(f"tap_{stream}", tap(stream), sink=self._sink(f"tap_{stream}"))
        self.streams.append(stream)
        self.changes += 1

    def _frame(self, feeder: Feeder, stream: str) -> Any:
        return generated(self.spark) if stream == GENERATED else self.spark.readStream.schema(SCHEMA).parquet(str(feeder.add(stream)))

    def _sink(self, name: str) -> Any:
        from clash import sinks

        return sinks.Parquet(self.folder / "out" / name)

    # ---- comparing ---------------------------------------------------------------------------------------------

    def _check(self, checker: Any, wait: bool = False) -> None:
        """Takes the verdict of the last comparison, if there is one, and begins the next one."""
        if self._checking is not None and (wait or self._checking[1].done()):
            end, future = self._checking
            self._add(end, future.result())
            self._checking = None
        if self._checking is None:
            end = self._run.progress["batch"] + 1  # before looking at the lives: what begins later has no batch before it
            lives = [checked for life in self.lives if (checked := life.checked()) is not None]
            taps = {stream: self.folder / "out" / f"tap_{stream}" for stream in self.streams}
            self._checking = end, checker.submit(check, taps, lives, self.checks.end, end, self.checks.next_ids)
            if wait:
                self._add(end, self._checking[1].result())

    def _add(self, end: int, verdict: Verdict) -> None:
        """Deletes what was compared."""
        checks = self.checks
        checks.end, checks.next_ids = end, verdict.next_ids
        checks.tuples += verdict.tuples
        checks.results += verdict.results
        checks.differences += verdict.differences
        for text in verdict.differences:
            note(text)
        for stream in self.streams:
            _delete(self.folder / "out" / f"tap_{stream}", end - MARGIN)
        for life in list(self.lives):
            _delete(life.folder, end)
            if life.end is not None and life.end.batch is not None and life.end.batch <= end:
                self.lives.remove(life)
                shutil.rmtree(life.folder, ignore_errors=True)


def _delete(folder: Path, before: int) -> None:
    for path, batch in result_files(folder):
        if batch < before:
            path.unlink()
