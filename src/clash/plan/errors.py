"""The error for a plan that must not run."""


class PlanError(AssertionError):
    """A plan or topology is invalid. That is a bug of the planner, never a mistake of the user, so it is no `ClashError`."""
