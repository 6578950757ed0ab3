"""The program of a history without Spark: the engine's coordinator and tasks in a process of their own, over files.

Spark's half of the checkpoint is modelled by a log of offsets and one of commits, as Spark keeps them (see offsets.py), and sealed and
verified by the engine's own code.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from clash.coordinator.batch_loop import run_batch
from clash.coordinator.checkpoint.spark_half import OFFSETS, SparkHalf
from clash.coordinator.control.job import JobSpec, QueryRequest
from clash.coordinator.coordinator import Coordinator
from clash.coordinator.recovery import Recovered
from clash.errors import ClashError
from clash.inprocess.transport import InProcessTransport, random_partitions
from clash.protocol.batch import BatchSpec
from clash.protocol.reports import Report
from clash.state.checkpoint_lock import lock_checkpoint
from clash.state.storage import open_storage

from ..oracle.case import Ask, Case, Change, table
from ..oracle.starts import quick_planner
from .folders import CHECKPOINT, OURS, SPARKS
from .offsets import OffsetLog, Seen, parse_offsets
from .requests import RequestingCoordinator, sink_spec
from .starts import MAX_SECONDS, Outcome, Start, outcome_of, parts

_NOW = 1_700_000_000_000_000  # microseconds
_SECOND = 1_000_000


class Program:
    """One start: it takes the checkpoint, recovers, and runs batches until all files are read."""

    def __init__(self, start: Start) -> None:
        self.start, self.random = start, Random(start.seed)
        self.half = SparkHalf(str(start.base / start.checkpoint / SPARKS))
        uri = str(start.base / start.checkpoint / OURS)
        self.lock = lock_checkpoint(open_storage(uri))
        try:
            timezone, fence = start.case.setting.timezone, self.lock.check
            self.coordinator = RequestingCoordinator(
                start.case, self._request, uri, self._job(), timezone, check=self._check_start, fence=fence
            )
            self.half.remove_unsealed()
            self.log = OffsetLog(Path(self.half.folder))
        except BaseException:
            self.lock.release()
            raise

    def _check_start(self, recovered: Recovered) -> None:
        decision = recovered.decision or recovered.superseded
        self.half.check(recovered.manifest.batch, recovered.manifest.seal, None if decision is None else decision.seal)

    def _job(self) -> JobSpec:
        case, setting = self.start.case, self.start.case.setting
        first = {stream.name for stream in case.first_streams}
        streams = tuple(stream for stream in case.streams if stream.name in first or stream.name in self.start.declared)
        queries = tuple(self._query(ask) for ask in case.queries)
        return JobSpec(
            streams, queries, setting.workers, setting.strategy, setting.cost, setting.layouts, setting.mirs, setting.statistics, 1, False
        )

    def _query(self, ask: Ask) -> QueryRequest:
        return QueryRequest(ask.name, ask.text, ask.windows, sink_spec(self.start.base, ask.name))

    def run(self) -> int:
        """The last batch."""
        try:
            self._run_batches()
        finally:
            self.lock.release()
        return self.coordinator.last

    def _run_batches(self) -> None:
        while (batch := self.log.next_batch(self.coordinator.sources.order, self.start.fed)) is not None:
            now = _NOW + (batch + self.start.clock) * _SECOND
            seal = self.half.seal(batch) if batch == self.coordinator.last + 1 else None
            run_batch(self.coordinator, _Files(self, batch), batch, now, self.start.case.setting.partitions, seal)
            self.log.commit(batch)

    def run_tasks(self, spec: BatchSpec, batch: int) -> list[Report]:
        before, after = self.log.offsets(batch - 1), self.log.offsets(batch)
        case, tables = self.start.case, dict[str, pa.Table]()
        for name, end in after.items():
            rows = [row for file in range(before.get(name, 0), end) for row in case.batches[file].rows.get(name, ())]
            tables[name] = table(case.by_name[name], rows)
        partitions = random_partitions(tables, self.coordinator.loaded_plan, spec.partitions, self.random)
        return InProcessTransport(partitions, self.random).run(spec)

    def _request(self, coordinator: Coordinator, batch: int) -> None:
        for change in self.start.case.batches[batch].changes if batch < len(self.start.case.batches) else ():
            self._change(coordinator, change)
            if new := coordinator.changes.setup.needed.difference(coordinator.sources.order):
                coordinator.read_more(sorted(new))

    def _change(self, coordinator: Coordinator, change: Change) -> None:
        changes, case = coordinator.changes, self.start.case
        if change.kind == "stream":
            if change.name not in changes.setup.streams_by_name:
                with self.start.declarations.open("a") as file:
                    file.write(f"{change.name}\n")
                changes.add_stream(case.by_name[change.name], coordinator.last + 1)
        elif change.kind == "rescale":
            changes.rescale(change.workers)
        elif change.ask is None:
            changes.remove_query(change.name)
        else:
            changes.add_query(self._query(change.ask), change.history)


class _Files:
    """The transport of a batch: its rows are partitioned when its plan is known."""

    def __init__(self, program: Program, batch: int) -> None:
        self.program, self.batch = program, batch

    def run(self, spec: BatchSpec) -> list[Report]:
        return self.program.run_tasks(spec, self.batch)


def play(start: Start, pipe: Connection) -> None:
    """In a process of its own."""
    log = os.open(start.base.parent / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 2)
    sys.stderr = os.fdopen(2, "w")
    if start.fail:
        os.environ |= {"CLASH_FAILPOINT": start.fail, **({"CLASH_FAILPOINT_FLAG": start.flag} if start.flag else {})}
    phase = "start"
    answer: dict[str, Any]
    try:
        with quick_planner():
            program = Program(start)
            phase = "batch"
            answer = {"last": program.run()}
    except ClashError as error:
        answer = {"error": parts(error), "phase": phase}
    except Exception:
        answer = {"raw": traceback.format_exc(), "phase": phase}
    pipe.send(answer)


class InProcess:
    """Every start is a process that is forked from one which has everything imported."""

    def __init__(self) -> None:
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload([f"{__package__}.warmed"])
        self._offsets = Seen(parse_offsets)

    def begin(self, start: Start, second: bool = False) -> RunningProcess:
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=play, args=(start, theirs), daemon=True)
        process.start()
        theirs.close()
        return RunningProcess(process, ours)

    def batches(self, base: Path, case: Case) -> dict[str, dict[int, int]]:
        found: dict[str, dict[int, int]] = {stream.name: {} for stream in case.streams}
        for batch, ends in self._offsets.read_log(base / CHECKPOINT / SPARKS / OFFSETS).items():
            for name, end in ends.items():
                for file in range(end):
                    found[name].setdefault(file, batch)
        return found

    def feed(self, root: Path, case: Case, files: range) -> None:
        """Rows are read from the case."""

    def damaged(self, file: Path, before: bytes, after: bytes) -> None:
        if file.parent.name == OFFSETS:
            self._offsets.damaged(file, before, after)

    def forget(self, base: Path) -> None:
        self._offsets.forget(base)

    def close(self) -> None:
        """Nothing outlives a start."""


class RunningProcess:
    def __init__(self, process: Any, pipe: Connection) -> None:
        self.process, self.pipe = process, pipe

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    def kill(self, victim: str) -> None:
        self._signal(signal.SIGKILL)

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def wait(self) -> Outcome:
        if not self.pipe.poll(MAX_SECONDS):
            self.kill("driver")
            return Outcome(raw=f"no end within {MAX_SECONDS} seconds")
        try:
            answer = self.pipe.recv()
        except EOFError:
            answer = None
        self.process.join()
        self.pipe.close()
        return outcome_of(answer)
