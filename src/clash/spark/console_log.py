"""Keeps off the terminal what Spark logs about failures that a run explains itself: a stack trace per task, attempt and layer.

Only appenders that write to the console are filtered: files and other targets of Spark's log keep every line. With the Python logger
`clash` at DEBUG nothing is filtered. What is filtered is bound to the runs of this package: lines of tasks of their jobs, and lines that
carry the identity of their Spark query.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from py4j.java_gateway import JavaClass

TASK_PROPERTY = "mdc.clash"  # Spark sets local properties of this form in the logging context of a job's tasks
TASK = "task"
_LOG = logging.getLogger("clash")
_LOG4J = "org.apache.logging.log4j"
_CONSOLE = "ConsoleAppender"
# Spark compares a query's plan with what it ran, which is less where tasks read the files; and a stop cancels jobs that may have ended.
_NOISE = (
    r"(?s)Could not report metrics as number leaves .*\[stream#.*|"
    r"Failed to cancel job group [0-9a-f]{8}-[0-9a-f-]{27}\. Cannot find active jobs for it\."
)
_filtered: set[str] = set()  # identities of queries; the filters stay as long as the JVM


def quiet_console(spark: Any, query_id: str) -> None:
    """Filters the console, for a Spark query of this identity and for the tasks of all runs."""
    if _LOG.isEnabledFor(logging.DEBUG):
        return
    try:
        _Console(spark).filter(query_id)
    except Exception as error:  # another logging library than Spark's own, or another version of it: more lines, nothing else
        _LOG.debug("the console log of Spark is not filtered: %s", error)


class _Console:
    def __init__(self, spark: Any) -> None:
        self._gateway = spark.sparkContext._gateway
        self._client = self._gateway._gateway_client
        self._key = str(self._gateway.gateway_parameters.port)
        result = self._class("core.Filter$Result")
        self._deny, self._neutral = result.DENY, result.NEUTRAL

    def _class(self, name: str) -> Any:
        return JavaClass(f"{_LOG4J}.{name}", self._client)

    def filter(self, query_id: str) -> None:
        filters: dict[str, Callable[[], Any]] = {
            f"{self._key} tasks": self._tasks_filter,
            f"{self._key} noise": lambda: self._message_filter(_NOISE),
            f"{self._key} {query_id}": lambda: self._message_filter(
                rf"(?s).*(\[queryId = {query_id[:5]}\]|\[id = {query_id}, runId = [^]]*\] terminated with error).*"
            ),
        }
        for key, make in filters.items():
            if key not in _filtered:
                made = make()
                for appender in self._appenders():
                    appender.addFilter(made)
                _filtered.add(key)

    def _appenders(self) -> list[Any]:
        configuration = self._class("LogManager").getContext(False).getConfiguration()
        names = JavaClass("java.lang.String", self._client).join("\n", configuration.getAppenders().keySet())  # iterating takes a second
        appenders = [configuration.getAppender(name) for name in names.split("\n")]
        return [appender for appender in appenders if appender.getClass().getSimpleName() == _CONSOLE]

    def _message_filter(self, pattern: str) -> Any:
        filtered = self._class("core.filter.RegexFilter").createFilter(pattern, None, False, self._deny, self._neutral)
        filtered.start()
        return filtered

    def _tasks_filter(self) -> Any:
        levels = self._gateway.new_array(self._class("core.util.KeyValuePair"), 1)
        levels[0] = self._class("core.util.KeyValuePair")(TASK, "OFF")
        lowest = self._class("Level").ALL
        filtered = self._class("core.filter.DynamicThresholdFilter").createFilter(TASK_PROPERTY, levels, lowest, self._neutral, self._deny)
        filtered.start()
        return filtered
