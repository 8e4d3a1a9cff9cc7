"""dramatiq. A message is acknowledged after its actor has run, by the worker's thread.

Settings: one process, sixteen threads and two hundred messages fetched ahead ("API Reference:
Environment Variables"), which measured best here. The broker's middleware is the default one
("Default Middleware"), whose Retries are part of what it promises; no Results. Messages are JSON. It
has no call for many: `group(…).run()` enqueues one by one, as does `broker.enqueue`, which is what is
measured. It polls: no blocking pop.
"""

import os
from collections.abc import Iterable

import dramatiq
import tally
from dramatiq.brokers.redis import RedisBroker

_crash = "PEERS_CRASH" in os.environ
broker = RedisBroker(
    url=os.environ["PEERS_URL"],
    # What a dead worker held goes back in maintenance, which one command in a thousand does.
    heartbeat_timeout=5_000 if _crash else 60_000,
    maintenance_chance=1_000_000 if _crash else 1_000,
)
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name="bench")
def noop(n: int) -> None:
    tally.done(n)


def send(n: int) -> None:
    noop.send(n)


def send_all(numbers: Iterable[int]) -> None:
    dramatiq.group(noop.message(n) for n in numbers).run()
