"""What the coordinator and the tasks of a batch exchange: frozen, typed messages, and nothing else.

May import `columnar`, `statistics`, `model` and `codec`. Start reading in `batch`: a `BatchSpec` is everything that the tasks of a
batch need to know, and the reports of `reports` are everything that the coordinator learns of it.

| module | holds |
|---|---|
| `batch` | `BatchSpec`, the descriptor of a batch, and `Tuning` |
| `containers` | `ContainerRecord`, `LayoutVersion`, `RelayoutRange`, `BackfillRange`: what is known of stored rows without reading them |
| `tables` | `TableVersion`, `TableFile`: what is known of a reference table without reading it |
| `plan_files` | how files of physical plans are named |
| `messages` | `Message`: a block on a channel, a report, or what a worker wrote, on its way to a worker |
| `reports` | `IngestReport`, `RoundReport`, `StoreChanges`, `ResultFile` |
| `result_files` | how result files and late rows are named, staged and published |
"""
