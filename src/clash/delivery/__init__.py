"""Results that go to other systems exactly once: the number of a batch is in the same transaction as its results.

May import `sinks`, `expressions`, `state` and below; knows neither the coordinator nor Spark. Start reading in `deliveries`.

| module | holds |
|---|---|
| `target` | `Target`: what a system has to be able to do; `Output`: the results of a query in one batch |
| `deliveries` | `Deliveries`: all systems of a run; which batches they have, and what to do when they do not answer |
| `kafka_target`, `kafka_errors` | `KafkaTarget`: a Kafka cluster |
| `postgres_target` | `PostgresTarget`: a database of PostgreSQL |
| `json_rows`, `avro_rows`, `postgres_rows` | the rows of a record batch as messages, or for COPY |
"""
