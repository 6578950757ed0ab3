"""Where the rows of a partial result are, as far as later steps can use it.

Placements are what makes co-partitioning pay under `full`: rows that are known to be on the worker given by the hash of an attribute probe
a store partitioned by that attribute without crossing the network. Under the `probe` cost every row is `UNPLACED`.
"""

from __future__ import annotations

from collections.abc import Callable

from clash.model.layout import ALL, ONE, Layout
from clash.model.query import EqualityClass
from clash.model.relation import Attribute
from clash.planner.cost_model import CostModel
from clash.planner.lattice import Lattice, Sub

Placement = Attribute | str
"""An attribute, by whose hash each row's worker is chosen, or one of the constants below.

Their values also fix the order in which a graph lists nodes, and with it how ties between plans are broken.
"""

UNPLACED = "nowhere"  # a tuple that is on no worker yet, or a partial result whose worker is of no use to any later step
ANY_WORKER = "some worker"  # a tuple on one worker, chosen by an attribute that no step can use; enough to probe replicated stores
SINGLE_WORKER = "one worker"  # all rows are on the one worker that stores of layout ONE are on
EVERY_WORKER = "every worker"  # every worker has a copy of all rows

# Ends of a path in the graph rather than placements:
FED = "fed"  # the rows are in the MIR's store
DELIVERED = "delivered"  # the rows are results


class PlacementRules:
    """How placements change from step to step."""

    def __init__(self, lattice: Lattice, model: CostModel, exact: Callable[[EqualityClass], bool]) -> None:
        """`exact`: whether all attributes of the class compare values of one kind, so that equal values have equal hashes."""
        self._workers = model.workers
        self._exact = {equal: exact(equal) for sub in lattice.subs for equal in sub.join.classes}
        self.inner = {part for sub in lattice.subs for pair in sub.splits for part in pair}
        """The subs that further steps continue from."""

    def after(self, sub: Sub, layout: Layout, attribute: Attribute | None) -> Placement:
        """Where rows of `sub` are once they have been sent to a store of this layout (not ALL), which hashes `attribute`."""
        if sub.id not in self.inner:
            return UNPLACED
        if layout == ONE:
            return SINGLE_WORKER if self._workers > 1 else UNPLACED
        return UNPLACED if attribute is None or layout.hot else self.widen(attribute, sub)

    def widen(self, placement: Placement, sub: Sub) -> Placement:
        """The same placement as `sub`, which contains the placed rows, names it: by the smallest equal attribute.

        It is `UNPLACED` where no later step can use it.
        """
        if placement == EVERY_WORKER:
            return EVERY_WORKER
        if sub.id not in self.inner:
            return UNPLACED
        if not isinstance(placement, Attribute):
            return UNPLACED if placement == ANY_WORKER else placement  # every partial result that has probed is on some worker
        for equal in sub.join.classes:
            if placement in equal and self._exact[equal]:
                placement = min(equal)
                break
        return placement if (placement.relation, placement.column) in sub.outside else UNPLACED

    def stays(self, placement: Placement, layout: Layout, attribute: Attribute | None, before: Sub, after: Sub) -> bool:
        """Whether rows of `before` at `placement` can probe, without being sent, a store of this layout, which hashes `attribute`.

        `after` is what the step completes.
        """
        if placement == EVERY_WORKER:
            return True
        if layout == ALL:
            return before.size > 1 or placement != UNPLACED  # any worker will do, and the rows are on one
        if layout == ONE:
            return placement == SINGLE_WORKER
        if not isinstance(placement, Attribute) or layout.hot:
            return False
        return any(placement in equal and attribute in equal and self._exact[equal] for equal in after.join.classes)


def matches_layout(placement: Placement, layout: Layout) -> bool:
    """Whether rows at `placement` are already where a MIR's store of this layout keeps them."""
    if layout == ALL:
        return placement == EVERY_WORKER
    if layout == ONE:
        return placement == SINGLE_WORKER
    if not isinstance(placement, Attribute) or layout.hot:
        return False
    return layout.kind == "hash" and (placement.relation, placement.column) == (layout.relation, layout.column)


def hashed_attribute(layout: Layout, sub: Sub) -> Attribute | None:
    """The attribute of `sub` that the layout hashes."""
    if layout.kind != "hash" or layout.column is None:
        return None
    return Attribute(layout.relation if layout.relation is not None else sub.relations[0], layout.column)


def known_attributes(before: Sub, probed: Sub, after: Sub) -> set[Attribute]:
    """The attributes of `probed` whose values a partial result over `before` determines: those equal to one of its own."""
    inside, target = before.join.relations, probed.join.relations
    return {
        attribute
        for equal in after.join.classes
        if any(member.relation in inside for member in equal)
        for attribute in equal
        if attribute.relation in target
    }


def linked_attributes(before: Sub, probed: Sub, after: Sub, stored: Attribute | None = None) -> tuple[Attribute, Attribute] | None:
    """Two attributes, of `before` and of `probed`, that the step compares: those of `stored` where it is given, else the smallest; None if
    it compares none."""
    inside, target = before.join.relations, probed.join.relations
    for equal in sorted(map(sorted, after.join.classes)):
        bound = [member for member in equal if member.relation in inside]
        added = [member for member in equal if member.relation in target and stored in (None, member)]
        if bound and added:
            return bound[0], added[0]
    return None
