"""What is shown of a generation, and what is kept of it when nothing else refers to it any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from clash.codec import Codec
from clash.coordinator.adaptive.generation_cost import GenerationCost, micros_per_tuple
from clash.coordinator.checkpoint.generation import Generation


@dataclass(frozen=True)
class GenerationOutline:
    """What a generation was when it began."""

    generation: int
    batch: int
    reason: str
    queries: list[str]
    workers: int
    stores: int
    cost: float
    predicted_old: float | None
    predicted_new: float | None


OUTLINE: Codec[GenerationOutline] = Codec(GenerationOutline)


class MeasuredCost(NamedTuple):
    """What is shown of a generation's cost, in microseconds of all tasks per tuple."""

    batches: int = 0
    whole: float | None = None
    """Over the whole life."""
    recent: float | None = None
    """In the last few batches: what the next generation is compared with."""

    @staticmethod
    def of(cost: GenerationCost) -> MeasuredCost:
        return MeasuredCost(cost.batches, cost.micros_per_tuple, micros_per_tuple(cost.recent))


class EndedGeneration(NamedTuple):
    """A generation that no batch will run under."""

    outline: GenerationOutline
    cost: MeasuredCost

    def shown(self, before: MeasuredCost) -> dict[str, Any]:
        """For users. `before`: the cost of the last generation before it that a batch ran under."""
        measured = {"batches": self.cost.batches, "measured_before": before.recent, "measured": self.cost.whole}
        return {**vars(self.outline), "queries": [*self.outline.queries], **measured}


def outline_of(generation: Generation) -> GenerationOutline:
    old, new = generation.predicted or (None, None)
    return GenerationOutline(
        generation=generation.number,
        batch=generation.batch,
        reason=generation.reason,
        queries=list(generation.setup.query_names),
        workers=generation.setup.workers,
        stores=len(generation.plan.stores),
        cost=generation.plan.cost,
        predicted_old=old,
        predicted_new=new,
    )
