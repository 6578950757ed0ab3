"""Durable state: storages of immutable files, containers of rows with their indexes, small JSON records, and fail points for tests.

It may import `columnar`, `codec` and `errors` only. Start reading at `storage`, whose protocol `Storage` is what other packages use.

| module | contents |
|---|---|
| `storage` | `Storage`: the protocol of all storages; `open_storage`: the storage at a URI |
| `local_storage` | files on a disk that this machine mounts |
| `memory_storage` | files in the memory of this process |
| `arrow_storage` | files on any file system of `pyarrow.fs`, read through a local cache |
| `s3_storage` | files in an object store, with conditional writes |
| `s3_requests` | signed requests to an object store, for what Arrow cannot do |
| `hdfs_storage` | files on HDFS |
| `hdfs_client` | the connection of a process to HDFS |
| `new_files` | files that one writer writes once |
| `cache` | the local cache of remote files |
| `paths` | file names, temporary names and error messages that all storages share |
| `container` | a record batch and its indexes in one file that is read by mapping it |
| `json_records` | small records in JSON |
| `checkpoint_lock` | the lock that gives a checkpoint to one run |
| `file_lock` | the lock on a mounted disk |
| `lease_lock` | the lock elsewhere: a lease that its holder renews |
| `s3_lease` | a lease in an object store |
| `hdfs_lease` | a lease on HDFS |
| `private_folders` | folders that only their owner may enter |
| `lock_owner` | who holds a lock |
| `failpoints` | points at which tests kill the process |
"""
