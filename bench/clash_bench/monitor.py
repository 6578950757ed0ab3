"""CPU time and memory of this process and its descendants, by kind: this Python with its solver, the JVM, Spark's Python workers.

CPU time includes children that have ended and were waited for. Memory is summed over the processes of a kind at one moment, and the peak
is the maximum of these sums: pages that two processes map count twice in `file` and `shared`, never in `private`.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

KINDS = ("driver", "jvm", "workers")
PERIOD = 0.2  # seconds between two samples
TICKS = os.sysconf("SC_CLK_TCK")
_FIELDS = {"RssAnon": "private", "RssFile": "file", "RssShmem": "shared"}


@dataclass(frozen=True)
class Memory:
    """Bytes of memory of one or several processes."""

    private: int = 0
    """A process's own pages."""
    file: int = 0
    """Mapped files."""
    shared: int = 0
    """Shared memory, which includes mapped files on a RAM disk."""

    def plus(self, other: Memory) -> Memory:
        return Memory(self.private + other.private, self.file + other.file, self.shared + other.shared)

    def maximum(self, other: Memory) -> Memory:
        return Memory(max(self.private, other.private), max(self.file, other.file), max(self.shared, other.shared))


@dataclass(frozen=True)
class Sample:
    """CPU seconds and memory of all processes at one moment, by kind."""

    cpu: dict[str, float]
    memory: dict[str, Memory]


class Monitor:
    """`with Monitor() as monitor: …`; afterwards, by kind, `monitor.cpu` is the CPU seconds used inside, `monitor.peak` the peak memory."""

    def __init__(self, period: float = PERIOD) -> None:
        self._period, self._stop = period, threading.Event()
        self._thread = threading.Thread(target=self._take_samples, name="clash-monitor", daemon=True)
        self._overhead = 0.0  # CPU seconds of the samples themselves, which are not to be measured
        self.cpu = dict.fromkeys(KINDS, 0.0)
        self.peak = dict.fromkeys(KINDS, Memory())

    def __enter__(self) -> Monitor:
        self._first = take_sample()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        last = take_sample()
        self._add(last)
        self.cpu = {kind: last.cpu[kind] - self._first.cpu[kind] for kind in KINDS}
        self.cpu["driver"] = max(0.0, self.cpu["driver"] - self._overhead)

    def _take_samples(self) -> None:
        while not self._stop.wait(self._period):
            self._add(take_sample())
        self._overhead = time.thread_time()

    def _add(self, sample: Sample) -> None:
        self.peak = {kind: self.peak[kind].maximum(sample.memory[kind]) for kind in KINDS}


def take_sample() -> Sample:
    cpu, memory = dict.fromkeys(KINDS, 0.0), dict.fromkeys(KINDS, Memory())
    for process, below_jvm in _process_tree(os.getpid()):
        try:
            name, fields = _stat(process)
            used = _memory(process)
        except (OSError, ValueError):  # the process has just ended
            continue
        kind = "workers" if below_jvm else "jvm" if name == "java" else "driver"
        cpu[kind] += sum(int(ticks) for ticks in fields[11:15]) / TICKS
        memory[kind] = memory[kind].plus(used)
    return Sample(cpu, memory)


def load() -> float:
    """The load average of the last minute, which is recorded with every figure: those of a busy machine are less reliable."""
    return os.getloadavg()[0]


def _process_tree(root: int) -> list[tuple[int, bool]]:
    """The process and all its descendants, and for each whether it is a descendant of a JVM."""
    children: dict[int, list[tuple[int, str]]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                name, fields = _stat(int(folder.name))
            except (OSError, ValueError):
                continue
            children.setdefault(int(fields[1]), []).append((int(folder.name), name))
    tree, todo = [], [(root, False, "")]
    while todo:
        process, below_jvm, name = todo.pop()
        tree.append((process, below_jvm))
        todo += [(child, below_jvm or name == "java", child_name) for child, child_name in children.get(process, [])]
    return tree


def _stat(process: int) -> tuple[str, list[str]]:
    """The name of a process and the fields after it in /proc/…/stat; the name may hold blanks and brackets, so it ends at the last one."""
    text = Path(f"/proc/{process}/stat").read_text()
    return text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()


def _memory(process: int) -> Memory:
    sizes = {}
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        label, _, rest = line.partition(":")
        if label in _FIELDS:
            sizes[_FIELDS[label]] = int(rest.split()[0]) * 1024
    return Memory(**sizes)
