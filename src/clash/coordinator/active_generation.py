"""A generation at work: its topology as the live containers require it, what expires, what is kept for whom.

Invariant: everything here follows from the generation's record, the last manifest and the watermarks of the batch, so a re-run finds the
same. The topology is written once per past, under the name of its content; a past changes when old rows have gone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from clash.coordinator.lifecycle.expiry import Expiry, Watermarks
from clash.coordinator.checkpoint.generation_log import History
from clash.coordinator.lifecycle.retention import is_complete, missing, settled
from clash.coordinator.checkpoint.manifest import Manifest
from clash.protocol.batch import ContainerRecord, Laid, Work
from clash.model.relation import Relation
from clash.state.storage import Storage
from clash.topology import build, to_json
from clash.plan.visibility import Past
from clash.workers.program import Program, load_program

_PLANS = "plans"


class Running:
    def __init__(self, storage: Storage, timezone: str, history: History, number: int, before: Running | None = None) -> None:
        self.storage, self.timezone, self.history = storage, timezone, history
        self.generation = history.read(number)
        self.topology = self.generation.plan.topology  # as if there were no past
        self.expiry = Expiry(self.topology, self.generation.setup.streams, self.generation.introduced)
        self.program: Program
        self.plan: str = "" if before is None else before.plan
        self._past: tuple[Past, str] | None = None
        self._stale: set[str] = set() if before is None else {*before._stale}

    # ---- the topology ------------------------------------------------------------------------------------------

    def open(self, plan: str | Past) -> str:
        """Uses the topology of that name, or the one that the past requires; its name."""
        path = plan if isinstance(plan, str) else self._write(plan)
        self._stale = (self._stale | {self.plan}) - {path, ""}
        self.plan, self.program = path, load_program(self.storage.uri, path, self.timezone)
        return path

    def _write(self, past: Past) -> str:
        if self._past is None or self._past[0] != past:
            plan = self.generation.plan
            bounded = past != Past()
            topology = (
                build(plan.queries, dict(plan.streams), plan.probe_orders, plan.stores, plan.workers, past) if bounded else self.topology
            )
            text = to_json(topology).encode()
            self._past = past, f"{_PLANS}/{hashlib.sha256(text).hexdigest()[:16]}.json"
            if not self.storage.exists(self._past[1]):
                self.storage.write(self._past[1], [text], durable=True)
        return self._past[1]

    def stale(self) -> list[str]:
        """Topologies that no batch to come needs; told once."""
        gone, self._stale = sorted(self._stale), set()
        if self._past is not None and self._past[1] in gone:
            self._past = None
        return gone

    def sweep(self, used: str | None) -> None:
        """At a start. `used`: by the record of the batch to come, which counts until there is another one."""
        kept = {self.plan} if used is None else {self.plan, used}
        self._stale |= kept - {self.plan}
        self.storage.delete([path for name in self.storage.list(_PLANS) if (path := f"{_PLANS}/{name}") not in kept])

    # ---- containers --------------------------------------------------------------------------------------------

    def live(self, containers: Iterable[ContainerRecord], watermarks: Watermarks) -> tuple[ContainerRecord, ...]:
        """Those that a batch reads."""
        return tuple(r for r in containers if r.store in self.topology.store and not self.expiry.dead(r, watermarks))

    def layouts(self, containers: Iterable[ContainerRecord]) -> dict[str, tuple[Laid, ...]]:
        """Per store how its live containers are laid out, today's layout last."""
        today = self.generation.laid
        older: dict[str, set[tuple[int, str]]] = {}
        for record in containers:
            if record.generation != today[record.store].generation:
                older.setdefault(record.store, set()).add((record.generation, record.donor or record.store))
        return {
            store: (*(self.history.read(number).laid[writer] for number, writer in sorted(older.get(store, ()))), laid)
            for store, laid in today.items()
        }

    # ---- what may be missing -----------------------------------------------------------------------------------

    def gone(self, before: Manifest, work: Work) -> dict[str, int]:
        """Per base store the largest event time that it has lost, after the batch."""
        base = {store.id for store in self.topology.stores if store.stream is not None}
        found = {store: tau for store, tau in before.gone.items() if store in base}
        left = {record.key for record in work.containers}
        for record in before.containers:
            if record.store in base and record.key not in left:
                found[record.store] = max(record.taus[0][1], found.get(record.store, record.taus[0][1]))
        return found

    def completeness(self, before: Manifest, work: Work, highs: Mapping[str, int]) -> tuple[dict[str, dict[Relation, int]], dict[str, int]]:
        """Per query what may be missing, and of the others from which batch on they are complete, after the batch."""
        lacking: dict[str, dict[Relation, int]] = {}
        complete: dict[str, int] = {}
        streams = self.generation.setup.by_name
        owners = {store.owner for store in self.topology.stores}
        for query in self.generation.plan.queries:
            live = self.generation.setup.query(query.name)
            if live.batch != work.batch and query.name in before.complete:
                complete[query.name] = before.complete[query.name]
                continue
            if live.batch != work.batch:
                lacks = dict(before.missing.get(query.name, {}))
            else:
                owner = query.name if query.name in owners else None
                lacks = missing(query, before.kept, before.gone, owner) if live.history else {}
            if is_complete(query, lacks, work.watermarks):
                complete[query.name] = work.batch
            else:
                lacking[query.name] = {r: settled(tau, streams[r.stream], highs) for r, tau in lacks.items()}
        return lacking, complete
