"""The runtime on Spark: the only package that imports PySpark.

May import the coordinator, the workers and everything below, and `clash.sinks`. Start reading in `engine` (what a user declares), `run`
(what a user holds while it runs) and `batch_function` (what Spark calls for each micro-batch).

| module | does |
|---|---|
| `engine` | `clash.Engine`: streams and queries in, a run out |
| `run` | `Run`: watch, change, read and stop a run |
| `computed_columns` | what Spark computes for queries where it reads a stream |
| `declarations` | streams and queries as a user passes them, checked |
| `tables` | batch DataFrames as reference tables: declared, read, and read again |
| `configure` | `clash.configure`: Spark settings under which micro-batches are short |
| `query_launcher` | starts the Spark query over the streams and columns that are needed |
| `query_supervisor` | keeps one Spark query running, until the run ends |
| `batch_gate` | ends a Spark query between two batches |
| `callback_connection` | closes the connection over which Spark called the batch function |
| `batch_end` | the exceptions with which a batch ends its Spark query |
| `console_log` | Spark's stack traces, kept off the terminal |
| `offset_log` | adds sources to Spark's offset log |
| `source_shapes` | what the sources of streams are, from the plans of their DataFrames |
| `batch_function` | runs the batch loop over the transport that fits the sources |
| `rdd_job`, `dataframe_job` | the two transports: over files that tasks read, over rows that Spark reads |
| `payload_files` | large payloads between tasks of one machine, past the JVM |
| `job_names` | what Spark's UI calls jobs and stages |
| `tasks` | what Spark runs in Python workers |
| `parquet_streams`, `parquet_reader` | which streams are plain Parquet files; reading them in tasks |
| `column_packing` | all streams on shared typed columns |
| `result_handover` | committed results to function sinks, and back to users |
| `result_tail` | the last results of a query, without a job of Spark's |
| `progress`, `progress_text` | what a run has done, as data and as text |
| `backlog` | what sources have that is not read yet |
| `free_memory` | memory of the driver that is free goes back to the system |
| `signals` | Ctrl-C and SIGTERM while a program waits |
| `failures`, `disk_failures` | what goes wrong in Spark, as a three-part error |
| `worker_python` | which Python runs in Spark's workers, and whether it can |
| `package_shipping` | the package itself, for executors on other machines |
| `local_session` | a quiet session on this machine, for the demo and the benchmarks |
"""
