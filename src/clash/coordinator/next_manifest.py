"""The manifest after a batch: the state before it, changed by what its tasks have reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from clash.coordinator.active_generation import ActiveGeneration
from clash.coordinator.batch_reports import BatchReports
from clash.coordinator.checkpoint.batch_decision import BatchDecision
from clash.coordinator.checkpoint.manifest import Manifest, PublishedFiles
from clash.coordinator.committed_batch import containers_after, costs_after
from clash.coordinator.lifecycle.backfill import advance_progress
from clash.coordinator.lifecycle.retention import extend_log
from clash.coordinator.lifecycle.watermarks import observe_batch
from clash.protocol.batch import BatchSpec
from clash.protocol.reports import ResultFile
from clash.protocol.result_files import HANDOVER, file_location, is_of_stream


def next_manifest(
    before: Manifest, active: ActiveGeneration, decision: BatchDecision, sources: Collection[str], spec: BatchSpec, reports: BatchReports
) -> Manifest:
    """`before`: the state that the batch started from; `sources`: the streams that it may have rows of."""
    summary, max_event_times = reports.summary(), reports.max_event_times
    lost_until = active.lost_until(before, spec)
    streams = [stream for stream in active.generation.setup.streams if stream.name in sources]
    missing, complete_from = active.completeness(before, spec, max_event_times)
    return Manifest(
        batch=spec.batch,
        now=spec.now,
        next_number=spec.first_number + max(reports.numbers, 1) * spec.partitions,  # also without tuples, see `Generation.arrival`
        clocks=observe_batch(decision.clocks, max_event_times, summary.input, spec.now),
        containers=tuple(containers_after(spec, reports.rounds)),
        files=reports.files,
        summary=summary,
        generation=spec.generation,
        epoch=decision.epoch,
        lost_until=lost_until,
        retention=extend_log(before.retention, active.topology, streams, max_event_times, spec.now, lost_until),
        missing=missing,
        complete_from=complete_from,
        costs=costs_after(before.costs, spec.generation, summary),
        backfilled=advance_progress(active.generation.stores.introduced, before.backfilled, spec.backfill),
        published=_published(before.published, spec, reports.files),
        tables=decision.tables,
        seal=decision.seal,
    )


def _published(before: Mapping[str, PublishedFiles], spec: BatchSpec, files: Iterable[ResultFile]) -> dict[str, PublishedFiles]:
    """Late rows are counted for every stream that had some; results for the queries of now, each from its folder's first batch on."""
    added = Counter(file.destination for file in files)
    published = {}
    for destination in {*spec.sinks, *added, *(name for name in before if is_of_stream(name))}:
        uri, folder = file_location(spec.uri, spec.sinks, destination)
        location = f"{uri}/{folder}".rstrip("/")
        earlier = before.get(destination)
        files_before = earlier.files if earlier is not None and earlier.location == location else 0
        if not folder.startswith(HANDOVER) and files_before + added[destination]:
            published[destination] = PublishedFiles(location, files_before + added[destination])
    return published
