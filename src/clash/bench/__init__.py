"""Measurements. Each module with a function `run` is a subcommand of `clash bench`; results are CSV files and plots."""
