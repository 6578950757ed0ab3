"""`generations`: every plan so far; `quality`: what the running plan costs beside the best known one, the bound, and jobs of their own."""

from __future__ import annotations

from typing import Any

from clash.server.snapshot.run_view import view_of

_MAX_GENERATIONS = 200


def generations(run: Any) -> list[dict[str, Any]]:
    """The last generations, oldest first: when and why each began, and what it cost beside what was expected. Measured costs are in
    microseconds of all tasks per tuple."""
    outlines: list[dict[str, Any]] = run.generations
    return outlines[-_MAX_GENERATIONS:]


def quality(run: Any) -> dict[str, Any]:
    """Costs in the planner's unit, all under the statistics that they were compared with."""
    coordinator = run.coordinator
    generation = coordinator.generation
    plan, compared = generation.plan, coordinator.replanner.compared
    view = view_of(run)
    if compared is not None and compared.generation == generation.number:
        cost, best, bound, is_proven = compared.running, min(compared.running, compared.best), compared.bound, compared.is_proven
        source = compared.bound_source
    else:
        cost, best, bound, is_proven, source = plan.cost, plan.cost, plan.bound, plan.optimal, plan.bound_source
    alone = view.independent()
    unpaid = coordinator.replanner.offers.unpaid(generation.number)
    stores = view.progress()["stores"].values()
    return {
        "generation": generation.number,
        "strategy": plan.strategy,
        "cost": cost,
        "best": best,
        "bound": min(bound, best),
        "bound_source": source,
        "unpaid": None if unpaid is None else _unpaid(unpaid),
        "proven": is_proven,
        "plan_cost": plan.cost,
        "stores": len(plan.stores),
        "rows": sum(store.rows * len(store.layouts) for store in plan.stores),
        "held": {"rows": sum(size["rows"] for size in stores), "bytes": sum(size["bytes"] for size in stores)},
        "independent": alone,
    }


def _unpaid(payback: Any) -> dict[str, float]:
    """A better plan that is known, but does not earn within its horizon, in windows, what the change to it costs."""
    return {"cost": payback.new, "running": payback.old, "transition": payback.transition, "horizon": payback.horizon}
