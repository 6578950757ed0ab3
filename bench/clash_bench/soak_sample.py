"""What the soak looks at: memory, descriptors and threads of each kind of process, files of the checkpoint, time of batches."""

from __future__ import annotations

import csv
import ctypes
import gc
import os
import statistics
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from clash_bench.monitor import TICKS, _process_tree, _stat

MB = 1e6
_COLLECTIONS, _RELEASED = 4, 1.0  # of the JVM, and the seconds until what one has collected is released


@dataclass(frozen=True)
class Sample:
    """A line of the CSV file. Memory in MB; PSS counts pages that processes share once."""

    second: float
    batch: int
    generation: int
    queries: int
    changes: int
    compared: int
    """Results that were compared with DuckDB's so far."""
    batch_seconds: float | None
    """The median of the batches since the last sample."""
    cores: float | None
    """CPU seconds per second since the last sample, of all processes."""
    load: float
    """Of the machine, which others use, too."""
    driver_pss: float
    driver_private: float
    driver_malloc: float | None
    """In use of the driver's C allocator, in all of its arenas; None where it does not say."""
    driver_blocks: int
    """Of memory, that the driver's Python has allocated."""
    driver_descriptors: int
    driver_threads: int
    jvm_pss: float
    jvm_heap: float | None
    """After the last full garbage collection."""
    jvm_metaspace: float
    jvm_descriptors: int
    jvm_threads: int
    workers: int
    """Python processes of Spark."""
    workers_pss: float
    workers_descriptors: int
    workers_threads: int
    clash_files: int
    clash_mb: float
    generation_files: int
    generation_kb: float
    spark_files: int
    spark_mb: float


@dataclass
class _Usage:
    processes: int = 0
    pss: float = 0.0
    private: float = 0.0
    descriptors: int = 0
    threads: int = 0
    cpu: float = 0.0


class Sampler:
    def __init__(self, spark: Any, checkpoint: Path, begin: float) -> None:
        self._beans = spark._jvm.java.lang.management.ManagementFactory
        self._system = spark._jvm.java.lang.System
        self._checkpoint, self._begin = checkpoint, begin
        self._heap: float | None = None
        self._batch = -1
        self._cpu: tuple[float, float] | None = None

    def collect_garbage(self) -> None:
        """Both collectors: what is left is in use. Python's references to Java objects are released in the background, and so is what Spark
        keeps for objects that the JVM has collected: later collections of the JVM find that, and the smallest heap counts."""
        gc.collect()
        used = []
        for _ in range(_COLLECTIONS):
            time.sleep(_RELEASED)
            self._system.gc()
            used.append(self._beans.getMemoryMXBean().getHeapMemoryUsage().getUsed() / MB)
        self._heap = min(used)

    def take(self, run: Any, queries: int, changes: int, compared: int) -> Sample:
        progress = run._progress.recent({}, self._batch)  # not all of the last ones: their objects would be those of the driver
        self._batch = progress[-1]["batch"] if progress else self._batch
        usage, now = _usage(), time.time()
        driver, jvm, workers = usage["driver"], usage["jvm"], usage["workers"]
        cpu, before = sum(each.cpu for each in usage.values()), self._cpu
        self._cpu = now, cpu
        clash_files, clash_bytes = _size(self._checkpoint / "clash")
        generation_files, generation_bytes = _size(self._checkpoint / "clash" / "generations")
        spark_files, spark_bytes = _size(self._checkpoint / "spark")
        return Sample(
            second=now - self._begin,
            batch=self._batch,
            generation=run._coordinator.generation.number,
            queries=queries,
            changes=changes,
            compared=compared,
            batch_seconds=statistics.median(entry["seconds"]["batch"] for entry in progress) if progress else None,
            cores=None if before is None else max(0.0, (cpu - before[1]) / (now - before[0])),
            load=os.getloadavg()[0],
            driver_pss=driver.pss,
            driver_private=driver.private,
            driver_malloc=_malloc_in_use(),
            driver_blocks=sys.getallocatedblocks(),  # not gc.get_objects: another thread may be making a tuple, which then fails
            driver_descriptors=driver.descriptors,
            driver_threads=driver.threads,
            jvm_pss=jvm.pss,
            jvm_heap=self._heap,
            jvm_metaspace=self._beans.getMemoryMXBean().getNonHeapMemoryUsage().getUsed() / MB,
            jvm_descriptors=jvm.descriptors,
            jvm_threads=jvm.threads,
            workers=workers.processes,
            workers_pss=workers.pss,
            workers_descriptors=workers.descriptors,
            workers_threads=workers.threads,
            clash_files=clash_files,
            clash_mb=clash_bytes / MB,
            generation_files=generation_files,
            generation_kb=generation_bytes / 1e3,
            spark_files=spark_files,
            spark_mb=spark_bytes / MB,
        )


def read_samples(path: Path) -> list[Sample]:
    with path.open(newline="", encoding="utf-8") as file:
        # a file of an earlier version may lack a column
        return [Sample(**{f.name: _number(line.get(f.name, "")) for f in fields(Sample)}) for line in csv.DictReader(file)]


def _number(text: str) -> Any:
    return None if not text else float(text) if any(c in text for c in ".en") else int(text)


def _usage() -> dict[str, _Usage]:
    """Of the driver, its JVM and Spark's Python processes; not of processes that the benchmark has started."""
    usage = {kind: _Usage() for kind in ("driver", "jvm", "workers")}
    for process, below_jvm in _process_tree(os.getpid()):
        try:
            name, stat = _stat(process)
            kind = "workers" if below_jvm else "jvm" if name == "java" else "driver" if process == os.getpid() else None
            if kind is not None:
                _add(usage[kind], process, stat)
        except (OSError, ValueError):  # the process has just ended
            continue
    return usage


def _add(usage: _Usage, process: int, stat: list[str]) -> None:
    folder = Path(f"/proc/{process}")
    sizes = dict(_kilobytes((folder / "smaps_rollup").read_text().splitlines()[1:]))
    descriptors = len(list((folder / "fd").iterdir()))
    usage.processes += 1
    usage.pss += sizes["Pss"] * 1024 / MB
    usage.private += (sizes["Private_Dirty"] + sizes["Private_Clean"]) * 1024 / MB
    usage.descriptors += descriptors
    usage.threads += int(stat[17])
    usage.cpu += sum(int(ticks) for ticks in stat[11:15]) / TICKS


def _kilobytes(lines: Iterable[str]) -> Iterable[tuple[str, int]]:
    for line in lines:
        name, _, rest = line.partition(":")
        yield name, int(rest.split()[0])


class _MallocInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    )


def _malloc_in_use() -> float | None:
    try:
        info = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):  # not glibc, or older than 2.33
        return None
    info.restype = _MallocInfo
    found = info()
    return float((found.uordblks + found.hblkhd) / MB)


def _size(folder: Path) -> tuple[int, int]:
    """Files and bytes below a folder; files that are deleted meanwhile are left out."""
    files = total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(path) / name).stat().st_size
                files += 1
            except FileNotFoundError:
                continue
    return files, total
