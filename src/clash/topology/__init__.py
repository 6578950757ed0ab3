"""From a logical plan to a topology, and from a topology to a physical plan.

May import `plan` and `model` only; `planner`, `sql`, `coordinator` and `workers` are unknown here. Start reading at `build.py`, which
shows the passes that make a topology as one list, then at `complete.py`, which adds what tasks need in order to run it.

| module | what it holds |
|---|---|
| `build` | `build_topology`: the passes from a logical plan to a topology, in their order |
| `branches` | probe orders, split where stores lack rows of the past |
| `trees` | probe orders, merged by common prefix into probe trees |
| `entry_placement` | on which workers tuples enter a tree |
| `placement` | where each step sends its tuples, and where its results are |
| `positions` | in which round and phase each step runs and each store is filled |
| `stores` | what each store retains, for how long, and how its rows are looked up |
| `columns` | which columns are stored and which travel |
| `rules` | the labelled edges, and the rule of each edge at its store |
| `equality`, `partitioning` | attributes of equal value; the attribute that a layout hashes |
| `pass_log` | what is logged after each pass, for debugging |
| `complete` | `complete`: the physical plan of a topology |
| `key_types`, `channels` | the types in which lookups compare; which edges share one block |
"""
