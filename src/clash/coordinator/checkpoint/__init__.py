"""What is on disk: the records of a checkpoint, each written as a whole, each readable alone.

May import `control`, `lifecycle` and `adaptive` for the types that are recorded, and `state` for the storage. Start reading in `manifest`:
a batch is committed exactly when its manifest is there.

| module | records |
|---|---|
| `manifest` | the state after a batch, and the result files that the batch added: the one commit point |
| `batch_decision` | what a batch runs under, written before its job starts |
| `spark_seal` | checksums of what Spark continues from, part of manifest and decision |
| `spark_half` | makes the seal, and verifies Spark's half of the checkpoint at a start |
| `generation` | a generation: a set-up and a plan from a batch on, and the history of its stores |
| `generation_log` | all generations so far, and what they cost |
| `generation_outline`, `generation_history`, `history_block` | what is shown of a generation; those that have ended, in few small files |
| `source_registry` | the checkpoint's format, its identity, its time zone, the order in which Spark reads the streams, and their sources |
| `source_shape` | what the sources of a stream are, and what of them may differ at a start |
| `format_6` | reading and upgrading checkpoints of the format before, whose records have no checksums |
| `plan_files` | physical plans, each under the name of its content |
"""
