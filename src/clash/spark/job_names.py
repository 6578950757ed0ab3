"""What Spark's UI and event log call the jobs and stages of a batch: `clash shop: batch 12`, `clash shop: batch 12, round 2`.

Spark's own description of a job in a streaming query is three lines of identifiers, the same for every stage.
"""

from __future__ import annotations

from typing import Any

from clash.errors import OptionError

_DESCRIPTION = "spark.job.description"
_STAGE = "callSite.short"  # an RDD takes its name from it when it is created, and a stage its name from an RDD


class JobNames:
    """Sets names in the thread of the streaming query, the one that calls; costs nothing where they are not shown."""

    def __init__(self, context: Any, name: str | None) -> None:
        self.context, self._prefix = context, "clash" if name is None else f"clash {name}"
        self.stage = self._prefix  # of the RDD that was created last
        self.shown = is_shown(context._conf)  # `getConf()` copies all settings, in 50 ms

    def begin_batch(self, batch: int) -> None:
        """Jobs from now on belong to this batch."""
        if self.shown:
            self.context.setLocalProperty(_DESCRIPTION, f"{self._prefix}: batch {batch}")

    def name_stage(self, batch: int, part: str) -> None:
        """RDDs that are created from now on belong to this part of the batch."""
        self.stage = f"{self._prefix}: batch {batch}, {part}"
        if self.shown:
            self.context.setLocalProperty(_STAGE, self.stage)

    def end_job(self) -> None:
        """What a function sink runs gets its name from Spark again."""
        if self.shown:
            self.context.setLocalProperty(_STAGE, None)


def is_shown(settings: Any) -> bool:
    """Whether this Spark has a UI, or records what one shows later."""
    return "true" in (settings.get("spark.ui.enabled", "true"), settings.get("spark.eventLog.enabled", "false"))


def refuse_active_name(spark: Any, name: str | None) -> None:
    """Spark refuses two active queries of one name, with a stack trace."""
    if name is not None and any(query.name == name for query in spark.streams.active):
        raise OptionError("a query of that name is active in the Spark session", repr(name), "give each engine a name of its own: name=…")
