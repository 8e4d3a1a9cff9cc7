"""Streams: how much they hand out, what makes room, and what becomes of it when they end."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import grpc
import pytest

from holdfast import AsyncClient, AsyncDelivery, AsyncTopic
from holdfast.engine.replies import SubscriptionInfo
from holdfast.errors import by_code
from holdfast.server.grpc.streams import Stream
from holdfast.server.limits import Limits
from holdfast.v1 import broker_pb2 as pb
from tests.server.grpc.conftest import Opened, opened
from tests.server.grpc.eventually import eventually


async def take(stream: Any, count: int, within: float = 5.0) -> list[pb.Delivery]:
    """The next `count` messages of a stream."""
    got: list[pb.Delivery] = []
    async with asyncio.timeout(within):
        while len(got) < count:
            answer = await stream.read()
            assert answer, "the stream ended"
            got += getattr(answer, "deliveries", None) or answer.records
    return got


async def nothing_comes(stream: Any, within: float = 0.3) -> bool:
    """True if the stream stays silent. It cannot be read from after that."""
    try:
        async with asyncio.timeout(within):
            return not await stream.read()
    except TimeoutError:
        return True


def receive(served: Opened, name: str, lease_ms: int | None = None, **flow: Any) -> Any:
    return served.queues.ReceiveStream(
        pb.ReceiveStreamRequest(queues=[name], lease_ms=lease_ms, flow=pb.Flow(**flow))
    )


async def test_a_stream_hands_out_what_comes_as_it_comes(
    served: Opened, direct: AsyncClient, name: str
) -> None:
    stream = receive(served, name)
    await direct.queue(name).send(b"first")
    assert [d.body for d in await take(stream, 1)] == [b"first"]
    await direct.queue(name).send_many([b"second", b"third"])
    got = await take(stream, 2)
    assert [(d.source, d.body) for d in got] == [(name, b"second"), (name, b"third")]


async def test_a_stream_hands_out_no_more_than_its_window_until_something_is_settled(
    served: Opened, direct: AsyncClient, name: str
) -> None:
    q = direct.queue(name)
    await q.send_many([b"%d" % i for i in range(20)])
    stream = receive(served, name, max_in_flight=5)
    held = await take(stream, 5)
    stats = await q.stats()
    assert (stats.leased, stats.ready) == (5, 15)
    bury = pb.NackRequest.ACTION_BURY
    for method, request in (
        (served.queues.Ack, pb.AckRequest(queue=name, receipts=[held[0].receipt])),
        (served.queues.Ack, pb.AckRequest(queue=name, receipts=[held[1].id])),
        (served.queues.Nack, pb.NackRequest(queue=name, receipts=[held[2].id], action=bury)),
    ):
        await method(request)
        assert len(await take(stream, 1)) == 1
    assert (await q.stats()).leased == 5
    assert await nothing_comes(stream)


async def test_a_stale_receipt_makes_no_room(
    served: Opened, direct: AsyncClient, name: str
) -> None:
    q = direct.queue(name)
    await q.send_many([b"a", b"b"])
    old = await q.receive()
    assert old is not None
    await old.release()
    stream = receive(served, name, max_in_flight=1)
    await take(stream, 1)
    done = await served.queues.Ack(pb.AckRequest(queue=name, receipts=[old.receipt]))
    assert list(done.receipts) == []
    assert await nothing_comes(stream)


async def test_a_lease_that_ended_makes_room(
    served: Opened, direct: AsyncClient, name: str
) -> None:
    await direct.queue(name).send_many([b"a", b"b"])
    stream = receive(served, name, lease_ms=300, max_in_flight=1)
    first = await take(stream, 1)
    again = await take(stream, 1)
    assert (again[0].id, again[0].receives) == (first[0].id, 2)


@pytest.mark.slow
async def test_an_extended_lease_makes_no_room(
    served: Opened, direct: AsyncClient, name: str
) -> None:
    await direct.queue(name).send_many([b"a", b"b"])
    stream = receive(served, name, lease_ms=400, max_in_flight=1)
    [first] = await take(stream, 1)
    await served.queues.Extend(
        pb.ExtendRequest(queue=name, receipts=[first.receipt], lease_ms=60_000)
    )
    assert await nothing_comes(stream, 0.8)


@pytest.mark.slow
async def test_a_heartbeat_keeps_what_the_stream_holds(
    served: Opened, direct: AsyncClient, name: str
) -> None:
    q = direct.queue(name)
    await q.send(b"x")
    stream = receive(served, name, lease_ms=400, heartbeat=True)
    [got] = await take(stream, 1)
    until = time.monotonic() + 1.2
    while time.monotonic() < until:
        assert await q.receive(wait=0.1) is None
    done = await served.queues.Ack(pb.AckRequest(queue=name, receipts=[got.receipt]))
    assert list(done.receipts) == [got.receipt]


@pytest.mark.slow
async def test_a_heartbeat_that_failed_once_goes_on(
    served: Opened,
    direct: AsyncClient,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    extend = Stream._extend
    beats: list[None] = []

    async def fail_once(self: Stream, *what: Any) -> None:
        beats.append(None)
        if len(beats) == 1:
            raise RuntimeError("a fault of ours")
        await extend(self, *what)

    monkeypatch.setattr(Stream, "_extend", fail_once)
    q = direct.queue(name)
    await q.send(b"x")
    stream = receive(served, name, lease_ms=900, heartbeat=True)
    [got] = await take(stream, 1)
    async with asyncio.timeout(10):
        while len(beats) < 5:
            await asyncio.sleep(0.01)
    assert await q.receive() is None
    done = await served.queues.Ack(pb.AckRequest(queue=name, receipts=[got.receipt]))
    assert list(done.receipts) == [got.receipt]
    assert "keeping leases of a stream" in caplog.text


async def test_a_cancelled_stream_gives_back_at_once_what_was_not_settled(
    served: Opened, direct: AsyncClient, name: str
) -> None:
    q = direct.queue(name)
    ids = await q.send_many([b"a", b"b", b"c"])
    stream = receive(served, name, lease_ms=600_000)
    got = await take(stream, 3)
    await served.queues.Ack(pb.AckRequest(queue=name, receipts=[got[0].receipt]))
    stream.cancel()
    back: list[AsyncDelivery] = []
    while len(back) < 2:
        # Long before the lease of ten minutes ends.
        delivery = await q.receive(wait=5)
        assert delivery is not None, "it was not given back"
        back.append(delivery)
    assert [(d.id, d.receives) for d in back] == [(ids[1], 1), (ids[2], 1)]


async def test_a_lost_connection_gives_back_too(
    served: Opened, direct: AsyncClient, name: str
) -> None:
    q = direct.queue(name)
    await q.send(b"a")
    async with grpc.aio.insecure_channel(served.door.address) as other:
        stream = receive(Opened(served.door, other, served.meter), name, lease_ms=600_000)
        await take(stream, 1)
    assert await q.receive(wait=5) is not None


async def test_a_stream_that_waits_holds_nothing_when_it_is_cancelled(
    served: Opened, direct: AsyncClient, name: str
) -> None:
    stream = receive(served, name)
    with pytest.raises(TimeoutError):
        await take(stream, 1, within=0.2)
    stream.cancel()
    q = direct.queue(name)
    await q.send(b"x")
    assert await q.receive(wait=2) is not None


@pytest.mark.slow
async def test_a_slow_reader_does_not_grow_the_server(direct: AsyncClient, name: str) -> None:
    """300 MB wait; the reader reads nothing. What is leased is bounded by the window, and what is
    in the server's hands by a response."""
    q = direct.queue(name)
    for _ in range(30):
        await q.send_many([bytes(100_000)] * 10)
    async with opened(direct) as served:
        stream = receive(served, name, max_in_flight=10_000, batch=20)
        await eventually(lambda: leased(direct, name), what="the stream takes")
        before = -1
        while before != (before := (await q.stats()).leased):
            await asyncio.sleep(0.3)
        assert before <= 100, "it took though nobody reads"
        assert 0 < served.meter.in_flight < 3_000_000
        got = await take(stream, 300, within=30)
        assert len(got) == 300
        stream.cancel()


async def leased(client: AsyncClient, name: str) -> int:
    return (await client.queue(name).stats()).leased


async def test_an_answer_of_a_stream_stays_below_what_clients_take(
    served: Opened, direct: AsyncClient, name: str
) -> None:
    await direct.queue(name).send_many([bytes(400_000)] * 12)
    stream = receive(served, name, batch=100)
    sizes: list[int] = []
    while sum(sizes) < 12:
        sizes.append(len((await stream.read()).deliveries))
    assert max(sizes) <= 3


async def test_a_window_past_the_limit_is_refused(direct: AsyncClient, name: str) -> None:
    async with opened(direct, limits=Limits(batch=50)) as served:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await receive(served, name, max_in_flight=51).read()
        assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_observing_as_a_stream_over_several_topics(
    served: Opened, direct: AsyncClient, name: str
) -> None:
    for topic in ("a", "b"):
        await direct.topic(name + topic).subscribe(name)
        await direct.topic(name + topic).publish(topic)
    stream = served.broker.ObserveStream(
        pb.ObserveStreamRequest(consumer=name, flow=pb.Flow(max_in_flight=2))
    )
    got = await take(stream, 2)
    assert {d.source for d in got} == {name + "a", name + "b"}
    await direct.topic(name + "a").publish("more")
    [of_a] = [d for d in got if d.source == name + "a"]
    seat = pb.Seat(topic=name + "a", consumer=name)
    await served.broker.Ack(pb.AckRequest(seat=seat, receipts=[of_a.receipt]))
    assert [d.body for d in await take(stream, 1)] == [b"more"]


async def test_a_stream_with_auto_ack_has_no_window(
    served: Opened, direct: AsyncClient, name: str
) -> None:
    subscription = await direct.topic(name).subscribe(name)
    await direct.topic(name).publish_many([b"x"] * 10)
    stream = served.broker.ObserveStream(
        pb.ObserveStreamRequest(consumer=name, auto_ack=True, flow=pb.Flow(max_in_flight=2))
    )
    got = await take(stream, 10)
    assert {d.receipt for d in got} == {""}
    assert (await subscription.stats()).acked == 10


@pytest.mark.slow
async def test_a_peer_with_its_hands_full_is_not_taken_for_gone(
    served: Opened, direct: AsyncClient, name: str
) -> None:
    """At no topic that it observes, however short the time after which a peer counts as silent."""
    topics = [direct.topic(name), direct.topic(f"{name}-quiet")]
    for topic in topics:
        await topic.configure(peer_timeout=0.4)
        await topic.subscribe(name, peer="p")
    await topics[0].publish_many([b"a", b"b"])
    stream = served.broker.ObserveStream(
        pb.ObserveStreamRequest(consumer=name, peer="p", flow=pb.Flow(max_in_flight=1))
    )
    await take(stream, 1)
    for topic in topics:
        [before] = await topic.subscriptions()

        async def seen_since(topic: AsyncTopic = topic, before: SubscriptionInfo = before) -> bool:
            [now] = await topic.subscriptions()
            return now.peers[0].last_seen > before.peers[0].last_seen

        await eventually(seen_since, 2, "the peer is seen again")


async def test_a_stream_ends_when_its_subscription_is_not_there(served: Opened, name: str) -> None:
    stream = served.broker.ObserveStream(pb.ObserveStreamRequest(consumer=name))
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await take(stream, 1)
    assert error.value.code() is grpc.StatusCode.NOT_FOUND
    assert by_code("NOSUBSCRIPTION").__name__ == "NoSuchSubscription"


async def test_when_the_server_stops_acks_are_still_welcome_and_the_stream_ends_after_them(
    direct: AsyncClient, name: str
) -> None:
    q = direct.queue(name)
    await q.send_many([b"a", b"b"])
    async with opened(direct) as served:
        stream = receive(served, name, max_in_flight=1)
        [got] = await take(stream, 1)
        await served.door.quiet()
        done = await served.queues.Ack(pb.AckRequest(queue=name, receipts=[got.receipt]))
        assert list(done.receipts) == [got.receipt]
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await take(stream, 1)
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await served.queues.Receive(pb.ReceiveRequest(queues=[name]))
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    stats = await q.stats()
    assert (stats.leased, stats.ready) == (0, 1)


async def test_when_the_door_closes_what_streams_hold_is_given_back(
    direct: AsyncClient, name: str
) -> None:
    q = direct.queue(name)
    await q.send_many([b"a", b"b"])
    async with opened(direct) as served:
        stream = receive(served, name, lease_ms=600_000)
        await take(stream, 2)
        started = time.monotonic()
        await served.door.quiet()
        await served.door.close(0.3)
        assert time.monotonic() - started < 3
        stats = await q.stats()
        assert (stats.leased, stats.ready) == (0, 2)
