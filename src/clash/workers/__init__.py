"""What runs in the tasks of a batch: plain functions over Arrow blocks, whatever moves the messages between them.

May import `protocol`, `plan`, `columnar`, `expressions`, `statistics`, `state` and `model`; never `coordinator`, `planner`, `topology` or
`sql`: a process that runs tasks loads neither the SQL parser nor the solver. Start reading in `ingest` (raw tuples in, messages out) and
`round` (one worker, one round: store, then probe).

| module | does |
|---|---|
| `loaded_plan` | loads the physical plan of a batch, once per process |
| `ingest` | numbers, admits, filters, projects and routes raw tuples |
| `routing` | splits a block by target worker |
| `round` | stores and probes what a worker receives in a round |
| `whole_batch` | runs all tasks of a batch in one process |
| `probe` | one step of a probe order: a block meets a store |
| `stores` | the stores of a worker during one round: open, fill, merge |
| `stored_container` | an open container, read in the terms of a physical plan |
| `table_rows` | the rows of a reference table that a worker probes |
| `older_layouts` | which containers of an older layout hold rows of a worker |
| `backfill_scan` | reads stored tuples once more, to fill an intermediate store |
| `block_queue` | blocks that wait for a later phase, in memory or on disk |
| `result_writer` | writes and stages result files |
"""
