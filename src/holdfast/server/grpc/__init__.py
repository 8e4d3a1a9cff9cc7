"""The gRPC door: `door.py` opens and closes it, `call.py` is what every call goes through."""
