"""The benchmarks of CLASH on Spark, outside the installed package.

They import `clash`, and nothing in `clash` imports them, except that `clash bench` hands over to `cli`. Start reading in `cli`: each of its
commands calls the function `run` of the module of the same name, which writes CSV files and plots. What each measures: `bench/README.md`.

| module | what it holds |
|---|---|
| `cli` | the command line of all benchmarks |
| `ilp`, `ilp_plot` | planning time |
| `gaps`, `gaps_plot` | proven gaps under time limits |
| `job_like` | a query set like the Join Order Benchmark |
| `paper_ilp`, `paper_model`, `paper_values`, `paper_plot` | the paper's figures on its integer program |
| `our_planner`, `candidates` | timed calls of our planner; the number of probe orders |
| `workloads`, `schemas.json` | random query sets; the paper's schemas |
| `tpch`, `tpch_run`, `tpch_duckdb`, `tpch_show` | throughput, latency, growth and state over TPC-H |
| `tpch_latency`, `tpch_sources` | latency of small batches, from several sources and from one, relative to Spark's floor |
| `waterfall`, `waterfall_plot`, `spark_jobs` | where the time of a micro-batch goes |
| `compare`, `compare_runs`, `compare_verdict` | two commits measured in alternation |
| `tpch_data`, `tpch_queries` | TPC-H as streams, and the queries over it |
| `adaptive`, `adaptive_data`, `adaptive_run`, `adaptive_plot`, `adaptive_paper` | the paper's adaptive experiments |
| `adaptive_feed`, `adaptive_latency` | streams that are fed in real time, and the latency of their tuples |
| `changes`, `changes_data`, `changes_plot` | queries that are added and removed while a job runs |
| `expressions` | one expression, evaluated in three places |
| `generations` | the generations of a long life: size, and time to start |
| `soak`, `soak_data`, `soak_check`, `soak_sample`, `soak_plot` | a long run with a change every few seconds |
| `statistics` | the cost and the accuracy of collected statistics |
| `monitor`, `tables`, `plots` | CPU and memory of all processes, CSV files, common style of the plots |
"""
