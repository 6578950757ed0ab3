"""What the values of a stream's records look like, and what decoding gives: plain data without Kafka and without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class RecordFormat:
    """How the value of a record is read. It is the same for all records of a stream."""

    kind: Literal["json", "avro", "csv", "raw"]
    columns: tuple[tuple[str, str], ...]  # name and Spark type (simpleString) of the value's fields, in order; raw: (("value", "binary"),)
    schema: str | None = None  # Avro only: the schema that the columns derive from, as JSON text
    registry: tuple[
        tuple[int, str], ...
    ] = ()  # Avro in Confluent's wire format: the writers' schemas by id; empty for Avro without a prefix
    separator: str = ","  # CSV only: one character


@dataclass(frozen=True)
class Decoded:
    """The columns of the accepted records, and why the others were rejected. Every record is one or the other."""

    columns: dict[str, pa.Array]  # every declared column, of `arrow_type` of its type; one value per accepted record, in order
    accepted: Numbers | None  # numbers of the accepted records, ascending; None if all were accepted
    rejected: dict[int, str]  # by number of the record, the reason: one line that names the field and what it has
