"""A new base store begins with what another store of its stream has: containers never change, so two stores may list the same file.

Invariant: what is true of the donor's rows is true of them in the new store: how they are laid out, since when they have which column, up
to which event time some have gone, what was kept of the tuples that came. They are taken over once, with the first batch of the generation
that has the new store; from then on each store goes its own way. So a query that has stores of its own sees what is stored, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from clash.coordinator.lifecycle.retention import UNREAD, Entry, needs
from clash.coordinator.checkpoint.manifest import Manifest
from clash.model.query import Query
from clash.model.relation import Relation
from clash.planner.orders import StoreKey
from clash.topology import Topology
from clash.plan.topology import Store
from clash.plan.store_names import store_id
from clash.topology.stores import readers


class Adoption(NamedTuple):
    """`owner`: of the new store; `donor`: of the one that it begins with."""

    stream: str
    owner: str | None
    donor: str | None

    @property
    def store(self) -> str:
        return store_id(StoreKey(self.stream, None, self.owner))

    @property
    def source(self) -> str:
        return store_id(StoreKey(self.stream, None, self.donor))


def choose_donors(before: Topology, after: Topology, known: Manifest, begun: Mapping[str, bool]) -> tuple[Adoption, ...]:
    """For each new store, and for that of a query in the place of another of its name, the one that lacks least of what it needs. `begun`:
    the queries that begin here, and whether they want tuples from before them."""
    all_kept = {stream.name for stream in after.streams if stream.keep == "all"}
    found = []
    for store in after.stores:
        new = store.id not in before.store or store.owner in begun
        wanted = store.stream in all_kept or store.owner is None or begun.get(store.owner, True)
        if store.stream is None or not new or not wanted:
            continue
        key = StoreKey(store.stream, None, store.owner)
        roles = [(q, r) for q in readers(key, after.queries) for r in sorted(q.join.relations) if r.stream == store.stream]
        donors = [other for other in before.stores if other.stream == store.stream and _is_useful(other, roles, after)]
        ranked = sorted((_lost(donor, roles, known), donor.id != store.id, donor.id, donor.owner or "") for donor in donors)
        if ranked and ranked[0][1]:
            found.append(Adoption(store.stream, store.owner, ranked[0][3] or None))
    return tuple(found)


Roles = list[tuple[Query, Relation]]


def _is_useful(donor: Store, roles: Roles, topology: Topology) -> bool:
    """Has it the columns? Rows without them are no answer to anybody."""
    times = {stream.name: stream.time for stream in topology.streams}
    columns = {column.column for column in donor.columns} | {times.get(str(donor.stream))}
    return not roles or any(needs(query, relation) <= columns for query, relation in roles)


def _lost(donor: Store, roles: Roles, known: Manifest) -> int:
    """The largest event time of a tuple that it may lack."""

    def has(entry: Entry) -> bool:
        kept = any(owner == donor.owner for owner, _, _ in entry.kept)
        return kept and all(entry.serves(query, relation, donor.owner) for query, relation in roles)

    taus = [entry.tau for entry in known.kept.get(str(donor.stream), ()) if not has(entry)]
    return max([*taus, known.gone.get(donor.id, -UNREAD)])


def taken_over(manifest: Manifest, batch: int, adoptions: Collection[Adoption]) -> Manifest:
    """The manifest as the generation that begins with `batch` finds it."""
    if not adoptions or manifest.batch + 1 != batch:
        return manifest
    replaced = {adoption.store for adoption in adoptions}
    containers = [record for record in manifest.containers if record.store not in replaced]
    gone = {store: tau for store, tau in manifest.gone.items() if store not in replaced}
    kept = dict(manifest.kept)
    for store, source in ((adoption.store, adoption.source) for adoption in adoptions):
        mine = [record for record in manifest.containers if record.store == source]
        containers += [replace(record, store=store, donor=record.donor or record.store) for record in mine]
        gone |= {store: manifest.gone[source]} if source in manifest.gone else {}
    for stream in {adoption.stream for adoption in adoptions}:
        donors = {adoption.owner: adoption.donor for adoption in adoptions if adoption.stream == stream}
        kept[stream] = tuple(_given(entry, donors) for entry in manifest.kept.get(stream, ()))
    return replace(manifest, containers=tuple(containers), gone=gone, kept=kept)


def _given(entry: Entry, donors: Mapping[str | None, str | None]) -> Entry:
    """What a donor kept is what the new store has kept, and nothing else."""
    others = [kept for kept in entry.kept if kept[0] not in donors]
    given = [(mine, *kept[1:]) for mine, donor in donors.items() for kept in entry.kept if kept[0] == donor]
    return Entry(frozenset([*others, *given]), entry.tau)
