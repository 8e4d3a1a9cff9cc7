"""taskiq with taskiq-redis. Of its brokers RedisStreamBroker is the one that acknowledges (its README).

Settings: `--ack-type when_executed` ("CLI: Acknowledgements"), one worker process, `--max-prefetch`
("CLI: Other parameters"), uvloop, orjson (`ORJSONSerializer`), no result backend. It has no call for
many: its way is to await many `kiq` at once. Acknowledged entries stay in the stream, for nobody
deletes them; `maxlen` would also drop what was never read.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import tally
from taskiq.serializers import ORJSONSerializer
from taskiq_redis import RedisStreamBroker

broker = RedisStreamBroker(
    os.environ["PEERS_URL"],
    queue_name="bench",
    consumer_id="0",  # what was sent before the first worker came, too
    max_connection_pool_size=50,
    idle_timeout=5_000 if "PEERS_CRASH" in os.environ else 600_000,
    unacknowledged_lock_timeout=5,
).with_serializer(ORJSONSerializer())


@broker.task
async def noop(n: int) -> None:
    tally.done(n)


@asynccontextmanager
async def opened() -> AsyncIterator[None]:
    await broker.startup()
    yield
    await broker.shutdown()


async def send(n: int) -> None:
    await noop.kiq(n)


async def send_all(numbers: Sequence[int]) -> None:
    for start in range(0, len(numbers), 500):
        await asyncio.gather(*(noop.kiq(n) for n in numbers[start : start + 500]))
