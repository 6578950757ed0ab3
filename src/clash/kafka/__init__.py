"""Kafka, read by tasks: Spark decides which offsets a batch has, and tasks read them with librdkafka.

| module | what it does |
|---|---|
| `client_options` | one set of options for both clients: librdkafka's and Spark's, which is Java's |
| `offset_ranges` | the records of a batch, as ranges of offsets, divided among tasks |
| `consumer` | reads ranges of offsets, with one client per process |
| `stream_records` | records as rows of streams: decoded, or rejected with a reason |
| `client_problems` | why a client has no connection |
| `topics` | which topics a cluster has |
"""
