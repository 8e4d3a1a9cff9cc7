"""Topics through the client: publishing, observing one topic or many, and waiting."""

from __future__ import annotations

import secrets
import time

import pytest

from holdfast import AsyncClient, AsyncTopic, NoSuchSubscription, codecs
from tests.client.together import after


@pytest.fixture
def topic(hf: AsyncClient) -> AsyncTopic:
    return hf.topic(f"t-{secrets.token_hex(4)}")


@pytest.fixture
def who() -> str:
    """A consumer nobody else has."""
    return f"c-{secrets.token_hex(4)}"


async def test_what_is_published_is_observed_and_acked(topic: AsyncTopic) -> None:
    seat = await topic.subscribe("a")
    mid = await topic.publish(b"x")
    [d] = await seat.observe()
    assert (d.id, d.body, d.source) == (mid, b"x", topic.name)
    await d.ack()
    assert (await seat.stats()).total == 0


async def test_a_topic_can_be_observed_by_the_names_alone(topic: AsyncTopic) -> None:
    await topic.subscribe("a", peer="p")
    await topic.publish_many([b"x", b"y"])
    got = await topic.observe("a", 10, 5, peer="p")
    assert [d.body for d in got] == [b"x", b"y"]
    for d in got:
        await d.ack()
    with pytest.raises(NoSuchSubscription, match="a/other"):
        await topic.observe("a", peer="other")


async def test_a_publish_wakes_who_waits(hf: AsyncClient, topic: AsyncTopic) -> None:
    seat = await topic.subscribe("a")
    start = time.monotonic()
    async with after(0.1, hf, lambda client: client.topic(topic.name).publish(b"x")):
        got = await seat.observe(wait=20)
    assert [d.body for d in got] == [b"x"]
    assert time.monotonic() - start < 5


async def test_waiting_for_nothing_ends_when_the_time_is_over(topic: AsyncTopic) -> None:
    seat = await topic.subscribe("a")
    start = time.monotonic()
    assert await seat.observe(wait=0.3) == []
    assert 0.3 <= time.monotonic() - start < 2


async def test_a_delayed_message_is_waited_for(topic: AsyncTopic) -> None:
    seat = await topic.subscribe("a")
    await topic.publish(b"x", delay=0.3)
    start = time.monotonic()
    assert len(await seat.observe(wait=20)) == 1
    assert 0.25 <= time.monotonic() - start < 5


async def test_a_subscription_is_consumed_like_a_queue(topic: AsyncTopic) -> None:
    seat = await topic.subscribe("a", mode="shared")
    await topic.publish_many([b"1", b"2", b"3"])
    got = []
    async for delivery in seat.consume(idle=0.2):
        async with delivery:
            got.append(delivery.body)
    assert got == [b"1", b"2", b"3"]
    assert (await seat.stats()).total == 0


async def test_values_pass_through_the_topics_codec(hf: AsyncClient, topic: AsyncTopic) -> None:
    coded = hf.topic(topic.name, codec=codecs.json(dict))
    seat = await coded.subscribe("a")
    await coded.publish({"n": 1})
    await coded.publish_many([{"n": 2}])
    assert [d.value for d in await seat.observe(2)] == [{"n": 1}, {"n": 2}]


async def test_a_consumer_observes_all_its_topics(
    hf: AsyncClient, topic: AsyncTopic, who: str
) -> None:
    other = hf.topic(f"{topic.name}-other")
    for each in (topic, other):
        await each.subscribe(who)
        await each.publish(each.name.encode())
    got = await hf.consumer(who).observe(10)
    assert sorted((d.source, d.body.decode()) for d in got) == [
        (topic.name, topic.name),
        (other.name, other.name),
    ]
    for d in got:
        await d.ack()
    assert await hf.consumer(who).observe(10) == []


async def test_a_busy_topic_does_not_keep_the_others_from_being_observed(
    hf: AsyncClient, topic: AsyncTopic, who: str
) -> None:
    other = hf.topic(f"{topic.name}-other")
    for each in (topic, other):
        await each.subscribe(who)
        await each.publish_many([b"x"] * 40)
    # Which is first is left to chance: that it is the same 40 times happens once in 10¹².
    sources = {(await hf.consumer(who).observe())[0].source for _ in range(40)}
    assert sources == {topic.name, other.name}


@pytest.mark.parametrize("late", [False, True])
async def test_a_consumer_of_many_topics_is_woken_by_any(
    hf: AsyncClient, topic: AsyncTopic, who: str, late: bool
) -> None:
    other = hf.topic(f"{topic.name}-other")
    await topic.subscribe(who)
    await other.subscribe(who)
    woken_by = other.name if late else topic.name
    start = time.monotonic()
    async with after(0.1, hf, lambda client: client.topic(woken_by).publish(b"x")):
        got = await hf.consumer(who).observe(wait=20)
    assert [d.source for d in got] == [woken_by]
    assert time.monotonic() - start < 5


async def test_a_consumer_of_nothing_is_told_so(hf: AsyncClient, who: str) -> None:
    with pytest.raises(NoSuchSubscription, match="is subscribed to nothing"):
        await hf.consumer(who).observe()


async def test_a_topic_that_was_left_meanwhile_is_passed_over(
    hf: AsyncClient, topic: AsyncTopic, who: str
) -> None:
    other = hf.topic(f"{topic.name}-other")
    await topic.subscribe(who)
    await other.subscribe(who, peer="another")
    await topic.publish(b"x")
    await other.publish(b"not for this peer")
    assert [d.body for d in await hf.consumer(who).observe(10)] == [b"x"]


async def test_peers_of_a_consumer_observe_for_themselves(
    hf: AsyncClient, topic: AsyncTopic, who: str
) -> None:
    for peer in ("p", "q"):
        await topic.subscribe(who, peer=peer)
    await topic.publish(b"x")
    for peer in ("p", "q"):
        assert [d.body for d in await hf.consumer(who, peer=peer).observe(10)] == [b"x"]


@pytest.mark.direct("the server has its own")
async def test_the_reaper_gives_up_what_nobody_observes(hf: AsyncClient, topic: AsyncTopic) -> None:
    await topic.configure(retention=0.05)
    await topic.subscribe("a")
    await hf.start_reaper(every=0.02)
    give_up = time.monotonic() + 20
    while await topic.subscriptions():
        assert time.monotonic() < give_up, "nobody gave it up"


@pytest.mark.slow
async def test_unsubscribing_ends_a_wait_with_an_error(hf: AsyncClient, topic: AsyncTopic) -> None:
    seat = await topic.subscribe("a")
    async with after(0.1, hf, lambda client: client.topic(topic.name).unsubscribe("a")):
        with pytest.raises(NoSuchSubscription):
            await seat.observe(wait=3)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["subscription", "consumer"])
async def test_a_peer_that_waits_is_there_however_long_it_waits(
    hf: AsyncClient, topic: AsyncTopic, who: str, how: str
) -> None:
    await topic.configure(peer_timeout=1)
    seat, other = [await topic.subscribe(who, peer=peer) for peer in ("waits", "works")]

    async def publish_late(client: AsyncClient) -> None:
        """When the other peer has been seen for longer than the time-out."""
        began = time.monotonic()
        while time.monotonic() - began < 2.2:
            await client.topic(topic.name).observe(who, peer="works", wait=0.05)
        await client.topic(topic.name).publish(b"news")

    async with after(0, hf, publish_late):
        if how == "subscription":
            got = await seat.observe(wait=20)
        else:
            got = await hf.consumer(who, peer="waits").observe(wait=20)
    assert [d.body for d in got] == [b"news"]
    assert [d.body for d in await other.observe()] == [b"news"]


@pytest.mark.slow
async def test_a_subscription_is_not_given_up_while_somebody_waits_there(
    hf: AsyncClient, topic: AsyncTopic
) -> None:
    await topic.configure(retention=1)
    seat = await topic.subscribe("a")

    async def publish_late(client: AsyncClient) -> None:
        began = time.monotonic()
        while time.monotonic() - began < 2.2:
            await client.topic(topic.name).observe("b", wait=0.05)
            # Both doors' servers tend topics by themselves.
            if not client.url.startswith("grpc"):
                await client.topic(topic.name).tend()
        await client.topic(topic.name).publish(b"news")

    await topic.subscribe("b")
    async with after(0, hf, publish_late):
        assert [d.body for d in await seat.observe(wait=20)] == [b"news"]
