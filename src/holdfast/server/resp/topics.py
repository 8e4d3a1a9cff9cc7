"""Topics over RESP: who is subscribed, and the topics themselves.

What was observed is settled by MQ.ACK, MQ.NACK and MQ.EXTEND with `FOR consumer [PEER peer]` behind the
topic's name: FOR can be no id, so the same commands serve queues and topics without doubt.
"""

from __future__ import annotations

from dataclasses import asdict

from holdfast.engine.replies import Mode, SubscriptionInfo
from holdfast.filters import Filter
from holdfast.server.resp.arguments import Words, text
from holdfast.server.resp.command import Command
from holdfast.server.resp.connection import Connection
from holdfast.server.resp.setting import changes, told
from holdfast.server.resp.writer import NIL, OK, Failure, Reply


async def subscribe(caller: Connection, args: list[bytes]) -> Reply:
    topic, consumer = text(args[0], "topic"), text(args[1], "the consumer's id")
    words = Words(args[2:])
    peer, wanted = "", None
    mode: Mode = "broadcast"
    while option := words.option("PEER", "MODE", "FILTER"):
        if option == "PEER":
            peer = words.text("PEER")
        elif option == "FILTER":
            wanted = Filter.from_json(words.word("FILTER"))
        elif words.option("SHARED"):
            mode = "shared"
        elif not words.option("BROADCAST"):
            raise Failure("syntax error: MODE is BROADCAST or SHARED")
    words.end()
    await caller.session.subscribe(topic, consumer, peer=peer, mode=mode, filter=wanted)
    return OK


async def unsubscribe(caller: Connection, args: list[bytes]) -> Reply:
    topic, consumer = text(args[0], "topic"), text(args[1], "the consumer's id")
    words = Words(args[2:])
    peer = words.text("PEER") if words.option("PEER") else None
    words.end()
    return int(await caller.session.unsubscribe(topic, consumer, peer=peer))


def _subscription(info: SubscriptionInfo) -> Reply:
    return {
        "consumer": info.consumer,
        "peer": info.peer,
        "mode": info.mode,
        "since": round(info.since.timestamp() * 1000),
        "filter": info.filter.to_json() if info.filter else None,
        "peers": [
            [peer.name, round(peer.last_seen.timestamp() * 1000), int(peer.live)]
            for peer in info.peers
        ],
    }


async def subscriptions(caller: Connection, args: list[bytes]) -> Reply:
    return [_subscription(i) for i in await caller.session.subscriptions(text(args[0], "topic"))]


async def topics(caller: Connection, args: list[bytes]) -> Reply:
    return await caller.session.topics()


async def topic(caller: Connection, args: list[bytes]) -> Reply:
    name = text(args[1], "topic")
    verb = Words(args[:1]).option("STATS", "CONFIGURE", "DELETE")
    if verb == "CONFIGURE":
        return told(await caller.session.configure_topic(name, **changes(args[2:])))
    if len(args) > 2:
        raise Failure("syntax error: only MQ.TOPIC CONFIGURE takes more than a topic")
    if verb == "DELETE":
        await caller.session.delete_topic(name)
        return OK
    if verb == "STATS":
        found = await caller.session.topic_stats(name)
        return asdict(found) if found.now else NIL
    raise Failure("syntax error: MQ.TOPIC has STATS, CONFIGURE and DELETE")


_ONE = (1, 1, 1)
COMMANDS = (
    Command(
        "mq.subscribe",
        "topic consumer [PEER peer] [MODE BROADCAST | SHARED] [FILTER json]",
        2,
        8,
        subscribe,
        "Have what is published on a topic kept for a consumer",
        group="topic",
        flags=("write",),
        keys=_ONE,
    ),
    Command(
        "mq.unsubscribe",
        "topic consumer [PEER peer]",
        2,
        4,
        unsubscribe,
        "Give up a subscription, of one peer or of the whole consumer; answers 1 or 0",
        group="topic",
        flags=("write",),
        keys=_ONE,
    ),
    Command(
        "mq.subscriptions",
        "topic",
        1,
        1,
        subscriptions,
        "Who is subscribed to a topic, with peers and when each was last seen",
        group="topic",
        flags=("readonly",),
        keys=_ONE,
    ),
    Command(
        "mq.topics",
        "",
        0,
        0,
        topics,
        "Names of all topics you may use",
        group="topic",
        flags=("readonly",),
    ),
    Command(
        "mq.topic",
        "STATS | CONFIGURE | DELETE topic [setting value ...]",
        2,
        None,
        topic,
        "Counts and settings of a topic, and its end",
        group="topic",
        flags=("write",),
        keys=(2, 2, 1),
    ),
)
