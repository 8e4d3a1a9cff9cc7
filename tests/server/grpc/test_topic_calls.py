"""Every method of service Broker, through a real door."""

from __future__ import annotations

from holdfast.v1 import broker_pb2 as pb
from tests.server.grpc.conftest import Opened

SHARED = pb.SubscribeRequest.MODE_SHARED


async def subscribe(served: Opened, topic: str, consumer: str = "c", **more: object) -> None:
    await served.broker.Subscribe(
        pb.SubscribeRequest(topic=topic, consumer=consumer, **more)  # type: ignore[arg-type]
    )


async def publish(served: Opened, topic: str, *texts: bytes) -> list[str]:
    messages = [pb.OutgoingMessage(body=text) for text in texts]
    answer = await served.broker.Publish(pb.PublishRequest(topic=topic, messages=messages))
    return [each.id for each in answer.sent]


async def observe(served: Opened, consumer: str = "c", **more: object) -> list[pb.Delivery]:
    request = pb.ObserveRequest(consumer=consumer, **more)  # type: ignore[arg-type]
    return list((await served.broker.Observe(request)).records)


async def test_each_peer_of_a_broadcast_consumer_gets_every_message(
    served: Opened, name: str
) -> None:
    for peer in ("p1", "p2"):
        await subscribe(served, name, name, peer=peer)
    ids = await publish(served, name, b"x", b"y")
    for peer in ("p1", "p2"):
        got = await observe(served, name, peer=peer, count=5)
        assert [(d.source, d.id, d.body) for d in got] == [
            (name, ids[0], b"x"),
            (name, ids[1], b"y"),
        ]
        seat = pb.Seat(topic=name, consumer=name, peer=peer)
        receipts = [d.receipt for d in got]
        done = await served.broker.Ack(pb.AckRequest(seat=seat, receipts=receipts))
        assert list(done.receipts) == receipts


async def test_peers_of_a_shared_consumer_share_the_messages(served: Opened, name: str) -> None:
    for peer in ("p1", "p2"):
        await subscribe(served, name, name, peer=peer, mode=SHARED)
    await publish(served, name, b"x", b"y")
    first = await observe(served, name, peer="p1")
    second = await observe(served, name, peer="p2", count=5)
    assert [d.body for d in first + second] == [b"x", b"y"]


async def test_a_plain_publish_is_a_topic_and_a_payload(served: Opened, name: str) -> None:
    await subscribe(served, name, name)
    answer = await served.broker.Publish(pb.PublishRequest(topic=name, payload=b"plain"))
    [got] = await observe(served, name)
    assert (got.id, got.body) == (answer.sent[0].id, b"plain")


async def test_what_was_published_before_waits_for_the_first_subscriber(
    served: Opened, name: str
) -> None:
    await publish(served, name, b"early")
    waiting = await served.broker.TopicStats(pb.TopicRequest(topic=name))
    assert waiting.ready == 1
    await subscribe(served, name, name)
    assert [d.body for d in await observe(served, name)] == [b"early"]


async def test_auto_ack_settles_on_the_way_out(served: Opened, name: str) -> None:
    await subscribe(served, name, name)
    await publish(served, name, b"x")
    [got] = await observe(served, name, auto_ack=True)
    assert got.receipt == ""
    seat = pb.Seat(topic=name, consumer=name)
    stats = await served.broker.Stats(pb.StatsRequest(seat=seat))
    assert (stats.leased, stats.ready, stats.acked) == (0, 0, 1)


async def test_a_consumer_observes_all_its_topics_or_those_it_names(
    served: Opened, name: str
) -> None:
    a, b = name + ".a", name + ".b"
    for topic in (a, b):
        await subscribe(served, topic, name)
        await publish(served, topic, topic.encode())
    listed = await served.broker.ConsumerTopics(pb.ConsumerTopicsRequest(consumer=name))
    assert list(listed.topics) == [a, b]
    [only] = await observe(served, name, count=5, topics=[b])
    assert only.source == b
    [rest] = await observe(served, name, count=5)
    assert rest.source == a


async def test_a_filter_lets_through_what_it_says(served: Opened, name: str) -> None:
    await subscribe(
        served, name, name, filter_json='{"all": [{"attribute": "kind", "equals": "a"}]}'
    )
    for kind in ("a", "b"):
        message = pb.OutgoingMessage(body=kind.encode(), attributes={"kind": kind})
        await served.broker.Publish(pb.PublishRequest(topic=name, messages=[message]))
    assert [d.body for d in await observe(served, name, count=5)] == [b"a"]


async def test_a_nacked_record_comes_back_and_an_extended_one_does_not(
    served: Opened, name: str
) -> None:
    await subscribe(served, name, name)
    await publish(served, name, b"x")
    seat = pb.Seat(topic=name, consumer=name)
    [got] = await observe(served, name)
    await served.broker.Nack(pb.NackRequest(seat=seat, receipts=[got.receipt]))
    [again] = await observe(served, name)
    assert (again.id, again.receives) == (got.id, 2)
    request = pb.ExtendRequest(seat=seat, receipts=[again.receipt], lease_ms=600_000)
    assert list((await served.broker.Extend(request)).receipts) == [again.receipt]
    seen = await served.broker.Inspect(pb.InspectRequest(seat=seat, state=pb.STATE_LEASED))
    assert seen.messages[0].lease_until_ms > again.lease_until_ms + 500_000
    found = await served.broker.Get(pb.GetRequest(seat=seat, id=got.id))
    assert found.message.state == pb.STATE_LEASED


async def test_dead_letters_of_a_subscription_are_redriven(served: Opened, name: str) -> None:
    await subscribe(served, name, name)
    await publish(served, name, b"x")
    seat = pb.Seat(topic=name, consumer=name)
    [got] = await observe(served, name)
    await served.broker.Nack(
        pb.NackRequest(seat=seat, receipts=[got.receipt], action=pb.NackRequest.ACTION_BURY)
    )
    moved = await served.broker.Redrive(pb.RedriveRequest(seat=seat))
    assert list(moved.ids) == [got.id]
    assert len(await observe(served, name)) == 1


async def test_subscriptions_tell_who_is_there_and_end_when_given_up(
    served: Opened, name: str
) -> None:
    await subscribe(
        served, name, name, peer="p", filter_json='{"any": [{"attribute": "k", "exists": true}]}'
    )
    await observe(served, name, peer="p")
    told = await served.broker.Subscriptions(pb.SubscriptionsRequest(topic=name))
    [one] = told.subscriptions
    assert (one.consumer, one.peer, one.mode) == (name, "p", pb.SubscribeRequest.MODE_BROADCAST)
    assert "exists" in one.filter_json
    [peer] = one.peers
    assert (peer.name, peer.live) == ("p", True)
    assert peer.last_seen_at_ms >= one.since_ms
    request = pb.UnsubscribeRequest(topic=name, consumer=name, peer="p")
    assert (await served.broker.Unsubscribe(request)).removed
    assert not (await served.broker.Unsubscribe(request)).removed
    after = await served.broker.Subscriptions(pb.SubscriptionsRequest(topic=name))
    assert list(after.subscriptions) == []


async def test_settings_of_a_topic_and_of_one_subscription(served: Opened, name: str) -> None:
    await subscribe(served, name, name)
    changes = pb.QueueSettings(lease_ms=9_000, peer_timeout_ms=5_000)
    await served.broker.ConfigureTopic(pb.ConfigureTopicRequest(topic=name, changes=changes))
    told = (await served.broker.TopicSettings(pb.TopicRequest(topic=name))).settings
    assert (told.lease_ms, told.peer_timeout_ms) == (9_000, 5_000)
    seat = pb.Seat(topic=name, consumer=name)
    assert (await served.broker.Settings(pb.SettingsRequest(seat=seat))).settings.lease_ms == 9_000
    own = pb.ConfigureRequest(seat=seat, changes=pb.QueueSettings(lease_ms=4_000))
    assert (await served.broker.Configure(own)).settings.lease_ms == 4_000
    told = (await served.broker.TopicSettings(pb.TopicRequest(topic=name))).settings
    assert told.lease_ms == 9_000


async def test_topics_are_listed_and_deleted(served: Opened, name: str) -> None:
    await publish(served, name, b"x")
    assert name in (await served.broker.ListTopics(pb.ListTopicsRequest())).topics
    await served.broker.DeleteTopic(pb.TopicRequest(topic=name))
    assert name not in (await served.broker.ListTopics(pb.ListTopicsRequest())).topics
