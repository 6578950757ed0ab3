"""Errors on their way through Spark's texts, without Spark."""

from __future__ import annotations

import pytest

from clash.errors import ClashError, DataError, SourceError, StateError
from clash.spark.failures import RetriedError, _branches, explain_failure, from_travelling, is_lost, to_travelling


class Java:
    """A Java throwable, as far as it is asked."""

    def __init__(self, name: str, message: str | None, cause: Java | None = None) -> None:
        self.name, self.message, self.cause = name, message, cause

    def getClass(self) -> Java:  # noqa: N802
        return self

    def getName(self) -> str:  # noqa: N802
        return self.name

    def getMessage(self) -> str | None:  # noqa: N802
        return self.message

    def getCause(self) -> Java | None:  # noqa: N802
        return self.cause


class Py4J(Exception):  # noqa: N818
    def __init__(self, java: Java) -> None:
        super().__init__("An error occurred while calling o1.collect")
        self.java_exception = java


@pytest.mark.parametrize("kind", [DataError, StateError, ClashError])
def test_a_workers_error_arrives_as_what_it_was(kind: type[ClashError]) -> None:
    error = kind("division by zero", "R.a / R.b\nin »q1«, batch 3", 'write "try_divide"')
    text = f"Traceback (most recent call last):\n  File …\nclash…: {to_travelling(error)}\n\tat org.apache.spark…"
    found = explain_failure(Py4J(Java("SparkException", "Job aborted", Java("PythonException", text))), 3)
    assert type(found) is kind
    assert (found.what, found.detail, found.hint) == (error.what, error.detail, error.hint)
    assert from_travelling("nothing of ours <clash>") is None


def test_a_stream_that_fails_is_named_with_its_file() -> None:
    root = Java("java.lang.RuntimeException", "file:/in/R/7.parquet is not a Parquet file. Expected magic number")
    java = Java("SparkException", "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/R/7.parquet.", root)
    found = explain_failure(Py4J(Java("SparkException", "Job aborted")), 12, lambda: ("R", Py4J(java)))
    assert isinstance(found, SourceError)
    assert found.what == "stream R cannot be read"
    assert found.detail.startswith("batch 12, file file:///in/R/7.parquet, java.lang.RuntimeException: ")
    assert "Expected magic number" in found.detail


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("Job aborted due to stage failure: ExecutorLostFailure (executor 1 exited unrelated to the running tasks)", True),
        ("org.apache.spark.shuffle.FetchFailedException: FetchFailed", True),
        ("java.io.IOException: Broken pipe\n\tat org.apache.spark.api.python.BasePythonRunner$ReaderInputStream.read", True),
        ("java.io.IOException: Broken pipe\n\tat org.postgresql.core.PGStream.flush", False),
        ("Python worker exited unexpectedly (crashed)", True),
        ("[CAST_INVALID_INPUT] The value 'x' of the type STRING cannot be cast to INT", False),
        (f"Python worker exited unexpectedly {to_travelling(DataError('overflow'))}", False),
    ],
)
def test_what_may_well_succeed_next_time(text: str, lost: bool) -> None:
    assert is_lost(Py4J(Java("SparkException", text))) is lost


def test_the_rest() -> None:
    assert is_lost(RetriedError("stage 4"))
    assert "again and again" in explain_failure(RetriedError("stage 4"), 1).what
    circle = Java("A", "deep")
    circle.cause = circle
    found = explain_failure(Py4J(circle), 7)
    assert (found.what, found.detail) == ("a batch failed", "batch 7: A: deep")
    python = Java("PythonException", "Traceback (most recent call last):\n  File x, line 1\nValueError: no such thing\n")
    assert explain_failure(Py4J(python)).detail == "outside a batch: ValueError: no such thing"
    silent = Java("java.io.EOFException", "between a and b", Java("java.io.EOFException", None))
    assert explain_failure(Py4J(silent)).detail == "outside a batch: java.io.EOFException: between a and b"
    known = StateError("a")
    assert explain_failure(known, 3) is known


class Plan:
    """A node of a physical plan, and its children as Scala's list."""

    def __init__(self, name: str, text: str, *inner: Plan) -> None:
        self.name, self.text, self.inner = name, text, inner

    def nodeName(self) -> str:  # noqa: N802
        return self.name

    def toString(self) -> str:  # noqa: N802
        return "\n".join([self.text, *(child.toString() for child in self.inner)])

    def children(self) -> Plan:
        return self

    def size(self) -> int:
        return len(self.inner)

    def apply(self, at: int) -> Plan:
        return self.inner[at]


def test_the_branches_that_spark_left_in_the_plan() -> None:
    theirs = Plan("Union", "Union", Plan("Scan", "a"), Plan("Scan", "b"))
    first, third = (Plan("Project", f"*(1) Project [{number} AS stream#{number}1, a#2L AS c0_0#3L]", theirs) for number in (0, 2))
    ours = Plan("Coalesce", "Coalesce 2", Plan("Union", "Union", first, third))
    assert _branches(ours) == [(0, first), (2, third)]
    assert _branches(third) == [(2, third)]
    assert _branches(theirs) == []
