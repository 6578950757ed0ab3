"""The command `clash`: one module per command. May import every other package; start reading in `main`.

Modules that `main` imports must not import PySpark, the solver, sqlglot or Arrow at their top, so that `clash --help` stays fast: a command
imports what it needs when it runs.

| module | what it holds |
|---|---|
| `main` | the application, its options and its commands |
| `report` | how a user's mistake is reported: what, detail, hint |
| `init`, `check` | `clash init`; `clash check`, `diff`, `schema` and `script`: a job file before it runs |
| `run_job`, `live_view`, `logs`, `submit` | `clash run`, what it shows and logs, and the program for spark-submit |
| `remote`, `target`, `client` | commands against a run, how they find it, and their requests |
| `explain`, `jobfile`, `paint` | `clash explain`, the files of SQL it reads, and the colours of its output |
| `demo`, `demo_data`, `demo_run` | `clash demo`: the story, the generated data, the run on Spark and its check |
| `checkpoint` | `clash checkpoint`: work on a checkpoint from outside of a run |
| `row_content` | fingerprints of results, to compare them with DuckDB's |
| `bench` | `clash bench`: finds the benchmarks in the repository and hands over to them |
"""
