"""What users request: jobs, set-ups, changes at run time, and programs that start again.

May import `planner` and `sql` (a set-up parses and plans), `protocol`, `state` and below; knows neither the checkpoint's records nor Spark.
Start reading in `setup`: every request becomes a function from one set-up to the next.

| module | holds |
|---|---|
| `job` | `QueryRequest`, `SinkSpec`, `JobSpec`: what a program declares; `ProgramRecord`: what the checkpoint remembers of it |
| `setup` | `Setup`: streams, live queries, workers and options at one time |
| `changes` | `Changes`: requests at run time, in effect at the next epoch boundary; `Change`: the handle that a caller gets |
| `restart` | what a program that starts again changes |
| `folder_owner` | whom a folder of results belongs to, and which batches its files may be of |
| `result_folders` | folders of results, each with one set of columns |
"""
