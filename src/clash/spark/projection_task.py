"""The task that stages results which Spark has computed of joined rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark import TaskContext

from clash.errors import ClashError
from clash.protocol.batch import BATCH_SPEC
from clash.spark.failures import to_travelling
from clash.state.failpoints import reach
from clash.workers.result_writer import ResultWriter

REPORT = "destination string, name string, rows bigint"
_SCHEMA = pa.schema([("destination", pa.string()), ("name", pa.string()), ("rows", pa.int64())])


def project_task(spec: str, query: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Writes the results that Spark has computed."""
    context = TaskContext.get()
    writer = ResultWriter(BATCH_SPEC.loads(spec), f"projected-{0 if context is None else context.partitionId()}")
    try:
        for batch in batches:
            if batch.num_rows:
                columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
                writer.add(query, pa.RecordBatch.from_arrays(columns, schema=schema))
        files = writer.close()
    except ClashError as error:
        raise to_travelling(error) from error
    reach("projection-results")
    yield pa.RecordBatch.from_pylist([file._asdict() for file in files], schema=_SCHEMA)
