"""The best that any client could do: a raw write every 50 ms, at whoever serves the place just now.

What it cannot do, no client can: the time for which it goes unserved is the servers' own failover.
"""

from __future__ import annotations

import threading

from redis.exceptions import RedisError

from holdfast.engine.keys import QueueRef
from tools.torture.history import History
from tools.torture.servers import Servers


class Probe:
    def __init__(self, servers: Servers, history: History, replicas: int) -> None:
        self._servers = servers
        self._history = history
        self._replicas = replicas
        self._ended = threading.Event()
        # In the slot of the place that is tortured, and no key of ours.
        self._key = QueueRef("plain").key.replace("hf1:", "probe:")
        self._thread = threading.Thread(target=self._run, name="probe", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        client = None
        while not self._ended.wait(0.05):
            try:
                if client is None:
                    node = self._servers.primary()
                    if node is None:
                        continue
                    client = node.connect(0.3)
                with client.pipeline(transaction=False) as both:
                    both.set(self._key, b"1", px=60_000)
                    both.execute_command("WAIT", self._replicas, 200)
                    if both.execute()[1] < self._replicas:
                        client = None
                        continue
                self._history.note("served")
            except (RedisError, OSError):
                client = None

    def end(self) -> None:
        self._ended.set()
        self._thread.join(10)
