"""Puts a snapshot back: the checkpoint, and the result folders as they were with it.

Invariant: everything is checked before anything changes. Nothing that is there is deleted: the checkpoint in the place, and result files
that the snapshot does not have, are moved aside. The checkpoint is put together beside its place; the one in the place is moved aside
before results are, and the new one is renamed last. So a restore that was killed can be done again, and no checkpoint is ever in the place
whose results were taken away: until then a start finds none, and is refused for the result folders of another.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from clash.coordinator.control.folder_owner import FolderOwner, mark, read_owner
from clash.coordinator.control.job import QueryRequest, SinkSpec
from clash.errors import CheckpointError, ClashError, OptionError
from clash.hints import listed
from clash.operations.backup_record import CHECKPOINT, Snapshot, StoredFolder
from clash.operations.durable_files import content_of, flush, flush_folders, naming, write_file
from clash.operations.opened_checkpoint import open_checkpoint
from clash.operations.restored_folder import FolderPlan, plan_folder
from clash.operations.verify import verify_snapshot
from clash.protocol.result_files import origin_of
from clash.state.checkpoint_lock import lock_checkpoint
from clash.state.storage import LocalStorage

_UNFINISHED = ".restoring"


@dataclass(frozen=True)
class Restored:
    checkpoint: Path
    batch: int
    aside: Path | None
    """Where the checkpoint is now that was in the place."""
    folders: tuple[FolderPlan, ...]


def restore(snapshot: Snapshot, to: Path | None = None, results: Mapping[str, Path] | None = None, replaces: bool = False) -> Restored:
    """`to`: another place for the checkpoint; `results`: other places for result folders, by query or by old place. `replaces`: whether
    what is there now may be moved aside."""
    record = snapshot.record
    target = Path(record.checkpoint) if to is None else to.expanduser().absolute()
    places = _places(snapshot, results or {})
    _refuse_files([target, *places])
    verify_snapshot(snapshot)
    with ExitStack() as locks:
        present = locks.enter_context(_in_place(target, replaces))
        shared = [stored for stored, place in zip(record.folders, places, strict=True) if str(place) == stored.location]
        if shared and target != Path(record.checkpoint):
            former = locks.enter_context(_in_place(Path(record.checkpoint), replaces=True))
            if former == record.identity:
                raise _shared(record.checkpoint, shared[0])
        time = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        plans = tuple(plan_folder(snapshot, number, place, present, time) for number, place in enumerate(places))
        if not replaces:
            _refuse_extra(plans)
        unfinished = target.with_name(target.name + _UNFINISHED)
        _copy_checkpoint(snapshot, unfinished, plans)
        aside = _move_aside(target, time)
        for plan in plans:
            plan.carry_out()
    with naming("moved", unfinished):  # without the lock: its release removes a file in the place, which a run may have now
        unfinished.rename(target)
    flush([target.parent])
    return Restored(target, record.batch, aside, plans)


def _places(snapshot: Snapshot, given: Mapping[str, Path]) -> list[Path]:
    """Where each result folder goes. A query whose results were in several folders is named by the last of them."""
    places, used = [], set()
    for stored in snapshot.record.folders:
        keys = [key for key in (stored.location, stored.query or "") if key in given and key not in used]
        used.update(keys[:1])
        places.append(given[keys[0]].expanduser().absolute() if keys else Path(stored.location))
    unknown = [key for key in given if key not in used]
    if unknown:
        names = [f"{stored.query} ({stored.location})" for stored in snapshot.record.folders]
        raise OptionError(
            "the backup has no result folder of that name",
            repr(unknown[0]),
            f"result folders outside of the checkpoint are {listed(names)}" if names else "all its results are under the checkpoint",
        )
    twice = [place for at, place in enumerate(places) if place in places[:at]]
    if twice:
        raise OptionError("two result folders would be put in one place", str(twice[0]), "give each a folder of its own")
    return places


def _refuse_files(places: Iterable[Path]) -> None:
    """Each is a folder, or can become one."""
    for place in places:
        with naming("read", place):
            existing = next(path for path in (place, *place.parents) if path.exists())
            is_folder = existing.is_dir()
        if not is_folder:
            raise OptionError("a file lies where a folder is needed", str(existing), "name another place")


@contextmanager
def _in_place(target: Path, replaces: bool) -> Iterator[str | None]:
    """The identity of the checkpoint that is in a place, None if there is none or it cannot be read; no run has it meanwhile."""
    if not target.exists() or not any(target.iterdir()):
        yield None
        return
    if not replaces:
        raise CheckpointError("there is something in the checkpoint's place", str(target), "restore with --replace, which moves it aside")
    lock = lock_checkpoint(LocalStorage(target / "clash")) if (target / "clash").is_dir() else None
    identity = None
    with suppress(ClashError):  # damaged, which may be why another is restored
        identity = open_checkpoint(target).identity
    try:
        yield identity
    finally:
        if lock is not None:
            lock.release()


def _shared(checkpoint: str, folder: StoredFolder) -> CheckpointError:
    """The error for a result folder that two lives of a checkpoint would have: the one in the old place would miss what is moved aside."""
    return CheckpointError(
        "the checkpoint in the old place has the same result folders",
        f"query {folder.query}, {folder.location}: {checkpoint} writes to it",
        f"give the results another place, too (--results {folder.query}=FOLDER), or move {checkpoint} away",
    )


def _refuse_extra(plans: Sequence[FolderPlan]) -> None:
    for plan in plans:
        batches = [origin.batch for path in plan.extra if (origin := origin_of(Path(path).name))]
        if batches:
            raise CheckpointError(
                "a result folder has results that the backup does not have",
                f"query {plan.stored.query}, {plan.place}: {len(batches)} files of batches {min(batches)} to {max(batches)}",
                f"restore with --replace, which moves them to {plan.aside}",
            )


def _copy_checkpoint(snapshot: Snapshot, unfinished: Path, plans: Sequence[FolderPlan]) -> None:
    """Puts the checkpoint together beside its place, in place of what a killed restore left there."""
    if unfinished.exists():
        with naming("deleted", unfinished):
            shutil.rmtree(unfinished)
    with naming("written", unfinished):
        unfinished.mkdir(mode=0o700, parents=True)
    for path in snapshot.record.files:
        if path.startswith(f"{CHECKPOINT}/"):
            source = snapshot.path / path
            with naming("read", source):
                content = content_of(source)
            write_file(unfinished / path.removeprefix(f"{CHECKPOINT}/"), content)
    _record_places(unfinished, {SinkSpec("parquet", plan.stored.location).folder: plan.place for plan in plans})
    identity = snapshot.record.identity
    if identity:
        _mark_folders(LocalStorage(unfinished / "clash"), identity)
    flush_folders(unfinished)


def _record_places(checkpoint: Path, places: Mapping[str | None, Path]) -> None:
    """Changes where queries write to in the checkpoint's records: a start looks for the results of earlier batches there."""

    def moved(request: QueryRequest) -> QueryRequest:
        place = places.get(request.sink.folder)
        unchanged = place is None or request.sink.folder == SinkSpec("parquet", str(place)).folder
        return request if unchanged else replace(request, sink=replace(request.sink, path=str(place)))

    log = open_checkpoint(checkpoint).log
    for number in log.numbers():
        before = log.read(number)
        queries = tuple(replace(live, request=moved(live.request)) for live in before.setup.queries)
        declared = tuple(moved(request) for request in before.program.queries)
        after = replace(before, setup=replace(before.setup, queries=queries), program=replace(before.program, queries=declared))
        if after != before:
            log.write(after)


def _mark_folders(storage: LocalStorage, identity: str) -> None:
    """The folders under the checkpoint are whole: they do not count as copies that may be short."""
    mark(storage, "", FolderOwner(identity, None), renew=True)
    for folder in {f"results/{name.partition('/')[0]}" for name in storage.list("results", recursive=True)}:
        owner = read_owner(storage, folder)
        if owner is not None:
            mark(storage, folder, owner, renew=True)


def _move_aside(target: Path, time: str) -> Path | None:
    if not target.exists():
        return None
    with naming("moved", target):
        if not any(target.iterdir()):
            target.rmdir()
            return None
        name = f"{target.name}.before-restore-{time}"
        aside = target.with_name(name)
        while aside.exists():  # of another restore in the same second
            name = f"{name}-again"
            aside = target.with_name(name)
        target.rename(aside)
    return aside
