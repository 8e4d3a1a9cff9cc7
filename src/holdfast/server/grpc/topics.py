"""Service Broker of the contract: topics, subscriptions, and what consumers observe there."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.client._async.delivery import AsyncDelivery
from holdfast.engine.replies import Mode, SubscriptionInfo
from holdfast.errors import InvalidArgument
from holdfast.filters import Filter
from holdfast.message import Outgoing
from holdfast.server.entrance import Seat
from holdfast.server.grpc import values
from holdfast.server.grpc.call import Call, stream, unary
from holdfast.server.grpc.places import Places
from holdfast.server.grpc.streams import Stream
from holdfast.v1 import broker_pb2 as pb
from holdfast.v1.broker_pb2_grpc import BrokerServicer

_MODES: dict[int, Mode] = {
    pb.SubscribeRequest.MODE_UNSPECIFIED: "broadcast",
    pb.SubscribeRequest.MODE_BROADCAST: "broadcast",
    pb.SubscribeRequest.MODE_SHARED: "shared",
}
_MODE_NUMBERS: dict[Mode, pb.SubscribeRequest.Mode.ValueType] = {
    "broadcast": pb.SubscribeRequest.MODE_BROADCAST,
    "shared": pb.SubscribeRequest.MODE_SHARED,
}


class Topics(Places, BrokerServicer):
    @unary
    async def Publish(self, request: pb.PublishRequest, call: Call) -> pb.PublishResponse:
        messages = [values.outgoing(m) for m in request.messages]
        if request.HasField("payload"):
            if messages:
                raise InvalidArgument("give either payload or messages, not both")
            messages = [Outgoing(request.payload)]
        ids = await call.session.publish(request.topic, messages, name=values.name(request))
        return pb.PublishResponse(sent=values.sent(ids))

    @unary
    async def ReceiveDead(self, request: pb.ReceiveDeadRequest, call: Call) -> pb.ReceiveResponse:
        seat = values.seat(request.seat)
        count = request.count if request.HasField("count") else 1
        got = await call.take(
            lambda wait: call.session.receive_dead(
                seat, count, wait=wait, lease=values.ending_lease(request)
            ),
            request.wait_ms,
        )
        return pb.ReceiveResponse(deliveries=map(values.delivery, got))

    @unary
    async def Subscribe(self, request: pb.SubscribeRequest, call: Call) -> pb.SubscribeResponse:
        if request.mode not in _MODES:
            raise InvalidArgument(f"mode {request.mode} is none that this server knows")
        await call.session.subscribe(
            request.topic,
            request.consumer,
            peer=request.peer,
            mode=_MODES[request.mode],
            filter=Filter.from_json(request.filter_json) if request.filter_json else None,
        )
        return pb.SubscribeResponse()

    @unary
    async def Unsubscribe(
        self, request: pb.UnsubscribeRequest, call: Call
    ) -> pb.UnsubscribeResponse:
        peer = request.peer if request.HasField("peer") else None
        removed = await call.session.unsubscribe(request.topic, request.consumer, peer=peer)
        return pb.UnsubscribeResponse(removed=removed)

    @unary
    async def Observe(self, request: pb.ObserveRequest, call: Call) -> pb.ObserveResponse:
        got = await call.take(
            lambda wait: call.session.observe(
                request.consumer,
                request.count if request.HasField("count") else 1,
                peer=request.peer,
                topics=list(request.topics) or None,
                wait=wait,
                lease=values.ending_lease(request),
                auto_ack=request.auto_ack,
            ),
            request.wait_ms,
            settled=request.auto_ack,
        )
        return _answer(got, settled=request.auto_ack)

    @stream
    async def ObserveStream(  # type: ignore[override] # it writes through the context
        self, request: pb.ObserveStreamRequest, call: Call
    ) -> None:
        consumer, peer, topics = request.consumer, request.peer, list(request.topics) or None
        lease, auto_ack = values.ending_lease(request), request.auto_ack
        flow = Stream(
            call,
            request.flow,
            place_of=lambda got: Seat(got.source, consumer, peer),
            lease=lease,
            auto_ack=auto_ack,
        )
        await flow.run(
            lambda count, wait: call.session.observe(
                consumer, count, peer=peer, topics=topics, wait=wait, lease=lease, auto_ack=auto_ack
            ),
            lambda got: _answer(got, settled=auto_ack),
            lambda: call.session.attend(consumer, peer=peer, topics=topics),
        )

    @unary
    async def Touch(self, request: pb.TouchRequest, call: Call) -> pb.TouchResponse:
        await call.session.touch(values.seat(request.seat))
        return pb.TouchResponse()

    @unary
    async def Subscriptions(
        self, request: pb.SubscriptionsRequest, call: Call
    ) -> pb.SubscriptionsResponse:
        found = await call.session.subscriptions(request.topic)
        return pb.SubscriptionsResponse(subscriptions=map(_subscription, found))

    @unary
    async def ConsumerTopics(
        self, request: pb.ConsumerTopicsRequest, call: Call
    ) -> pb.ListTopicsResponse:
        return pb.ListTopicsResponse(topics=await call.session.consumer_topics(request.consumer))

    @unary
    async def ListTopics(self, request: pb.ListTopicsRequest, call: Call) -> pb.ListTopicsResponse:
        return pb.ListTopicsResponse(topics=await call.session.topics())

    @unary
    async def TopicStats(self, request: pb.TopicRequest, call: Call) -> pb.StatsResponse:
        return values.stats(await call.session.topic_stats(request.topic))

    @unary
    async def TopicSettings(self, request: pb.TopicRequest, call: Call) -> pb.SettingsResponse:
        return values.settings(await call.session.topic_settings(request.topic))

    @unary
    async def ConfigureTopic(
        self, request: pb.ConfigureTopicRequest, call: Call
    ) -> pb.SettingsResponse:
        changes = values.changes(request.changes)
        return values.settings(await call.session.configure_topic(request.topic, **changes))

    @unary
    async def DeleteTopic(self, request: pb.TopicRequest, call: Call) -> pb.DeleteResponse:
        await call.session.delete_topic(request.topic)
        return pb.DeleteResponse()


def _answer(got: Sequence[AsyncDelivery], *, settled: bool) -> pb.ObserveResponse:
    return pb.ObserveResponse(records=[values.delivery(d, settled=settled) for d in got])


def _subscription(found: SubscriptionInfo) -> pb.Subscription:
    return pb.Subscription(
        consumer=found.consumer,
        peer=found.peer,
        mode=_MODE_NUMBERS[found.mode],
        filter_json=found.filter.to_json().decode() if found.filter else "",
        since_ms=values.ms(found.since),
        peers=[
            pb.Subscription.Peer(name=p.name, last_seen_at_ms=values.ms(p.last_seen), live=p.live)
            for p in found.peers
        ],
    )
