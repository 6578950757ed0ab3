"""What operators do with a checkpoint from outside of a run: remove results that it does not know.

May import the coordinator and everything below, and never Spark: the commands work where Spark is not installed. Start reading in
`opened_checkpoint`.

| module | holds |
|---|---|
| `opened_checkpoint` | a checkpoint as it is on disk: its identity, its last manifest, its generations |
| `result_folders` | the folders that have results and late rows of a checkpoint |
| `rollback` | removes the results of batches that a checkpoint does not know |
"""
