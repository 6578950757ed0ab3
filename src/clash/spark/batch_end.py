"""The exceptions with which a batch function ends a Spark query. Each is short: Spark keeps and prints the whole text of one, twice.

What really happened is kept by the supervisor of the query, and logged by it, once.
"""

from __future__ import annotations

import logging


class BatchEndError(Exception):
    """Ends the Spark query in place of a batch, which the next query over the checkpoint runs again."""


class BatchFailedError(BatchEndError):
    """The batch failed, or a function that takes its results; the text is that of the error that the user gets."""


class QueryRestartError(BatchEndError):
    """The query has to be started again. The batch is planned, not begun."""

    def __init__(self) -> None:
        super().__init__("not a failure: clash starts its Spark query again, with other sources or columns, and continues with this batch")


class InterruptError(BatchEndError):
    """What Spark gets for a batch of a query that is being stopped: it takes it for the interrupt of the stop, not for a failure. Spark
    looks for an interrupt in the text of what failed, by a pattern that recurses for every character: the Java stack of a cancelled job
    overflows that of Spark's thread, which prints a thousand lines."""

    def __init__(self) -> None:
        super().__init__(
            "py4j.protocol.Py4JJavaError: An error occurred while calling a batch: java.lang.InterruptedException: the run is stopped"
        )


def _is_unexpected(record: logging.LogRecord) -> bool:
    """Py4J logs every exception of a batch function with its traceback, also those that only end a query."""
    return not (record.exc_info and isinstance(record.exc_info[1], BatchEndError))


logging.getLogger("py4j.clientserver").addFilter(_is_unexpected)
