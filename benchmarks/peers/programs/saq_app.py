"""SAQ. A job leaves the active list when it has run; what a dead worker held is swept (`sweep` of Worker).

Settings, after its README and the parameters of Worker and Queue: concurrency as measured best here,
orjson for dump and load, hiredis, `ttl=-1` so that no result is kept. It has no call for many: its
way is to await many `enqueue` at once.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
import tally
from redis.asyncio import Redis
from saq.queue.redis import RedisQueue

_crash = "PEERS_CRASH" in os.environ
queue = RedisQueue(
    Redis.from_url(os.environ["PEERS_URL"]),
    name="bench",
    dump=orjson.dumps,
    load=orjson.loads,
    max_concurrent_ops=20,
)
_options = {"ttl": -1, "timeout": 5 if _crash else 60, "retries": 3}


async def noop(ctx: Any, *, n: int) -> None:
    tally.done(n)


settings = {
    "queue": queue,
    "functions": [noop],
    "concurrency": 50,
    "timers": {"sweep": 5} if _crash else {},
}


@asynccontextmanager
async def opened() -> AsyncIterator[None]:
    await queue.connect()
    yield
    await queue.disconnect()


async def send(n: int) -> None:
    await queue.enqueue("noop", n=n, **_options)


async def send_all(numbers: Sequence[int]) -> None:
    for start in range(0, len(numbers), 500):
        await asyncio.gather(*(send(n) for n in numbers[start : start + 500]))
