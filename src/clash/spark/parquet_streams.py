"""Finds out which streams are plain Parquet files, and which files Spark has assigned to a batch.

Invariant: only Spark decides about offsets. Here its decision is read: from the plan of the batch, which has one relation per stream, or
from the source that all streams share.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

from py4j.java_gateway import JavaClass
from pyspark.sql import DataFrame

from clash.model.expressions import Expr
from clash.model.relation import Relation
from clash.spark.column_packing import quoted
from clash.spark.file_streams import FileStreams
from clash.spark.parquet_reader import FileColumn, FileRead, FileReads
from clash.spark.stream_filters import to_expression, to_spark_column
from clash.workers.loaded_plan import LoadedPlan

_PACKAGE = "org.apache.spark.sql"
_STREAMING_RELATIONS = f"{_PACKAGE}.execution.streaming.runtime.StreamingRelation", f"{_PACKAGE}.execution.streaming.StreamingRelation"
_ATTRIBUTE = f"{_PACKAGE}.catalyst.expressions.AttributeReference"
_ALIAS = f"{_PACKAGE}.catalyst.expressions.Alias"
# Options that determine which files are read, and when. Any other option may change the rows that a scan gives.
_FILE_SELECTION_OPTIONS = frozenset({
    "path", "maxfilespertrigger", "maxbytespertrigger", "maxcachedfiles", "discardcachedinputratio", "latestfirst", "maxfileage",
    "filenameonly", "pathglobfilter", "recursivefilelookup", "cleansource", "sourcearchivedir", "modifiedbefore", "modifiedafter",
})  # fmt: skip
_REQUIRED_SETTINGS = {  # under which a scan gives all rows of all files, with columns matched by name
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",
}
_FILES = Relation("files")  # of which the columns in filters are
_CALENDAR_MODE = "spark.sql.parquet.datetimeRebaseModeInRead"


@dataclass(frozen=True)
class PlainStream:
    """A folder of Parquet files whose columns are selected and renamed, and whose rows are filtered, at most."""

    columns: Mapping[str, str]
    """By column of the stream, the column of its files."""
    filters: tuple[Expr, ...]
    """Conditions on columns of the files."""
    source: Any
    """Spark's description of the source."""
    relation: tuple[int, ...]
    """What identifies the source in Spark's plans: streams out of one DataFrame have the same."""
    is_named: bool
    """Whether the user has named the source; Spark then knows it by that name."""


PlainStreams = Mapping[str, PlainStream]


def plain_streams(frames: Mapping[str, Any]) -> PlainStreams | None:
    """The streams by name, if all of them are plain; otherwise None."""
    found = {}
    for stream, frame in frames.items():
        if not all(_setting(frame.sparkSession, name) == value for name, value in _REQUIRED_SETTINGS.items()):
            return None
        plain = _plain_stream(frame)
        if plain is None:
            return None
        found[stream] = plain
    return found


def can_share_source(streams: PlainStreams) -> bool:
    """Whether one source can take the place of those of all streams: Spark then knows each of these by its number."""
    return not any(stream.is_named for stream in streams.values())


def _plain_stream(frame: Any) -> PlainStream | None:
    """Follows each column through projections and filters, by Spark's expression ids, down to the relation of the files."""
    try:
        node = frame._jdf.queryExecution().analyzed()
        names = list(frame.columns)
        ids = [field.exprId().id() for field in _to_list(node.output())]
        sources: dict[int, int] = {}  # by expression id, that of the column that it renames
        conditions = []
        while node.nodeName() in ("Project", "Filter"):
            if node.nodeName() == "Filter":
                conditions.append(node.condition())
            for expression in _to_list(node.projectList()) if node.nodeName() == "Project" else ():
                child = expression.child() if _class_name(expression) == _ALIAS else expression
                if _class_name(child) != _ATTRIBUTE:
                    return None
                if expression.exprId().id() != child.exprId().id():
                    sources[expression.exprId().id()] = child.exprId().id()
            node = node.child()
        if _class_name(node) not in _STREAMING_RELATIONS:
            return None
        source = node.dataSource()
        if str(source.className()).lower() != "parquet" or not source.partitionColumns().isEmpty():
            return None
        options = {str(key).lower() for key in _to_list(source.options().keys().toSeq())}
        if not options <= _FILE_SELECTION_OPTIONS:
            return None
        relation = tuple(field.exprId().id() for field in _to_list(node.output()))
        stored_names = {field.exprId().id(): str(field.name()) for field in _to_list(node.output())}
        for identity in reversed(sources):  # the lowest projection first
            stored_names[identity] = stored_names[sources[identity]]
        columns = {name: stored_names[identity] for name, identity in zip(names, ids, strict=True)}
        filters = tuple(to_expression(condition, stored_names, _FILES) for condition in conditions)
        return PlainStream(columns, filters, source, relation, source.userSpecifiedStreamingSourceName().isDefined())
    except Exception:  # these are internals of Spark, which another version may have renamed: then Spark reads the files
        return None


_StreamFiles = tuple[Callable[[], Any], Sequence[str] | None]  # what returns Spark's relation over them, and their paths if all are local


@dataclass(frozen=True)
class BatchFiles:
    """The files that Spark has assigned to a batch, of the streams that have new ones."""

    relations: Mapping[str, Callable[[], Any]]
    """By stream, what returns Spark's relation over its files."""
    paths: Mapping[str, Sequence[str]] | None
    """By stream, the paths of its files; None unless all of them are local Parquet files outside partition folders."""

    @staticmethod
    def of(found: Mapping[str, _StreamFiles]) -> BatchFiles:
        paths = {stream: local for stream, (_, local) in found.items() if local is not None}
        return BatchFiles({stream: relation for stream, (relation, _) in found.items()}, paths if len(paths) == len(found) else None)


class ParquetStreams:
    """The streams of a Spark query that are plain Parquet files, in the order of its sources. `leaves`: by stream, the place of its leaf in
    the plan of the query; `shared`: the one source that they have, if they have not one each."""

    def __init__(self, spark: Any, streams: PlainStreams, leaves: Mapping[str, int], shared: FileStreams | None) -> None:
        self.spark, self.streams, self.leaves, self.shared = spark, streams, leaves, shared
        self.plain_calendar = _setting(spark, _CALENDAR_MODE) == "corrected"
        # cached, because looking it up takes longer than calling it
        self._wrap_array = JavaClass("scala.collection.immutable.ArraySeq", spark.sparkContext._gateway._gateway_client).unsafeWrapArray

    def files_of_batch(self, streams: Container[str]) -> BatchFiles:
        """The files of these streams in the batch that the calling thread, one of the Spark query's, works on."""
        identity = self.spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        if self.shared is not None:
            return self._shared_files(self.shared, identity, streams)
        query = self.spark._jsparkSession.streams().get(identity)
        leaves = query.streamingQuery().lastExecution().logical().collectLeaves()
        if leaves.size() != len(self.leaves):
            raise AssertionError(f"{leaves.size()} sources of {len(self.leaves)} streams")
        found: dict[str, _StreamFiles] = {}
        for stream in self.streams:
            if stream not in streams:
                continue
            leaf = leaves.apply(self.leaves[stream])
            text = leaf.toString().strip()
            if not text.startswith("Relation"):  # nothing new in this batch
                continue
            found[stream] = leaf.relation, self._input_files(leaf.relation()) if text.endswith("] parquet") else None
        return BatchFiles.of(found)

    def _shared_files(self, shared: FileStreams, query: str, streams: Container[str]) -> BatchFiles:
        names = list(self.streams)
        files = {names[number]: (number, uris) for number, uris in shared.files(query).items() if names[number] in streams}
        return BatchFiles.of(
            {stream: (partial(shared.relation, query, number), _local_paths(uris)) for stream, (number, uris) in files.items()}
        )

    def _input_files(self, relation: Any) -> list[str] | None:
        return _local_paths(self._wrap_array(relation.inputFiles()).mkString("\n").split("\n"))

    def reads(self, plan: LoadedPlan) -> FileReads:
        """What the plan reads of each stream."""
        reads = {}
        for stream, ingest in plan.ingest.items():
            if stream not in self.streams:
                continue
            plain = self.streams[stream]
            columns = tuple(FileColumn(column.name, plain.columns[column.name], column.type) for column in ingest.columns)
            reads[stream] = FileRead(columns, plain.filters)
        return reads

    def frames(self, session: Any, files: BatchFiles, reads: FileReads) -> dict[str, Any]:
        """The same files as DataFrames, which Spark reads."""
        from pyspark.sql import functions as F  # noqa: N812

        frames = {}
        for stream, relation in files.relations.items():
            frame = DataFrame(session._jsparkSession.baseRelationToDataFrame(relation()), session)
            for condition in reads[stream].filters:
                frame = frame.where(to_spark_column(condition))
            frames[stream] = frame.select(*(F.col(quoted(column.stored)).alias(column.name) for column in reads[stream].columns))
        return frames


def _local_paths(names: Sequence[str]) -> list[str] | None:
    """None unless all of them are local paths."""
    paths = [path for name in names if (path := local_path(name)) is not None]
    return paths if len(paths) == len(names) else None


def local_path(name: str) -> str | None:
    """The path of a local file; None for any other, and in a folder `k=v`, which Spark may take for a partition column.

    >>> local_path("file:///a%20b")
    '/a b'
    """
    parts = urlsplit(name)
    if parts.scheme != "file" or parts.netloc or parts.query or parts.fragment or "=" in posixpath.dirname(unquote(parts.path)):
        return None
    return unquote(parts.path)


def _setting(session: Any, name: str) -> str | None:
    """A setting of Spark's, in lower case; None if this version does not have it."""
    try:
        return str(session.conf.get(name)).lower()
    except Exception:
        return None


def _to_list(sequence: Any) -> list[Any]:
    """The elements of a Scala sequence."""
    return [sequence.apply(at) for at in range(sequence.size())]


def _class_name(java_object: Any) -> str:
    return str(java_object.getClass().getName())
