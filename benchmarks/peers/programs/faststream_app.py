"""FastStream with Redis Streams, which acknowledge after the handler (redis/streams/ack of its docs).

Settings: a consumer group (redis/streams/groups), `max_workers`, reads by the hundred, uvloop as its
CLI does by itself, `apply_types=False`, for an int needs no validation. Many are sent through a Redis
pipeline (redis/pipeline). A second subscriber claims what a dead consumer held
(redis/streams/claiming), in the crash check only, as it would cost the others a connection. Its batch
subscribers hand a hundred messages to one call, about twenty times as fast here, and one failure
fails them all: that is not a task each, so it is not what is measured. Acknowledged entries stay in
the stream.
"""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import tally
from faststream import AckPolicy, FastStream
from faststream.redis import RedisBroker, StreamSub
from redis.exceptions import ResponseError

broker = RedisBroker(os.environ["PEERS_URL"], apply_types=False, logger=None)
app = FastStream(broker, logger=None)


async def handle(n: int) -> None:
    tally.done(n)


def subscribe(consumer: str, **options: int) -> None:
    stream = StreamSub("bench", group="bench", consumer=consumer, max_records=100, **options)
    workers = {"max_workers": 50} if not options else {}
    broker.subscriber(stream=stream, ack_policy=AckPolicy.ACK, **workers)(handle)


subscribe(f"worker-{os.getpid()}")
if "PEERS_CRASH" in os.environ:
    subscribe(f"claimer-{os.getpid()}", min_idle_time=5_000)


@asynccontextmanager
async def opened() -> AsyncIterator[None]:
    client = await broker.connect()
    with suppress(ResponseError):  # a worker's own begins with what comes after it
        await client.xgroup_create("bench", "bench", id="0", mkstream=True)
    yield
    await broker.stop()


async def send(n: int) -> None:
    await broker.publish(n, stream="bench")


async def send_all(numbers: Sequence[int]) -> None:
    client = await broker.connect()
    for start in range(0, len(numbers), 500):
        async with client.pipeline(transaction=False) as pipe:
            for n in numbers[start : start + 500]:
                await broker.publish(n, stream="bench", pipeline=pipe)
            await pipe.execute()
