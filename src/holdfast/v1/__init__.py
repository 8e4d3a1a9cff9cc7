"""The gRPC contract in Python. All modules here are generated from `proto/`: `make generate`."""
