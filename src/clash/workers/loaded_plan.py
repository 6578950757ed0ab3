"""The physical plan of a batch as tasks use it: loaded once per process, with Arrow schemas and look-ups by name."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import pyarrow as pa

from clash.errors import StateError
from clash.expressions import arrow_type
from clash.model.relation import Attribute
from clash.plan.codecs import PHYSICAL_PLAN
from clash.plan.physical import PhysicalPlan, StoreCopy, TypedColumn
from clash.plan.topology import StoreRule
from clash.protocol.batch import BatchSpec
from clash.protocol.plan_files import plan_path
from clash.state.json_records import RESTORE
from clash.state.storage import open_storage


class LoadedPlan:
    def __init__(self, plan: PhysicalPlan, timezone: str) -> None:
        topology = plan.topology
        self.physical, self.topology, self.timezone = plan, topology, timezone
        self.timed = topology.timed
        self.starts = dict(topology.starts)
        self.streams = {stream.name: stream for stream in topology.streams}
        self.queries = {query.name: query for query in topology.queries}
        self.ingest = {ingest.stream: ingest for ingest in plan.ingest}
        self.steps = {step.edge: step for step in plan.steps}
        self.channels = plan.channels
        self.copies = {(copy.store, copy.number): copy for copy in plan.copies}
        self.channel_schemas = {name: arrow_schema(channel.columns) for name, channel in self.channels.items()}
        self.copy_schemas = {key: arrow_schema(copy.columns) for key, copy in self.copies.items()}
        self.result_schemas = {query: arrow_schema(columns) for query, columns in plan.results.items()}
        self.ingest_schemas = {stream: arrow_schema(ingest.columns) for stream, ingest in self.ingest.items()}
        self.store_edges = frozenset(rule.edge for rule in topology.rules if isinstance(rule, StoreRule))
        self.sampling_hints: dict[str, float] = {}  # how samples of earlier tasks of this process came out

    def copy_of_edge(self, label: str) -> StoreCopy:
        """The store, under the layout, that the edge leads to."""
        edge = self.topology.edge[label]
        return self.copies[edge.store, self.topology.store[edge.store].layouts.index(edge.layout)]

    def is_time(self, attribute: Attribute) -> bool:
        """Whether the attribute is the event time of its stream, which travels under a name of its own."""
        return self.streams[attribute.relation.stream].time == attribute.column

    def arrow_type_of(self, attribute: Attribute) -> pa.DataType:
        return arrow_type(str(self.streams[attribute.relation.stream].type_of(attribute.column)))


def arrow_schema(columns: Iterable[TypedColumn]) -> pa.Schema:
    return pa.schema([(name, arrow_type(kind)) for name, kind in columns])


def plan_of(spec: BatchSpec) -> LoadedPlan:
    """The physical plan that a batch runs under."""
    return load_plan(spec.uri, spec.plan_path, spec.timezone)


@lru_cache(maxsize=16)
def load_plan(uri: str, path: str, timezone: str) -> LoadedPlan:
    """The physical plan of a file, which is named after its content."""
    storage = open_storage(uri)
    text = bytes(storage.read(path))
    try:
        if plan_path(text) != path:
            raise ValueError("it is not what its name says")
        plan = PHYSICAL_PLAN.loads(text)
    except ValueError as error:
        raise StateError("a plan is corrupt", f"{storage.label(path)}: {error}", RESTORE) from error
    return LoadedPlan(plan, timezone)
