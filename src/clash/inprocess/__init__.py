"""The engine without Spark: the same coordinator and the same tasks, one after the other in this process, with a seed.

It is for tests and experiments, and not a public engine: it has no sources, no sinks and no background work. May import the coordinator,
the workers and everything below. Start reading in `transport`.

| module | holds |
|---|---|
| `transport` | the `Transport` that runs tasks one after the other |
| `engine` | streams, queries, changes and batches over it |
"""
