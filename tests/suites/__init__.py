"""TPC-H, TPC-DS and Spark's own SQL tests as queries over streams. `python -m tests.suites` counts what is accepted, with the reasons."""
