"""Whole messages: MQ.RECEIVE, from queues, and MQ.OBSERVE, from topics.

Each answers with [source, id, payload, receipt, deliveries, attributes, group, priority]. The first
three are as in the later form of MQ.POP, and further fields may come at the end. A receipt names this one
delivery, where an id names whichever is current.
"""

from __future__ import annotations

from holdfast.client._async.delivery import AsyncDelivery
from holdfast.server.resp.arguments import Words, count, positive_lease, seconds, text, texts
from holdfast.server.resp.command import Command
from holdfast.server.resp.connection import Connection
from holdfast.server.resp.writer import NIL, Reply
from holdfast.server.taking import give_back
from holdfast.settings import AS_SET, Lease


async def _whole(caller: Connection, got: list[AsyncDelivery]) -> Reply:
    if got and caller.gone:
        await give_back(got)
        return NIL
    return [
        [d.source, d.id, d.body, d.receipt, d.receives, d.attributes, d.group, d.priority]
        for d in got
    ] or NIL


async def receive(caller: Connection, args: list[bytes]) -> Reply:
    words = Words(args)
    most, wait, dead = 1, -1.0, False
    lease: Lease = AS_SET
    while option := words.option("COUNT", "BLOCK", "LEASE", "DEAD"):
        if option == "COUNT":
            most = count(words.word("count"))
        elif option == "BLOCK":
            wait = seconds(words.word("BLOCK"), "BLOCK")
        elif option == "LEASE":
            lease = positive_lease(words.word("LEASE"), "LEASE")
        else:
            dead = True
    keys = texts([words.word("key"), *words.rest()], "key")

    async def take(slice_s: float) -> list[AsyncDelivery]:
        session = caller.session
        taking = session.receive_dead if dead else session.receive
        return await taking(keys, most, wait=slice_s, lease=lease)

    return await _whole(caller, await caller.wait_for(take, wait))


async def observe(caller: Connection, args: list[bytes]) -> Reply:
    consumer = text(args[0], "the consumer's id")
    words = Words(args[1:])
    most, wait, peer, auto = 1, -1.0, "", False
    lease: Lease = AS_SET
    topics: list[str] | None = None
    while option := words.option("PEER", "COUNT", "BLOCK", "LEASE", "AUTOACK", "TOPICS"):
        match option:
            case "PEER":
                peer = words.text("PEER")
            case "COUNT":
                most = count(words.word("count"))
            case "BLOCK":
                wait = seconds(words.word("BLOCK"), "BLOCK")
            case "LEASE":
                lease = positive_lease(words.word("LEASE"), "LEASE")
            case "AUTOACK":
                auto = True
            case _:
                topics = texts([words.word("topic"), *words.rest()], "topic")
    words.end()

    async def take(slice_s: float) -> list[AsyncDelivery]:
        return await caller.session.observe(
            consumer, most, peer=peer, topics=topics, wait=slice_s, lease=lease, auto_ack=auto
        )

    return await _whole(caller, await caller.wait_for(take, wait))


COMMANDS = (
    Command(
        "mq.receive",
        "[COUNT count] [BLOCK milliseconds] [LEASE milliseconds | NONE] [DEAD] key [key ...]",
        1,
        None,
        receive,
        "Take messages under a lease, with receipts and attributes; DEAD: dead letters",
        flags=("write", "blocking"),
        keys=(-1, -1, 1),
    ),
    Command(
        "mq.observe",
        "consumer [PEER peer] [COUNT count] [BLOCK milliseconds] [LEASE milliseconds] [AUTOACK] "
        "[TOPICS topic [topic ...]]",
        1,
        None,
        observe,
        "Take what was published on the topics a consumer is subscribed to",
        group="topic",
        flags=("write", "blocking"),
    ),
)
