"""MQ.SEND and MQ.PUBLISH: one message, with everything that can be said about it.

A command of its own, since MQ.PUSH must take any element for a message, also one that reads DELAY. Here
the body is the last argument and options are what stands before it, so nothing can be mistaken.
"""

from __future__ import annotations

from typing import Any

from holdfast.message import MessageId, Outgoing
from holdfast.server.resp.arguments import Words, integer, seconds, text, when
from holdfast.server.resp.command import Command
from holdfast.server.resp.connection import Connection
from holdfast.server.resp.writer import Failure, Reply

_OPTIONS = ("DELAY", "AT", "PRIORITY", "GROUP", "DEDUP", "TTL", "ATTR", "UNIQUE")
_USAGE = (
    "[DELAY milliseconds | AT unix-milliseconds] [PRIORITY 0..9] [GROUP group] [DEDUP id] "
    "[TTL milliseconds] [ATTR name value ...]"
)


def _outgoing(words: Words, body: bytes) -> tuple[Outgoing, str | None]:
    """The message, and its unique name if it has one."""
    said: dict[str, Any] = {}
    attributes: dict[str, str] = {}
    unique: str | None = None
    while len(words):
        match words.option(*_OPTIONS):
            case "DELAY":
                said["delay"] = seconds(words.word("DELAY"), "DELAY")
            case "AT":
                said["due"] = when(words.word("AT"), "AT")
            case "PRIORITY":
                said["priority"] = integer(words.word("PRIORITY"), "PRIORITY")
            case "GROUP":
                said["group"] = words.text("GROUP")
            case "DEDUP":
                said["dedup_id"] = words.text("DEDUP")
            case "TTL":
                said["ttl"] = seconds(words.word("TTL"), "TTL")
            case "ATTR":
                name = words.text("an attribute's name")
                attributes[name] = words.text("an attribute's value")
            case "UNIQUE":
                unique = words.text("UNIQUE")
            case _:
                words.end()  # raises, and names what is not expected
    return Outgoing(body, attributes=attributes or None, **said), unique


async def send(caller: Connection, args: list[bytes]) -> Reply:
    message, unique = _outgoing(Words(args[1:-1]), args[-1])
    key = text(args[0], "key")
    if unique is None:
        return (await caller.session.send(key, [message]))[0]
    if message.dedup_id is not None:
        raise Failure("syntax error: give UNIQUE or DEDUP, not both")
    return await caller.session.ensure(key, unique, message)


async def publish(caller: Connection, args: list[bytes]) -> Reply:
    message, unique = _outgoing(Words(args[1:-1]), args[-1])
    if unique is not None:
        raise Failure("syntax error: UNIQUE is for queues; DEDUP is for topics too")
    return (await caller.session.publish(text(args[0], "topic"), [message]))[0]


async def mpublish(caller: Connection, args: list[bytes]) -> Reply:
    sent: list[MessageId] = await caller.session.publish(
        text(args[0], "topic"), [Outgoing(body) for body in args[1:]]
    )
    return sent


COMMANDS = (
    Command(
        "mq.send",
        f"key {_USAGE} [UNIQUE name] body",
        2,
        None,
        send,
        "Send one message, with what is to be said about it; answers its id",
        flags=("write", "denyoom"),
        keys=(1, 1, 1),
    ),
    Command(
        "mq.publish",
        f"topic {_USAGE} body",
        2,
        None,
        publish,
        "Publish one message to all subscriptions of a topic, or none; answers its id",
        group="topic",
        flags=("write", "denyoom"),
        keys=(1, 1, 1),
    ),
    Command(
        "mq.mpublish",
        "topic body [body ...]",
        2,
        None,
        mpublish,
        "Publish several messages, all or none; answers their ids",
        group="topic",
        flags=("write", "denyoom"),
        keys=(1, 1, 1),
    ),
)
