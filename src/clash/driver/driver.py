"""The driver's part of a batch: decide, record, and, when all tasks have reported, commit.

Invariant: what a batch runs under is recorded before its job starts, so a re-run finds it; the manifest is the one commit point; what
comes after it (moving result files to their place, cleaning up) can be done again at any time. Spark's batch id is the only clock.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

import pyarrow as pa

from clash.driver.committed import Committed, sizes, tell
from clash.driver.expiry import Expiry
from clash.driver.job import Job, check_same, reading_order
from clash.driver.manifest import Manifest, manifest_path, read_last_manifest, stale_manifests, write_manifest
from clash.driver.watermarks import Clock, advance, observe
from clash.driver.work import ContainerRecord, Laid, Tuning, Work
from clash.errors import CheckpointError, OptionError
from clash.explain import explain_text
from clash.planner.optimize import optimize
from clash.planner.plan import Plan
from clash.state.container import read_container
from clash.state.failpoints import reach
from clash.state.jsonfile import read_json, write_json
from clash.state.storage import open_storage
from clash.topology import Topology, to_json
from clash.workers.messages import to_json as parsed
from clash.workers.program import Program, load_program
from clash.workers.results import LATE, STAGING, place, published, staged

_JOB = "job.json"
Format = Literal["text", "json", "dot"]
FORMATS: tuple[Format, ...] = get_args(Format)


class Driver:
    """One per run. `plan` overrides the planner, for tests."""

    def __init__(self, uri: str, job: Job, timezone: str = "UTC", plan: Plan | None = None, tuning: Tuning | None = None) -> None:
        self.storage, self.job, self.timezone, self.tuning = open_storage(uri), job, timezone, tuning or Tuning()
        self.uri = self.storage.uri
        if not self.storage.exists(_JOB):
            self._create(plan)
        recorded = read_json(self.storage, _JOB)
        check_same(recorded, self._told(), uri)
        self.plan: str = recorded["plan"]
        self.reading: tuple[str, ...] = tuple(recorded["reading"])  # Spark knows its sources by their place in this order
        self.manifest = read_last_manifest(self.storage)
        for record in self.manifest.containers:
            read_container(self.storage, record.path, verify=True)
        self.program: Program = load_program(self.uri, self.plan, timezone)
        self.topology: Topology = self.program.topology
        self.expiry = Expiry(self.topology)
        self.sinks = {q.name: q.sink.place(self.uri, q.name) for q in job.queries}
        self.storage.sweep()  # what killed writers left half written: nobody writes now
        for uri, folder in self.sinks.values():
            open_storage(uri).sweep(published(folder, STAGING))
        self.sweep()

    def _create(self, plan: Plan | None) -> None:
        """A new checkpoint: the plan first, because a job without a plan could not go on. It is called after its content: a process may
        keep what it has read of it, whatever becomes of the folder."""
        job = self.job
        if plan is None:
            plan = optimize(
                {q.name: q.text for q in job.queries},
                job.statistics,
                streams=job.streams,
                windows={q.name: dict(q.windows) for q in job.queries},
                workers=job.workers,
                strategy=job.strategy,
                cost=job.cost,
                layouts=job.layouts,
                mirs=job.mirs,
                time_limit=0,  # the heuristic: a start never waits for the solver
            )
        text = to_json(plan.topology).encode()
        path = f"plans/{hashlib.sha256(text).hexdigest()[:16]}.json"
        self.storage.write(path, [text], durable=True)
        told = {"text": explain_text(plan, compare=False), "json": plan.explain("json"), "dot": plan.explain("dot")}
        write_json(self.storage, _explained(path), told)
        write_json(self.storage, _JOB, {**self._told(), "plan": path, "reading": reading_order(job.streams, job.statistics)})

    def _told(self) -> dict[str, Any]:
        told = self.job.to_json()
        return {**told, "options": {**told["options"], "timezone": self.timezone}}

    @property
    def last(self) -> int:
        """The last committed batch, -1 before the first."""
        return self.manifest.batch

    def result_schema(self, query: str) -> pa.Schema:
        return self.program.result_schema(query)

    def explain(self, format: Format = "text") -> str:
        """The plan that runs, as it was explained when it was made."""
        if format not in FORMATS:
            raise OptionError("unknown format", repr(format), f"write {', '.join(FORMATS)}")
        return str(read_json(self.storage, _explained(self.plan))[format])

    # ---- a batch -----------------------------------------------------------------------------------------------

    def begin(self, batch: int, now: int, partitions: int) -> Work | None:
        """What the batch's tasks need to know; None if the batch is committed already."""
        if batch == self.last:
            return None
        if batch != self.last + 1:
            raise CheckpointError(
                "the two halves of the checkpoint do not fit together",
                f"Spark goes on with batch {batch}, but we have {f'batch {self.last}' if self.last >= 0 else 'none'} last ({self.uri})",
                "restore both from one copy, or start with an empty checkpoint folder",
            )
        if self.storage.exists(_record(batch)):
            recorded = read_json(self.storage, _record(batch))
        else:
            now = max(now, self.manifest.now)
            clocks = advance(self.topology.streams, self.manifest.clocks, now)
            reach("before-record")
            told = {name: [clock.high, clock.mark, clock.seen] for name, clock in clocks.items()}
            recorded = {"now": now, "plan": self.plan, "generation": 0, "clocks": told}
            write_json(self.storage, _record(batch), recorded)
        reach("after-record")
        watermarks = {name: mark for name, (_, mark, _) in recorded["clocks"].items()}
        return Work(
            self.uri,
            recorded["plan"],
            recorded["generation"],
            self.timezone,
            batch,
            os.urandom(4).hex(),
            partitions,
            recorded["now"],
            self.manifest.first,
            watermarks,
            tuple(record for record in self.manifest.containers if not self.expiry.dead(record, watermarks)),
            self.sinks,
            {store.id: (Laid(0, store.layouts, self.topology.workers),) for store in self.topology.stores},
            tuning=self.tuning,
        )

    def commit(self, work: Work, reports: Sequence[bytes | pa.Buffer]) -> Committed:
        """Makes the batch part of the state, and its results visible."""
        found: list[dict[str, Any]] = [parsed(report) for report in reports]
        ingested = [report for report in found if report["kind"] == "ingest"]
        rounds = [report for report in found if report["kind"] == "round"]
        if len(rounds) != work.rounds * work.workers:
            raise AssertionError(f"{len(rounds)} reports of {work.rounds} rounds of {work.workers} workers")
        rounds.sort(key=lambda report: (report["round"], report["worker"]))
        recorded = read_json(self.storage, _record(work.batch))
        clocks = {name: Clock(*clock) for name, clock in recorded["clocks"].items()}
        files = [file for report in found for file in report.get("files", ())]
        told = tell(found, files)
        highs: dict[str, int] = {}
        for report in ingested:
            for name, tau in report["taus"].items():
                highs[name] = max(tau, highs.get(name, tau))
        numbers = max((report["numbers"] for report in ingested), default=0)
        manifest = Manifest(
            work.batch,
            work.now,
            work.first + numbers * work.partitions,
            observe(clocks, highs, told["input"], work.now),
            tuple(_after(work.containers, rounds)),
            tuple(files),
            told,
        )
        before = self.manifest
        reach("before-manifest")
        write_manifest(self.storage, manifest)
        self.manifest = manifest
        reach("after-manifest")
        committed = self.finish(work.batch)
        self._clean(before)
        return committed

    def finish(self, batch: int) -> Committed:
        """Moves the result files of the last committed batch to their place, unless they are there already."""
        manifest = self.manifest
        if batch != manifest.batch:
            raise AssertionError(f"batch {batch} is not the last one committed, {manifest.batch}")
        results: dict[str, list[str]] = {query.name: [] for query in self.job.queries}
        for file in manifest.files:
            uri, folder = self._place(file["destination"])
            storage = open_storage(uri)
            here, there = staged(folder, file["name"]), published(folder, file["name"])
            if storage.exists(here):
                storage.move(here, there)
            elif self._is_handed(file["destination"]) and not storage.exists(there):
                continue  # handed over before
            if file["destination"] in results:
                results[file["destination"]].append(storage.url(there))
        reach("after-publish")
        told = manifest.told
        return Committed(
            batch,
            {query: tuple(paths) for query, paths in results.items()},
            {query: told["counts"].get(query, 0) for query in results},
            told["input"],
            told["late"],
            sizes(manifest.containers),
            told["seconds"],
            {name: clock.mark for name, clock in manifest.clocks.items()},
        )

    def handed_over(self, batch: int) -> None:
        """The batch's results have reached the functions that wanted them: their files can go."""
        if batch != self.last:
            raise AssertionError(f"batch {batch} is not the last one committed, {self.last}")
        gone = [
            published(self._place(file["destination"])[1], file["name"])
            for file in self.manifest.files
            if self._is_handed(file["destination"])
        ]
        self.storage.delete(gone)

    # ---- cleaning up -------------------------------------------------------------------------------------------

    def _clean(self, before: Manifest) -> None:
        reach("before-cleanup")
        kept = {record.path for record in self.manifest.containers}
        gone = [record.path for record in before.containers if record.path not in kept]
        gone += [manifest_path(before.batch), _record(self.last)]
        self.storage.delete(gone)
        reach("after-cleanup")

    def sweep(self) -> None:
        """Deletes whatever the last manifest does not name: leftovers of attempts that failed or were killed."""
        kept = {record.path for record in self.manifest.containers}
        gone = [f"state/{name}" for name in self.storage.list("state", recursive=True) if f"state/{name}" not in kept]
        gone += stale_manifests(self.storage, self.last)
        gone += [path for name in self.storage.list("batches") if (path := f"batches/{name}") != _record(self.last + 1)]
        self.storage.delete(gone)
        named = {(file["destination"], file["name"]) for file in self.manifest.files}
        late = {f"{LATE}{stream.name}" for stream in self.topology.streams}
        for destination in (*self.sinks, *late):
            uri, folder = self._place(destination)
            storage = open_storage(uri)
            waiting = storage.list(published(folder, STAGING))
            storage.delete([staged(folder, name) for name in waiting if (destination, name) not in named])
            if self._is_handed(destination):
                over = [name for name in storage.list(folder) if (destination, name) not in named]
                storage.delete([published(folder, name) for name in over])

    def _place(self, destination: str) -> tuple[str, str]:
        return place(self.uri, self.sinks, destination)

    def _is_handed(self, destination: str) -> bool:
        return any(q.name == destination and q.sink.handed_over for q in self.job.queries)


def _record(batch: int) -> str:
    return f"batches/{batch:09d}.json"


def _explained(plan: str) -> str:
    return f"{plan.removesuffix('.json')}.explained.json"


def _after(containers: Iterable[ContainerRecord], rounds: Iterable[dict[str, Any]]) -> list[ContainerRecord]:
    """The containers after a batch; a store's are in order of age."""
    found = {record.path: record for record in containers}
    for report in rounds:
        for path in report["removed"]:
            found.pop(path, None)
        for record in map(ContainerRecord.from_json, report["added"]):
            found[record.path] = record
    return list(found.values())
