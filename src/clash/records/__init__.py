"""Values of records (Kafka's messages) to Arrow columns: pure functions, without Kafka and without Spark.

A value means what Spark's own readers make of it, in their default settings. What Spark would turn into NULL because it does not fit its
type, and what is not in the format, is rejected with a reason; nothing becomes NULL silently. Start reading at `decode`.

| module | contents |
|---|---|
| `record_format` | `RecordFormat` and `Decoded`, as data |
| `check_format` | whether a format can be decoded, checked when a stream is declared |
| `decode` | `decode`: tombstones, and the decoder of the format |
| `json_decoder` | JSON: the quick decoder for nearly all records, and the complete one for the rest |
| `json_columns` | JSON tokens as columns by type |
| `json_numbers`, `json_text`, `json_tokens` | what JSON's numbers, texts and tokens mean to Spark |
| `csv_decoder`, `csv_columns` | CSV: fields of a line, and fields as columns |
| `avro_decoder`, `avro_columns`, `avro_schema` | Avro: values with fastavro, columns, and the types of a schema |
| `schema_registry` | schemas from a registry, over HTTP |
| `text_columns` | columns of texts as times and decimals |
| `wording` | reasons |
"""

from clash.records.avro_decoder import UnknownSchema
from clash.records.avro_schema import columns_of_avro
from clash.records.check_format import check_format
from clash.records.decode import decode
from clash.records.record_format import Decoded, RecordFormat

__all__ = ["Decoded", "RecordFormat", "UnknownSchema", "check_format", "columns_of_avro", "decode"]
