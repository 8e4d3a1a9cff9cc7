"""The server: one process whose doors (RESP, gRPC) translate to and from one Broker."""
