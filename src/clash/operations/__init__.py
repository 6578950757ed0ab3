"""What operators do with a checkpoint from outside of a run: back it up, verify and restore it, remove results that it does not know.

May import the coordinator and everything below, and never Spark: the commands work where Spark is not installed. Start reading in
`opened_checkpoint`, then `pinned_checkpoint`.

| module | holds |
|---|---|
| `opened_checkpoint` | a checkpoint as it is on disk: its identity, its last manifest, its generations |
| `result_folders`, `held_folders` | the folders that have results and late rows of a checkpoint; their files up to one batch |
| `pinned_checkpoint`, `pinned_storage` | the state after one batch of a job that may be running, held while it is read |
| `backup`, `backup_record` | takes a snapshot; what a snapshot says of itself |
| `verify` | checks a checkpoint or a snapshot without changing it |
| `restore`, `restored_folder` | puts a snapshot back: the checkpoint, and each result folder |
| `rollback` | removes the results of batches that a checkpoint does not know |
| `durable_files` | files that survive a power failure, with their checksums |
"""
