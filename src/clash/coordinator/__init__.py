"""The coordinator: one micro-batch after the other is decided, recorded, run, committed and published.

May import its own packages, `topology`, `explain`, `workers` (to load plans), `protocol`, `state` and below, and never Spark. Start reading
in `batch_loop` (the one loop over batches) and `coordinator` (its steps).

| module or package | holds |
|---|---|
| `batch_loop` | `run_batch`: begin, run on a transport, commit, publish; the `Transport` protocol |
| `batch_state` | the states of a batch and the transitions between them |
| `coordinator` | `Coordinator`: the steps of a batch, and what users may ask of a run |
| `recovery` | what a coordinator begins with: a new checkpoint, or what it finds in one |
| `boundary` | what takes effect where an epoch begins |
| `active_generation` | the generation in force, with its physical plan |
| `batch_reports` | the reports of a batch's tasks, summed up |
| `next_decision`, `next_manifest` | what a batch runs under; the manifest after it |
| `committed_batch` | what a committed batch did |
| `tables`, `table_files` | reference tables: their newest versions, and the files of a version |
| `verification` | what a start verifies before it changes anything: all files of the state, and that they are of one time |
| `publication` | moving result files to their place after the commit |
| `cleanup` | which files are obsolete |
| `inspection` | what users may ask of a running coordinator |
| `what_if` | what one more query would mean |
| `checkpoint/` | the records on disk |
| `control/` | what users request |
| `lifecycle/` | the life of stored rows |
| `adaptive/` | statistics, replanning |
"""
