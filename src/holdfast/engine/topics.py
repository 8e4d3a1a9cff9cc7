"""Topics: the calls that publish to them, and that make, use and end subscriptions. The mirror of
`lua/shared/topic.lua` and of its transitions.

Apart from `calls` because a queue is whole without them; a subscription, once it is there, is a queue
and takes the calls of one.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.engine import calls, replies
from holdfast.engine.calls import ONCE_NAMED, Argument, Call, Packed
from holdfast.engine.keys import QueueRef, TopicRef, consumer_seat, peer_seat
from holdfast.errors import InvalidArgument
from holdfast.filters import Filter
from holdfast.settings import Lease, whole


def publish(
    topic: TopicRef, messages: Sequence[Packed], sender: str, number: int
) -> Call[replies.Sent]:
    """As send, to all subscriptions of a topic or none."""
    like = calls.send(topic, messages, sender, number)
    return Call("publish", topic, like.args, like.parse, like.repeat)


def subscribe(
    topic: TopicRef, consumer: str, peer: str, mode: str, filter: Filter | None
) -> Call[bool]:
    """Answers whether it is done; else it must be called again."""
    if mode not in ("broadcast", "shared"):
        raise InvalidArgument(f"mode must be 'broadcast' or 'shared', not {mode!r}")
    wanted = filter.to_json() if filter is not None else b""
    args: list[Argument] = [consumer_seat(consumer), peer_seat(consumer, peer), mode, wanted]
    return Call("subscribe", topic, args, bool)


def unsubscribe(topic: TopicRef, consumer: str, peer: str | None) -> Call[int]:
    """1: done. 0: call again. -1: it was not subscribed. `peer` None: all of them."""
    seat = "" if peer is None else peer_seat(consumer, peer)
    args = [consumer_seat(consumer), seat]
    return Call("unsubscribe", topic, args, int, ONCE_NAMED)


def seat(topic: TopicRef, consumer: str, peer: str) -> Call[str]:
    args = [consumer_seat(consumer), peer_seat(consumer, peer)]
    return Call("seat", topic, args, lambda reply: str(reply.decode()), reads=True)


def touch(topic: TopicRef, consumer: str, peer: str) -> Call[int]:
    args = [consumer_seat(consumer), peer_seat(consumer, peer)]
    return Call("touch", topic, args, int, reads=True)


def attend(
    topic: TopicRef, consumer: str, peer: str, seat: QueueRef, wait_ms: int
) -> Call[tuple[bool, int]]:
    """As tend, for a peer at its seat, which is seen there; ms after which it must be seen again."""
    args: list[Argument] = [consumer_seat(consumer), peer_seat(consumer, peer), wait_ms]
    args.append(seat.key.removeprefix(topic.key))
    return Call("attend", topic, args, lambda reply: (bool(reply[0]), reply[1]))


def check_ends(lease: Lease) -> None:
    """Raises InvalidArgument for a lease that lasts until the message is settled."""
    if lease is None:
        raise InvalidArgument(
            "what is observed has a lease that ends, since a peer may go for good; give its seconds, or "
            "leave it out for as long as the topic is set"
        )


def observe(
    topic: TopicRef,
    consumer: str,
    peer: str,
    seat: QueueRef,
    count: int,
    lease: Lease,
    wait_ms: int,
) -> Call[replies.Received]:
    """`seat`: where what is received will be settled."""
    check_ends(lease)
    args: list[Argument] = [consumer_seat(consumer), peer_seat(consumer, peer)]
    args += [whole(count, "count", 1, calls.MAX_COUNT), calls.lease_ms(lease), wait_ms]
    args.append(seat.key.removeprefix(topic.key))
    return Call("observe", topic, args, replies.received, lends=True)


def subscriptions(topic: TopicRef) -> Call[list[replies.SubscriptionInfo]]:
    return Call("subscriptions", topic, [], replies.subscriptions, reads=True)


def tend_topic(topic: TopicRef) -> Call[bool]:
    """Answers whether to call again."""
    return Call("tend_topic", topic, [], bool, reads=True)
