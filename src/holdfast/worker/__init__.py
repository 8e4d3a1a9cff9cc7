"""Workers: processes that take tasks from queues, run them, and see each one to its end."""
