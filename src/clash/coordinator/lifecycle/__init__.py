"""The life of stored rows: when an epoch begins, what is late, how long rows are retained, and how they move and are filled in.

Functions and frozen classes over `plan`, `topology`, `protocol` and `model`; knows neither the checkpoint's records nor Spark. Start
reading in `watermarks` and `expiry`.

| module | decides |
|---|---|
| `epochs` | with which batch an epoch begins |
| `watermarks` | below which event time a stream's tuples are late |
| `expiry` | when a container has expired: no query can match any of its rows |
| `retention` | what was retained of every tuple, and from which batch on a new query's results are complete |
| `store_history` | since when a store, a column and a layout have been what they are; which stored rows a step may see |
| `store_bootstrap` | with which containers of another store a new base store begins |
| `split_points` | how many rows containers have up to an arrival, and where to split them |
| `relayout` | which rows of older layouts a batch moves into today's |
| `table_diff` | what differs between two reads of a reference table |
| `backfill` | which arrivals an intermediate store is filled with next |
"""
