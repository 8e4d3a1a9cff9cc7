"""Bytes of server memory per queued task: as many of them on every side, sent in bulk, nobody working."""

from __future__ import annotations

import time

import redis

from benchmarks.peers.sides import Side
from benchmarks.peers.stage import stage
from benchmarks.servers import Server

_SETTLED = 0.2


def bytes_per_task(side: Side, server: Server, tasks: int) -> float:
    with stage(side, server) as on, server.connect() as client:
        # Once before: what comes with the first task (scripts, names) is not of each task.
        on.send("feed", 1)
        before = _used(client)
        on.send("feed", tasks)
        return (_used(client) - before) / tasks


def _used(client: redis.Redis) -> int:
    """Without the buffers of connections and of the append-only file, once the senders are gone."""
    give_up = time.monotonic() + 5
    while len(client.client_list()) > 1 and time.monotonic() < give_up:
        time.sleep(0.01)
    time.sleep(_SETTLED)
    info = client.info("memory")
    buffers = ("mem_clients_normal", "mem_aof_buffer", "mem_clients_slaves")
    return int(info["used_memory"]) - sum(int(info.get(name, 0)) for name in buffers)
