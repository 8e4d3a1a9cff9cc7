"""Functions that are run elsewhere, at once or at a time: apps, tasks, and what becomes of them."""
