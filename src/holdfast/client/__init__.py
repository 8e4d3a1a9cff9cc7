"""The clients: `_async` is written by hand, `_sync` is generated from it. `holdfast` has their names."""
