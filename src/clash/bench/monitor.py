"""CPU time and memory of this process and all below it, by kind: this Python with its solver, the JVM, Spark's Python workers.

CPU time counts children that have ended and were waited for. Memory is summed over the processes of a kind at one moment, and its peak
is that of the sums: pages that two processes map count twice in `file` and `shared`, never in `private`.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

KINDS = ("driver", "jvm", "workers")
PERIOD = 0.2  # seconds between two looks
TICKS = os.sysconf("SC_CLK_TCK")
_FIELDS = {"RssAnon": "private", "RssFile": "file", "RssShmem": "shared"}


@dataclass(frozen=True)
class Memory:
    """Bytes: a process's own pages, mapped files, and shared memory (which is where a file on a RAM disk shows)."""

    private: int = 0
    file: int = 0
    shared: int = 0

    def plus(self, other: Memory) -> Memory:
        return Memory(self.private + other.private, self.file + other.file, self.shared + other.shared)

    def most(self, other: Memory) -> Memory:
        return Memory(max(self.private, other.private), max(self.file, other.file), max(self.shared, other.shared))


@dataclass(frozen=True)
class Look:
    """One look at all processes, by kind."""

    cpu: dict[str, float]
    memory: dict[str, Memory]


class Monitor:
    """`with Monitor() as monitor: …`; afterwards `monitor.cpu` is seconds used inside, `monitor.peak` the most memory seen, by kind."""

    def __init__(self, period: float = PERIOD) -> None:
        self._period, self._stop = period, threading.Event()
        self._thread = threading.Thread(target=self._watch, name="clash-monitor", daemon=True)
        self._own = 0.0  # CPU seconds that looking has cost: they are not what is measured
        self.cpu = dict.fromkeys(KINDS, 0.0)
        self.peak = dict.fromkeys(KINDS, Memory())

    def __enter__(self) -> Monitor:
        self._first = look()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        last = look()
        self._seen(last)
        self.cpu = {kind: last.cpu[kind] - self._first.cpu[kind] for kind in KINDS}
        self.cpu["driver"] = max(0.0, self.cpu["driver"] - self._own)

    def _watch(self) -> None:
        while not self._stop.wait(self._period):
            self._seen(look())
        self._own = time.thread_time()

    def _seen(self, seen: Look) -> None:
        self.peak = {kind: self.peak[kind].most(seen.memory[kind]) for kind in KINDS}


def look() -> Look:
    cpu, memory = dict.fromkeys(KINDS, 0.0), dict.fromkeys(KINDS, Memory())
    for process, below_jvm in _below(os.getpid()):
        try:
            name, fields = _stat(process)
            used = _memory(process)
        except (OSError, ValueError):  # it has just ended
            continue
        kind = "workers" if below_jvm else "jvm" if name == "java" else "driver"
        cpu[kind] += sum(int(ticks) for ticks in fields[11:15]) / TICKS
        memory[kind] = memory[kind].plus(used)
    return Look(cpu, memory)


def load() -> float:
    """How many processes wanted to run in the last minute: figures of a busy machine are to be read as such."""
    return os.getloadavg()[0]


def _below(root: int) -> list[tuple[int, bool]]:
    """The process and all below it, and whether they are below a JVM."""
    children: dict[int, list[tuple[int, str]]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                name, fields = _stat(int(folder.name))
            except (OSError, ValueError):
                continue
            children.setdefault(int(fields[1]), []).append((int(folder.name), name))
    found, todo = [], [(root, False, "")]
    while todo:
        process, below_jvm, name = todo.pop()
        found.append((process, below_jvm))
        todo += [(child, below_jvm or name == "java", of) for child, of in children.get(process, [])]
    return found


def _stat(process: int) -> tuple[str, list[str]]:
    """Its name, and what follows in /proc/…/stat; the name may hold blanks and brackets, so it ends with the last bracket."""
    text = Path(f"/proc/{process}/stat").read_text()
    return text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()


def _memory(process: int) -> Memory:
    found = {}
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        label, _, rest = line.partition(":")
        if label in _FIELDS:
            found[_FIELDS[label]] = int(rest.split()[0]) * 1024
    return Memory(**found)
