"""Side by side with raw commands, on the same server, in the same run: `python -m benchmarks`."""
