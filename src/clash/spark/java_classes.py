"""Java classes of ours, in a jar of the package (sources: `java`, built by `scripts/build_jar.py`).

Invariant: everything works without them, slower. They are there where `clash.configure` has put the jar on the class path of a driver on
this machine, and used where this version of Spark has what they need.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError

JAR = Path(__file__).with_name("clash-spark.jar")
LOCAL_FILES = "clash.spark.LocalFiles"
FILE_STREAMS = "clash.spark.FileStreams"
_JOBS = "clash.spark.Jobs"
_present: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()  # by client of a JVM


def file_streams(context: Any) -> Any | None:
    """The class `FileStreams`; None where it cannot be used."""
    return _class(context, FILE_STREAMS)


def jobs(context: Any) -> Any | None:
    """The class `Jobs`; None where it cannot be used."""
    return _class(context, _JOBS)


def _class(context: Any, name: str) -> Any | None:
    client = context._gateway._gateway_client
    if client not in _present:
        try:
            JavaClass("java.lang.Class", client).forName(FILE_STREAMS)
            _present[client] = bool(JavaClass(FILE_STREAMS, client).isSupported())
        except Py4JError:
            _present[client] = False
    return JavaClass(name, client) if _present[client] else None
