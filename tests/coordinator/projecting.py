"""An engine in this process, with DuckDB in the place of Spark for what is computed of joined rows.

Queries may use functions that both have under one name: the results are then those of DuckDB's batch join.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot

from clash.expressions import arrow_type
from clash.inprocess.engine import InProcessEngine, NoSpark
from clash.model.query import Query, query_of
from clash.protocol.batch import BatchSpec
from clash.protocol.reports import ResultFile
from clash.protocol.result_files import JOINED_ROWS, file_location, staged_path
from clash.sql import UncomputableError
from clash.state.storage import open_storage
from clash.workers.result_writer import ResultWriter

_TYPES = {"INTEGER": "int", "BIGINT": "bigint", "VARCHAR": "string", "DOUBLE": "double", "BOOLEAN": "boolean"}


class DuckTypes(NoSpark):
    def of_joined(self, fields: Sequence[tuple[str, str]], expression: str) -> str:
        empty = pa.schema([(name, arrow_type(kind)) for name, kind in fields]).empty_table()
        try:
            with duckdb.connect() as connection:
                connection.register("joined", empty)
                return _TYPES[str(connection.sql(f"SELECT {in_duckdb(expression)} FROM joined").types[0])]
        except duckdb.Error as error:
            raise UncomputableError(str(error).splitlines()[0]) from None


class ProjectingEngine(InProcessEngine):
    types = DuckTypes()

    def project(self, spec: BatchSpec, queries: Sequence[Query], files: Sequence[ResultFile]) -> list[ResultFile]:
        writer = ResultWriter(spec, "projected")
        for query in queries:
            uri, folder = file_location(spec.uri, spec.sinks, query_of(query.name))
            storage = open_storage(uri)
            staged = [staged_path(folder, file.name) for file in files if file.destination == f"{JOINED_ROWS}{query.name}"]
            rows = pa.concat_tables([pq.read_table(pa.BufferReader(storage.read(path))) for path in staged])
            assert query.projection is not None
            columns = ", ".join(f"{in_duckdb(column.expression)} AS c{at}" for at, column in enumerate(query.projection.columns))
            conditions = " AND ".join(f"({in_duckdb(condition)})" for condition in query.projection.conditions) or "true"
            with duckdb.connect() as connection:
                connection.register("joined", rows)
                found = connection.sql(f"SELECT {columns} FROM joined WHERE {conditions}").to_arrow_table()
            schema = pa.schema([(name, arrow_type(kind)) for name, kind in query.result_columns])
            for batch in found.rename_columns(schema.names).cast(schema).to_batches():
                writer.add(query_of(query.name), batch)
        return list(writer.close())


def in_duckdb(expression: str) -> str:
    return sqlglot.transpile(expression, read="spark", write="duckdb")[0]
