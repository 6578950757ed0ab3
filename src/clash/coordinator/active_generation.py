"""The generation in force: its physical plan as the live containers require it, what expires, what may be missing for whom.

Invariant: everything here follows from the generation's record, the last manifest and the watermarks of the batch, so a re-run finds the
same. A physical plan is written once per visibility of stored rows; that changes when old rows have expired.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from clash.coordinator.checkpoint.generation_log import GenerationLog
from clash.coordinator.checkpoint.manifest import Manifest
from clash.coordinator.checkpoint.plan_files import PlanFiles
from clash.coordinator.lifecycle.expiry import Expiry, Watermarks
from clash.coordinator.lifecycle.retention import is_complete, missing_event_times, resolve_unknown_time
from clash.model.query import query_of
from clash.model.relation import Relation
from clash.plan.validate_topology import validate_topology
from clash.plan.visibility import VisibilityBounds
from clash.protocol.batch import BatchSpec
from clash.protocol.containers import ContainerRecord, LayoutVersion
from clash.state.storage import Storage
from clash.topology.build import build_topology
from clash.topology.complete import complete
from clash.workers.loaded_plan import LoadedPlan, load_plan


class ActiveGeneration:
    def __init__(self, storage: Storage, timezone: str, log: GenerationLog, number: int, plan_files: PlanFiles) -> None:
        self.storage, self.timezone, self.log, self.plan_files = storage, timezone, log, plan_files
        self.generation = log.read(number)
        self.topology = self.generation.topology  # as if every step may see every stored row
        self.expiry = Expiry(self.topology, self.generation.setup.streams, self.generation.stores.introduced)
        self._written: tuple[VisibilityBounds, str] | None = None

    # ---- the physical plan -------------------------------------------------------------------------------------

    def write_plan(self, visibility: VisibilityBounds) -> str:
        """The path of the physical plan under which steps see just these rows; it is written unless it exists."""
        if self._written is None or self._written[0] != visibility:
            is_bounded = visibility != VisibilityBounds()
            topology = build_topology(self.generation.plan, visibility) if is_bounded else self.topology
            validate_topology(topology)
            self._written = visibility, self.plan_files.write(complete(topology))
        return self._written[1]

    def forget_plan(self, paths: Iterable[str]) -> None:
        """Plans that were deleted are written again when they are needed."""
        if self._written is not None and self._written[1] in paths:
            self._written = None

    def load_plan(self, path: str) -> LoadedPlan:
        return load_plan(self.storage.uri, path, self.timezone)

    # ---- containers --------------------------------------------------------------------------------------------

    def live(self, containers: Iterable[ContainerRecord], watermarks: Watermarks) -> tuple[ContainerRecord, ...]:
        """The containers that a batch reads."""
        return tuple(r for r in containers if r.store in self.topology.store and not self.expiry.has_expired(r, watermarks))

    def layouts(self, containers: Iterable[ContainerRecord]) -> dict[str, tuple[LayoutVersion, ...]]:
        """Per store the layouts of its live containers, today's last."""
        today = self.generation.stores.layouts
        older: dict[str, set[tuple[int, str]]] = {}
        for record in containers:
            if record.generation != today[record.store].generation:
                older.setdefault(record.store, set()).add((record.generation, record.writer or record.store))
        return {
            store: (*(self._older_layout(store, number, writer) for number, writer in sorted(older.get(store, ()))), version)
            for store, version in today.items()
        }

    def _older_layout(self, store: str, generation: int, writer: str) -> LayoutVersion:
        """The layout of a store under an earlier generation. A column that had another type then is another column: its hash is that of
        other values."""
        then, stream = self.log.read(generation), self.topology.store[store].stream
        version = then.stores.layouts[writer]
        if stream is None:
            return version
        before, now = then.setup.read_streams[stream], self.generation.setup.read_streams[stream]
        layouts = tuple(
            layout
            if layout.column is None or before.type_of(layout.column) == now.type_of(layout.column)
            else layout._replace(column=f"{layout.column} {before.type_of(layout.column)}")
            for layout in version.layouts
        )
        return version if layouts == version.layouts else version._replace(layouts=layouts)

    # ---- what may be missing -----------------------------------------------------------------------------------

    def lost_until(self, before: Manifest, spec: BatchSpec) -> dict[str, int]:
        """Per base store the largest event time that it has lost, after the batch."""
        base = {store.id for store in self.topology.stores if store.stream is not None}
        lost = {store: time for store, time in before.lost_until.items() if store in base}
        live = {record.key for record in spec.containers}
        for record in before.containers:
            if record.store in base and record.key not in live:
                latest = record.time_ranges[0][1]
                lost[record.store] = max(latest, lost.get(record.store, latest))
        return lost

    def completeness(
        self, before: Manifest, spec: BatchSpec, max_event_times: Mapping[str, int]
    ) -> tuple[dict[str, dict[Relation, int]], dict[str, int]]:
        """Per query what may be missing, and for the others the batch from which on they are complete, after the batch."""
        missing: dict[str, dict[Relation, int]] = {}
        complete_from: dict[str, int] = {}
        streams = self.generation.setup.streams_by_name
        owners = {store.owner for store in self.topology.stores}
        for query in self.generation.plan.queries:
            live = self.generation.setup.query(query_of(query.name))
            begins = live.begins_with(spec.batch)
            if not begins and query.name in before.complete_from:
                complete_from[query.name] = before.complete_from[query.name]
                continue
            if not begins:
                lacking = dict(before.missing.get(query.name, {}))
            else:
                owner = query.name if query.name in owners else None
                anew = live.batch == spec.batch and not live.history
                lacking = {} if anew else missing_event_times(query, before.retention, before.lost_until, owner)
            if is_complete(query, lacking, spec.watermarks):
                complete_from[query.name] = spec.batch
            else:
                missing[query.name] = {r: resolve_unknown_time(time, streams[r.stream], max_event_times) for r, time in lacking.items()}
        return missing, complete_from
