"""What goes over all queues and topics, where the keys of one are not a queue's."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import AsyncIterator

import pytest

from holdfast import AsyncClient, WrongType
from holdfast.client.io_async import sleep
from holdfast.engine.keys import REGISTRY, TOPICS, QueueRef, TopicRef

pytestmark = pytest.mark.direct("it is the server behind a door that tends")


@pytest.fixture
async def spoilt(hf: AsyncClient) -> AsyncIterator[str]:
    """A name that comes before all others, of a queue and a topic that are none; and one that is no text."""
    name = f"!-{secrets.token_hex(4)}"
    keys = [QueueRef(name).key, TopicRef(name).key]
    for key, names in zip(keys, (REGISTRY, TOPICS), strict=True):
        await hf.transport.command("SET", key, "not ours", key=key)
        await hf.transport.command("SADD", names, name, b"\xff", key=names)
    yield name
    for key, names in zip(keys, (REGISTRY, TOPICS), strict=True):
        await hf.transport.command("DEL", key, key=key)
        await hf.transport.command("SREM", names, name, b"\xff", key=names)


async def test_the_reaper_goes_on_and_says_once_what_it_cannot_tend(
    hf: AsyncClient, spoilt: str, caplog: pytest.LogCaptureFixture
) -> None:
    q, topic = hf.queue(f"z-{spoilt}"), hf.topic(f"z-{spoilt}")
    await q.send(b"a")
    await q.receive(lease=0.05)
    await topic.configure(retention=0.05)
    await topic.publish(b"a")
    give_up = time.monotonic() + 10
    with caplog.at_level(logging.WARNING, "holdfast"):
        await hf.start_reaper(0.02)
        while (await q.stats()).ready == 0 or (await topic.stats()).ready == 1:
            assert time.monotonic() < give_up
            await sleep(0.01)
        await sleep(0.2)  # several rounds
    said = [r.getMessage() for r in caplog.records if spoilt in r.getMessage()]
    assert sorted(text.partition(":")[2][:7].strip() for text in said) == ["queue", "topic"]
    await q.delete()
    await topic.delete()


async def test_stats_of_all_are_of_all_that_can_be_read(hf: AsyncClient, spoilt: str) -> None:
    q = hf.queue(f"z-{spoilt}")
    await q.send(b"a")
    found, unreadable = await hf.all_stats()
    assert found[q.name].ready == 1
    assert isinstance(unreadable[spoilt], WrongType)
    await q.delete()
