"""arq. A job leaves its sorted set when it has run: what its documentation calls pessimistic execution.

Settings: `max_jobs`, a short `poll_delay` (it polls; half a second is the default), `keep_result=0`,
MessagePack in place of pickle ("Custom job serializers"), hiredis as it comes. It has no call for
many: its way is to await many `enqueue_job` at once.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgpack
import tally
from arq import ArqRedis, create_pool
from arq.connections import RedisSettings

_settings = RedisSettings.from_dsn(os.environ["PEERS_URL"])
_settings.max_connections = None
_pool: ArqRedis


async def noop(ctx: Any, n: int) -> None:
    tally.done(n)


class WorkerSettings:
    functions = (noop,)
    redis_settings = _settings
    max_jobs = 50
    poll_delay = 0.01
    keep_result = 0
    job_timeout = 5 if "PEERS_CRASH" in os.environ else 300
    job_serializer = msgpack.packb
    job_deserializer = partial(msgpack.unpackb, raw=False)
    log_results = False


@asynccontextmanager
async def opened() -> AsyncIterator[None]:
    global _pool
    _pool = await create_pool(_settings, job_serializer=msgpack.packb)
    yield
    await _pool.aclose()


async def send(n: int) -> None:
    await _pool.enqueue_job("noop", n)


async def send_all(numbers: Sequence[int]) -> None:
    for start in range(0, len(numbers), 50):
        await asyncio.gather(*(send(n) for n in numbers[start : start + 50]))
