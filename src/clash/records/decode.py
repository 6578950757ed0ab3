"""`decode`: values of records to columns, by the format of the stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from clash.expressions.arrow_types import arrow_type
from clash.records.avro_decoder import decode_avro
from clash.records.csv_decoder import decode_csv
from clash.records.json_decoder import decode_json
from clash.records.record_format import Decoded, RecordFormat

# columns of all values, and by position the reasons of the rejected ones, whose values in the columns do not matter
Decoder = Callable[[RecordFormat, Sequence[bytes], str], tuple[dict[str, pa.Array], dict[int, str]]]


def decode(format: RecordFormat, values: Sequence[bytes | None], timezone: str) -> Decoded:
    """The columns of all records that fit the format, and the reason for each other record.

    All declared columns are read, so that whether a record is rejected does not depend on queries. Timestamps without a zone are in
    `timezone`. The format has passed `check_format`. Raises UnknownSchema for Avro of a schema that is not in `format.registry`.
    """
    if format.kind == "raw":
        return Decoded({name: pa.array(values, pa.binary()) for name, _ in format.columns}, None, {})
    rejected = {number: "tombstone (no value)" for number, value in enumerate(values) if value is None} if None in values else {}
    present = [value for value in values if value is not None] if rejected else values
    if not present:
        nothing = {name: pa.array([], arrow_type(kind)) for name, kind in format.columns}
        return Decoded(nothing, np.empty(0, np.int64) if rejected else None, rejected)
    columns, misfits = _DECODERS[format.kind](format, present, timezone)  # type: ignore[arg-type]
    if not rejected and not misfits:
        return Decoded(columns, None, {})
    numbers = np.array([number for number, value in enumerate(values) if value is not None], np.int64)
    accepted = np.ones(len(numbers), bool)
    accepted[list(misfits)] = False
    rejected |= {int(numbers[position]): reason for position, reason in misfits.items()}
    return Decoded(
        {name: array.filter(pa.array(accepted)) for name, array in columns.items()}, numbers[accepted], dict(sorted(rejected.items()))
    )


def _decode_json(format: RecordFormat, values: Sequence[bytes], timezone: str) -> tuple[dict[str, pa.Array], dict[int, str]]:
    return decode_json(format.columns, values, timezone)


def _decode_csv(format: RecordFormat, values: Sequence[bytes], timezone: str) -> tuple[dict[str, pa.Array], dict[int, str]]:
    return decode_csv(format.columns, format.separator, values, timezone)


def _decode_avro(format: RecordFormat, values: Sequence[bytes], timezone: str) -> tuple[dict[str, pa.Array], dict[int, str]]:
    return decode_avro(format, values)


_DECODERS: dict[str, Decoder] = {"json": _decode_json, "csv": _decode_csv, "avro": _decode_avro}
