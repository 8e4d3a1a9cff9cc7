"""Our tasks and workers next to other task queues: see `python -m benchmarks.peers --help`."""
