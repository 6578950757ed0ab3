"""What a batch runs under: the state that it starts from, and what follows from it and from the generation in force.

Invariant: everything here is a function of records and of the time of the batch. What is decided is recorded before the batch runs, so it
is computed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from clash.coordinator.active_generation import ActiveGeneration
from clash.coordinator.checkpoint.batch_decision import BatchDecision
from clash.coordinator.checkpoint.manifest import Manifest
from clash.coordinator.checkpoint.spark_seal import SparkSeal
from clash.coordinator.lifecycle.backfill import filled_stores, next_range
from clash.coordinator.lifecycle.epochs import Epoch
from clash.coordinator.lifecycle.relayout import choose_relayouts
from clash.coordinator.lifecycle.watermarks import StreamClock, advance_clocks
from clash.protocol.batch import Tuning
from clash.protocol.tables import TableVersion


def starting_state(manifest: Manifest, active: ActiveGeneration) -> Manifest:
    """The state that the batch after the manifest starts from under a generation: a new store may begin with what another one has, a stream
    have another event time."""
    generation, committed = active.generation, active.log.read(manifest.generation).setup.streams_by_name
    streams = generation.setup.streams
    other_times = {stream.name for stream in streams if stream.name in committed and committed[stream.name].time != stream.time}
    return manifest.bootstrapped(generation.batch, generation.bootstraps).with_other_times(other_times)


def next_decision(
    manifest: Manifest,
    before: ActiveGeneration,
    active: ActiveGeneration,
    epoch: Epoch,
    now: int,
    tuning: Tuning,
    tables: Mapping[str, TableVersion],
    seal: SparkSeal | None,
) -> BatchDecision:
    """`before`: the generation of the batch before, which may be the active one; `tables`: the newest version of each table. The physical
    plan is written, if it is a new one."""
    state = starting_state(manifest, active)
    clocks = _clocks(state, before, active, now)
    containers = active.live(state.containers, {name: clock.watermark for name, clock in clocks.items()})
    generation, layouts, progress = active.generation, active.layouts(containers), manifest.backfilled
    introduced = generation.stores.introduced
    fill = next_range(introduced, active.topology, containers, layouts, progress, tuning.relayout_rows)
    filling = frozenset() if fill is None else frozenset([fill.store])
    return BatchDecision(
        now=now,
        plan_path=active.write_plan(generation.visibility(containers, filled_stores(introduced, progress), filling)),
        generation=generation.number,
        epoch=epoch,
        clocks=clocks,
        relayout=choose_relayouts(containers, active.topology, layouts, tuning),
        backfill=() if fill is None else (fill,),
        tables={table.name: tables[table.name] for table in generation.setup.tables},
        seal=seal,
    )


def _clocks(state: Manifest, before: ActiveGeneration, active: ActiveGeneration, now: int) -> dict[str, StreamClock]:
    """A stream that is read again has not been idle; one that is not read keeps its watermark, which never falls."""
    declared = active.generation.setup.streams_by_name
    read = {stream.name for stream in before.topology.streams}
    clocks = {n: c if n in read else replace(c, last_seen=None) for n, c in state.clocks.items() if n in declared}
    return {**clocks, **advance_clocks(active.topology.arriving, clocks, now)}
