"""Explains failures of Spark as a ClashError of what, detail and hint.

A ClashError that is raised in a Python worker reaches the driver as text inside a Java exception. It is therefore encoded in its own
text, from which the driver restores the same class. For any other failure, the branches of the union are read one by one to find the
stream that fails.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from clash import errors
from clash.errors import ClashError, SinkError, SourceError
from clash.spark.column_packing import STREAM
from clash.spark.disk_failures import WrittenFolders, explain_disk_failure

_ENCODED_ERROR = re.compile(r"<clash:([A-Za-z0-9+/=]+)>")
_FILE = re.compile(r"\b(?:file|hdfs|s3a?|gs|abfss?):/[^\s'\",;\]]*[^\s'\",;\].:]")
_STREAM_NUMBER = re.compile(rf"\b(\d+) AS {STREAM}#")
_LOST_PROCESS = (  # what Spark's message contains after the loss of an executor or of a Python worker
    "cancelled as part of cancellation of all jobs",  # as PySpark does on Ctrl-C, also in a cell of a notebook
    "ExecutorLostFailure",
    "FetchFailed",
    "MetadataFetchFailedException",
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
)
_CLOSED = ("Broken pipe", "Connection reset")  # to a Python worker that has ended, if Spark's package for them is in the stack
_PYTHON_WORKERS = "org.apache.spark.api.python"
_PACKAGE = Path(errors.__file__).parent
_MAX_CAUSES = 30  # per exception: in Java causes may form a cycle
_MAX_LINE = 500  # characters
Search = Callable[[], tuple[str, BaseException] | None]  # the stream that fails, and how


class TravellingError(RuntimeError):
    """A ClashError on its way from a Python worker to the driver, encoded in its text."""


class RetriedError(RuntimeError):
    """Spark has repeated a stage of the batch by itself: the batch may have tuples with arrival numbers of both attempts."""


def to_travelling(error: ClashError) -> TravellingError:
    parts = [type(error).__name__, error.what, error.detail, error.hint]
    return TravellingError(f"{error}\n<clash:{base64.b64encode(json.dumps(parts).encode()).decode()}>")


def from_travelling(text: str) -> ClashError | None:
    """The ClashError that is encoded in a message of Spark's, if there is one."""
    match = _ENCODED_ERROR.search(text)
    if match is None:
        return None
    name, *parts = json.loads(base64.b64decode(match[1]))
    kind = getattr(errors, name, ClashError)
    return kind(*parts) if isinstance(kind, type) and issubclass(kind, ClashError) else ClashError(*parts)


def is_lost(error: BaseException) -> bool:
    """Whether a machine or a process was lost, so that the same batch may succeed if it is repeated."""
    text = "\n".join(_messages(error))
    if isinstance(error, RetriedError):
        return True
    is_closed = _PYTHON_WORKERS in text and any(sign in text for sign in _CLOSED)
    return from_travelling(text) is None and (is_closed or any(sign in text for sign in _LOST_PROCESS))


def explain_failure(
    error: BaseException, batch: int | None = None, search: Search | None = None, folders: WrittenFolders | None = None
) -> ClashError:
    """The error that a user gets for a failure in a batch, or outside of all batches.

    `search` finds the stream that fails when it is read by itself; it is called only if nothing else explains the error. `folders`: what
    Spark writes.
    """
    if isinstance(error, ClashError):
        return error
    where = "outside a batch" if batch is None else f"batch {batch}"
    texts = _messages(error)
    worker_error = from_travelling("\n".join(texts))
    if worker_error is not None:
        return worker_error
    if is_lost(error):
        return ClashError(
            "Spark lost a process that worked on the batch, again and again",
            f"{where}: {_first_line(texts[-1])}",
            "out of memory is the usual cause: run fewer tasks at a time, or give Spark more memory; see also the executors' log",
        )
    unwritten = None if folders is None else explain_disk_failure(texts, batch, folders)
    if unwritten is not None:
        return unwritten
    failing = None if search is None else search()
    if failing is not None:
        stream, cause = failing
        causes = _messages(cause)
        file = next((match[0] for text in causes for match in [_FILE.search(text)] if match), None)
        detail = f"{where}, {'' if file is None else f'file {file}, '}{_first_line(_root_message(causes))}"
        return SourceError(f"stream {stream} cannot be read", detail, "repair or remove what is named here; a new start repeats the batch")
    return ClashError(
        "a batch failed" if batch is not None else "the run cannot continue",
        f"{where}: {_first_line(_root_message(texts))}",
        'a new start repeats the batch; for stack traces start it with logging.getLogger("clash").setLevel(logging.DEBUG)',
    )


def cause_line(error: BaseException) -> str:
    """The innermost cause of a failure, in one line."""
    return _first_line(_root_message(_messages(error)))


def without_internal_stacks(error: ClashError) -> ClashError:
    """The error as a user gets it: without the stacks of Spark, Py4J and this package. What a function of the user's raised stays its
    cause, from the user's first frame on."""
    cause, error.__traceback__, error.__context__, error.__cause__ = error.__cause__, None, None, None
    if cause is not None and not hasattr(cause, "java_exception"):  # the text of such a one is a Java stack
        stack = cause.__traceback__
        while stack is not None and Path(stack.tb_frame.f_code.co_filename).is_relative_to(_PACKAGE):
            stack = stack.tb_next
        if stack is not None and isinstance(error, SinkError):
            error.__cause__ = cause.with_traceback(stack)
    return error


def _messages(error: BaseException) -> list[str]:
    """The messages of an exception and of its causes, Python's and Java's, outermost first."""
    texts: list[str] = [str(error)]
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for throwable in _causes(java):
        message = throwable.getMessage()
        text = f"{throwable.getClass().getName()}: {'null' if message is None else message}"
        if text not in texts:
            texts.append(text)
    if error.__cause__ is not None:
        texts += _messages(error.__cause__)
    return texts


def _causes(throwable: Any) -> Iterator[Any]:
    """A Java exception and its causes."""
    for _ in range(_MAX_CAUSES):
        if throwable is None:
            return
        yield throwable
        throwable = throwable.getCause()


def _root_message(texts: Sequence[str]) -> str:
    """The message of the innermost cause that has one; of a Python traceback, its last line."""
    text = next((text for text in reversed(texts) if text.strip() and not text.endswith(": null")), "no message")
    lines = [line for line in text.strip().splitlines() if line.strip() and not line.strip().startswith("SQLSTATE: ")]
    return lines[-1].strip() if lines and any("Traceback (most recent call last)" in line for line in lines) else text


def _first_line(text: str) -> str:
    line = text.strip().splitlines()[0] if text.strip() else "no message"
    return line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}…"


def find_failing_stream(query: Any, streams: Sequence[str | None]) -> tuple[str, BaseException] | None:
    """The first stream whose part of the running batch cannot be read by itself. `streams`: the branches, None for one that is not read."""
    try:
        branches = _branches(query._jsq.streamingQuery().lastExecution().executedPlan())
    except Exception:  # these are internals of Spark, which another version may have renamed: then the error does not name the stream
        return None
    for number, branch in branches:
        stream = streams[number]
        if stream is None:
            continue
        try:
            branch.execute().count()
        except Exception as error:
            return stream, error
    return None


def _branches(plan: Any) -> list[tuple[int, Any]]:
    """The streams' parts of a batch's plan, each with the number of its stream.

    Spark leaves out streams without rows in the batch and, if a single one remains, the union too.
    """
    queue = [plan]
    while queue:
        node = queue.pop(0)
        sequence = node.children()
        children = [sequence.apply(at) for at in range(sequence.size())]
        if node.nodeName() == "Union":
            branches = [(number, child) for child in children if (number := _stream_number(child)) is not None]
            if len(branches) == len(children):
                return branches
            break  # a union of the user's, inside of one stream
        queue += children
    number = _stream_number(plan)
    return [] if number is None else [(number, plan)]


def _stream_number(plan: Any) -> int | None:
    """The number of the stream, which its branch adds to the rows as a column."""
    match = _STREAM_NUMBER.search(plan.toString())
    return None if match is None else int(match[1])
