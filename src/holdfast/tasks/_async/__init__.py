"""The desk, written by hand; `_sync` is generated from it."""
