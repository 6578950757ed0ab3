"""The runtime: the only package that touches Spark."""
