"""What goes wrong in Spark, as an error of what, detail and hint.

A ClashError raised in a Python worker reaches the driver as text inside a Java exception: it carries itself along in a mark, so it
arrives as the same class. For anything else the branches of the union are read one by one to find the stream that fails.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from clash import errors
from clash.errors import ClashError, SourceError
from clash.spark.column_packing import STREAM

_MARK = re.compile(r"<clash:([A-Za-z0-9+/=]+)>")
_FILE = re.compile(r"\b(?:file|hdfs|s3a?|gs|abfss?):/[^\s'\",;\]]*[^\s'\",;\].:]")
_NUMBER = re.compile(rf"\b(\d+) AS {STREAM}#")
_LOST = (
    "ExecutorLostFailure",
    "FetchFailed",
    "MetadataFetchFailedException",
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
)
Search = Callable[[], tuple[str, BaseException] | None]
_DEEPEST = 30  # causes of causes; Java allows circles


class TravellingError(RuntimeError):
    """A ClashError on its way out of a Python worker."""


class RetriedError(RuntimeError):
    """Spark ran a stage of the batch again by itself: arrival numbers of two attempts may have mixed."""


def to_travelling(error: ClashError) -> TravellingError:
    parts = [type(error).__name__, error.what, error.detail, error.hint]
    return TravellingError(f"{error}\n<clash:{base64.b64encode(json.dumps(parts).encode()).decode()}>")


def from_travelling(text: str) -> ClashError | None:
    """The ClashError that a text of Spark's carries."""
    found = _MARK.search(text)
    if found is None:
        return None
    name, *parts = json.loads(base64.b64decode(found[1]))
    kind = getattr(errors, name, ClashError)
    return kind(*parts) if isinstance(kind, type) and issubclass(kind, ClashError) else ClashError(*parts)


def is_lost(error: BaseException) -> bool:
    """Did a machine or a process go away, so that the same batch may well succeed next time?"""
    text = "\n".join(messages(error))
    return isinstance(error, RetriedError) or (from_travelling(text) is None and any(sign in text for sign in _LOST))


def explain_failure(error: BaseException, batch: int | None = None, search: Search | None = None) -> ClashError:
    """`search` finds the stream that fails when it is read alone, and how; it is called only if nothing else explains the error."""
    if isinstance(error, ClashError):
        return error
    where = "outside a batch" if batch is None else f"batch {batch}"
    said = messages(error)
    carried = from_travelling("\n".join(said))
    if carried is not None:
        return carried
    if is_lost(error):
        return ClashError(
            "Spark lost a process that worked on the batch, again and again",
            f"{where}: {_first_line(said[-1])}",
            "see Spark's log for why it ended; out of memory is the usual cause: fewer workers at a time, or more memory",
        )
    guilty = None if search is None else search()
    if guilty is not None:
        stream, cause = guilty
        causes = messages(cause)
        file = next((match[0] for text in causes for match in [_FILE.search(text)] if match), None)
        detail = f"{where}, {'' if file is None else f'file {file}, '}{_first_line(_root(causes))}"
        return SourceError(f"stream {stream} cannot be read", detail, "repair or remove what is named here; a new start repeats the batch")
    return ClashError(
        "a batch failed" if batch is not None else "the stream cannot go on",
        f"{where}: {_first_line(_root(said))}",
        "a new start repeats the batch; the whole story is in Spark's log",
    )


def messages(error: BaseException) -> list[str]:
    """What an exception and its causes say, Python's and Java's, outermost first."""
    found: list[str] = [str(error)]
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for throwable in _causes(java):
        text = f"{throwable.getClass().getName()}: {throwable.getMessage()}"
        if text not in found:
            found.append(text)
    if error.__cause__ is not None:
        found += messages(error.__cause__)
    return found


def _causes(java: Any) -> Iterator[Any]:
    for _ in range(_DEEPEST):
        if java is None:
            return
        yield java
        java = java.getCause()


def _root(said: Sequence[str]) -> str:
    """The innermost cause that says something; a Python traceback says it in its last line."""
    text = next((text for text in reversed(said) if text.strip() and not text.endswith(": null")), "no message")
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines and any("Traceback (most recent call last)" in line for line in lines) else text


def _first_line(text: str) -> str:
    line = text.strip().splitlines()[0] if text.strip() else "no message"
    return line if len(line) <= 500 else f"{line[:500]}…"


def find_failing_stream(query: Any, streams: Sequence[str]) -> tuple[str, BaseException] | None:
    """The first stream whose part of the running batch cannot be read by itself."""
    try:
        branches = _branches(query._jsq.streamingQuery().lastExecution().executedPlan())
    except Exception:  # Spark's own objects: another version may call them otherwise, and the error does not name the stream
        return None
    for number, branch in branches:
        try:
            branch.execute().count()
        except Exception as error:
            return streams[number], error
    return None


def _branches(plan: Any) -> list[tuple[int, Any]]:
    """Each stream's part of the plan, by its number. Spark leaves those out that have no rows in the batch, and then the union too."""
    waiting = [plan]
    while waiting:
        node = waiting.pop(0)
        children = node.children()
        inner = [children.apply(at) for at in range(children.size())]
        if node.nodeName() == "Union":
            found = [(number, child) for child in inner if (number := _number(child)) is not None]
            if len(found) == len(inner):
                return found
            break  # a union of the user's, below ours
        waiting += inner
    number = _number(plan)
    return [] if number is None else [(number, plan)]


def _number(plan: Any) -> int | None:
    """The stream's number, which the branch adds to its rows."""
    found = _NUMBER.search(plan.toString())
    return None if found is None else int(found[1])
