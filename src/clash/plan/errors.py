"""A plan that must not run: a mistake of the planner, never of the user."""


class PlanError(AssertionError):
    """Says what is wrong with the plan."""
