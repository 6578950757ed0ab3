"""The streams that these tests query."""

from clash.model.stream import Stream

STREAMS = {
    s.name: s
    for s in (
        Stream.of("R", {"a": "bigint", "b": "int", "name": "string", "x": "double", "ts": "timestamp"}, time="ts", window="5 seconds"),
        Stream.of(
            "S", {"a": "bigint", "b": "int", "name": "string", "ts": "timestamp", "items": "array<int>"}, time="ts", window="10 seconds"
        ),
        Stream.of("T", {"b": "int", "c": "string", "d": "date", "ok": "boolean", "m": "decimal(10,2)"}),
        Stream.of("U", {"key": "bigint", "k c": "int", "n": "timestamp_ntz"}, time="n"),
    )
}
