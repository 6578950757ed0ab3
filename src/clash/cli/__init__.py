"""The command `clash`: one module per command. May import every other package; start reading in `main`.

Modules that `main` imports must not import PySpark, the solver, sqlglot or Arrow at their top, so that `clash --help` stays fast: a command
imports what it needs when it runs.

| module | what it holds |
|---|---|
| `main` | the application, its options and its commands |
| `report` | how a user's mistake is reported: what, detail, hint |
| `explain`, `jobfile`, `paint` | `clash explain`, the job files it reads, and the colours of its output |
| `demo`, `demo_data`, `demo_run` | `clash demo`: the story, the generated data, the run on Spark and its check |
| `checkpoint` | `clash checkpoint`: work on a checkpoint from outside of a run |
| `row_content` | fingerprints of results, to compare them with DuckDB's |
| `bench` | `clash bench`: finds the benchmarks in the repository and hands over to them |
"""
