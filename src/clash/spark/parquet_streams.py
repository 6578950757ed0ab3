"""Which streams are plain Parquet files, and which files belong to a batch. Spark decides; its plan is asked.

Invariant: offsets are Spark's alone. Here only its answer is read: the relations in the plan of the batch, one per stream.
"""

from __future__ import annotations

import posixpath
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from py4j.java_gateway import JavaClass
from pyspark.sql import DataFrame

from clash.spark.column_packing import quoted
from clash.spark.parquet_reader import Columns, FileColumn
from clash.workers.loaded_plan import LoadedPlan

_PACKAGE = "org.apache.spark.sql"
_STREAMING = f"{_PACKAGE}.execution.streaming.runtime.StreamingRelation", f"{_PACKAGE}.execution.streaming.StreamingRelation"
_ATTRIBUTE = f"{_PACKAGE}.catalyst.expressions.AttributeReference"
_ALIAS = f"{_PACKAGE}.catalyst.expressions.Alias"
# options that say which files, and when; any other may say what is in them
_OPTIONS = frozenset({
    "path", "maxfilespertrigger", "maxbytespertrigger", "maxcachedfiles", "discardcachedinputratio", "latestfirst", "maxfileage",
    "filenameonly", "pathglobfilter", "recursivefilelookup", "cleansource", "sourcearchivedir", "modifiedbefore", "modifiedafter",
})  # fmt: skip
_NEEDED = {  # settings under which a scan is what it seems
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",
}
_CALENDAR = "spark.sql.parquet.datetimeRebaseModeInRead"

StoredColumns = dict[str, str]  # column of a stream → column of its files


def plain_parquet_columns(frames: Mapping[str, Any]) -> dict[str, StoredColumns] | None:
    """Of every stream the columns' names in its files; None unless all streams are Parquet files, columns at most chosen and renamed."""
    found = {}
    for stream, frame in frames.items():
        if not all(_setting(frame.sparkSession, name) == value for name, value in _NEEDED.items()):
            return None
        stored = _stored(frame)
        if stored is None:
            return None
        found[stream] = stored
    return found


def _stored(frame: Any) -> StoredColumns | None:
    try:
        node = frame._jdf.queryExecution().analyzed()
        names = list(frame.columns)
        chosen = [field.exprId().id() for field in _each(node.output())]
        while node.nodeName() == "Project":
            inner = {}
            for expression in _each(node.projectList()):
                child = expression.child() if _name(expression) == _ALIAS else expression
                if _name(child) != _ATTRIBUTE:
                    return None
                inner[expression.exprId().id()] = child.exprId().id()
            chosen = [inner[expression] for expression in chosen]
            node = node.child()
        if _name(node) not in _STREAMING:
            return None
        source = node.dataSource()
        options = {str(key).lower() for key in _each(source.options().keys().toSeq())}
        if str(source.className()).lower() != "parquet" or not options <= _OPTIONS or not source.partitionColumns().isEmpty():
            return None
        own = {field.exprId().id(): field.name() for field in _each(node.output())}
        return {name: own[expression] for name, expression in zip(names, chosen, strict=True)}
    except Exception:  # Spark's own objects: another version may call them otherwise, and then Spark reads
        return None


@dataclass(frozen=True)
class BatchFiles:
    """What Spark reads in a batch."""

    relations: Mapping[str, Any]
    """By stream, Spark's relation."""
    paths: Mapping[str, Sequence[str]] | None
    """By stream, the paths of its files; None unless all of them are on local disks."""


class ParquetStreams:
    """The plain streams of a Spark query, in the order of the union's branches."""

    def __init__(self, spark: Any, stored: Mapping[str, StoredColumns]) -> None:
        self.spark, self.stored = spark, stored
        self.plain_calendar = _setting(spark, _CALENDAR) == "corrected"
        # held, as looking it up takes longer than calling it
        self._wrapped = JavaClass("scala.collection.immutable.ArraySeq", spark.sparkContext._gateway._gateway_client).unsafeWrapArray

    def files_of_batch(self, streams: Container[str]) -> BatchFiles:
        """Of the batch that the thread works on, and of these streams."""
        identity = self.spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        query = self.spark._jsparkSession.streams().get(identity)
        leaves = query.streamingQuery().lastExecution().logical().collectLeaves()
        if leaves.size() != len(self.stored):
            raise AssertionError(f"{leaves.size()} sources of {len(self.stored)} streams")
        relations: dict[str, Any] = {}
        paths: dict[str, list[str]] | None = {}
        for at, stream in enumerate(self.stored):
            if stream not in streams:
                continue
            leaf = leaves.apply(at)
            shown = leaf.toString().strip()
            if not shown.startswith("Relation"):  # nothing new in this batch
                continue
            relation = relations[stream] = leaf.relation()
            local = self._local_paths(relation) if shown.endswith("] parquet") else None
            if local is None:
                paths = None
            elif paths is not None:
                paths[stream] = local
        return BatchFiles(relations, paths)

    def _local_paths(self, relation: Any) -> list[str] | None:
        names = self._wrapped(relation.inputFiles()).mkString("\n").split("\n")
        paths = [path for name in names if (path := local_path(name)) is not None]
        return paths if len(paths) == len(names) else None

    def columns(self, plan: LoadedPlan) -> Columns:
        """The columns that the plan reads of each stream."""
        return {
            stream: tuple(FileColumn(column.name, self.stored[stream][column.name], column.type) for column in ingest.columns)
            for stream, ingest in plan.ingest.items()
        }

    def frames(self, session: Any, files: BatchFiles, columns: Columns) -> dict[str, Any]:
        """The same batch as DataFrames, for Spark to read."""
        from pyspark.sql import functions as F  # noqa: N812

        frames = {}
        for stream, relation in files.relations.items():
            frame = DataFrame(session._jsparkSession.baseRelationToDataFrame(relation), session)
            frames[stream] = frame.select(*(F.col(quoted(column.stored)).alias(column.name) for column in columns[stream]))
        return frames


def local_path(name: str) -> str | None:
    """`file:///a%20b` is `/a b`. A folder of the form `k=v` may be a column."""
    parts = urlsplit(name)
    if parts.scheme != "file" or parts.netloc or parts.query or parts.fragment or "=" in posixpath.dirname(unquote(parts.path)):
        return None
    return unquote(parts.path)


def _setting(session: Any, name: str) -> str | None:
    """In small letters; None if this Spark does not know it."""
    try:
        return str(session.conf.get(name)).lower()
    except Exception:
        return None


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]


def _name(thing: Any) -> str:
    return str(thing.getClass().getName())
