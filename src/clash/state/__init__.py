"""What outlives a process: storages of immutable files, containers of rows with their indexes, small JSON records, fail points.

A storage is a flat name space below a root, on local disk, in memory or on any file system of `pyarrow.fs`. A file appears whole
or not at all. Containers are read by mapping them, so that the processes of a machine share one copy.
"""
