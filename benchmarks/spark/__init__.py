"""Queues through Spark, next to what one would do without: see `python -m benchmarks.spark --help`."""
