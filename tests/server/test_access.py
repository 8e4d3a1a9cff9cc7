"""Each verb × a right to it, a right to everything but it, and a right to it elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from inspect import getmembers, iscoroutinefunction
from typing import Any

import pytest

from holdfast import AsyncClient, Outgoing
from holdfast.errors import AcceptTheState, InvalidArgument, Refused
from holdfast.server.access import (
    EVERYBODY,
    GROUPS,
    QUEUE_VERBS,
    TOPIC_VERBS,
    Kind,
    Principal,
    Right,
    right,
)
from holdfast.server.broker import Broker, Session
from holdfast.server.entrance import Seat

ID = "1-1"
Ask = Callable[[Session, str], Awaitable[Any]]


def _seat(topic: str) -> Seat:
    return Seat(topic, "c")


# Everything a session can be asked for, under the verb that permits it.
ASKED: list[tuple[Kind, str, str, Ask]] = [
    ("queue", "send", "send", lambda s, n: s.send(n, [Outgoing(b"x")])),
    ("queue", "send", "send_bodies", lambda s, n: s.send_bodies(n, [b"x"])),
    ("queue", "send", "ensure", lambda s, n: s.ensure(n, "u", Outgoing(b"x"))),
    ("queue", "receive", "receive", lambda s, n: s.receive(n, 1)),
    ("queue", "receive", "receive_rounds", lambda s, n: s.receive_rounds(n, 1, 2)),
    ("queue", "ack", "ack_batches", lambda s, n: s.ack_batches(n, [])),
    ("queue", "recover", "recover", lambda s, n: s.recover(n, 1, elapsed=1)),
    ("queue", "ack", "ack", lambda s, n: s.ack(n, [ID])),
    ("queue", "nack", "nack", lambda s, n: s.nack(n, [ID])),
    ("queue", "nack", "release", lambda s, n: s.nack(n, [ID], action="release")),
    ("queue", "nack", "bury", lambda s, n: s.nack(n, [ID], action="bury")),
    ("queue", "extend", "extend", lambda s, n: s.extend(n, [ID], 5)),
    ("queue", "inspect", "inspect", lambda s, n: s.inspect(n, "ready", 0, 1)),
    ("queue", "inspect", "get", lambda s, n: s.get(n, ID)),
    ("queue", "stats", "stats", lambda s, n: s.stats(n)),
    ("queue", "stats", "settings", lambda s, n: s.settings(n)),
    ("queue", "stats", "pop_lease", lambda s, n: s.pop_lease(n)),
    ("queue", "redrive", "redrive", lambda s, n: s.redrive(n)),
    ("queue", "remove", "remove", lambda s, n: s.remove(n, ID)),
    ("queue", "reschedule", "reschedule", lambda s, n: s.reschedule(n, ID, delay=1)),
    ("queue", "purge", "purge", lambda s, n: s.purge(n, "ready")),
    ("queue", "pause", "pause", lambda s, n: s.pause(n)),
    ("queue", "pause", "resume", lambda s, n: s.resume(n)),
    ("queue", "configure", "configure", lambda s, n: s.configure(n, lease=5)),
    ("queue", "delete", "delete", lambda s, n: s.delete(n)),
    ("topic", "publish", "publish", lambda s, n: s.publish(n, [Outgoing(b"x")])),
    ("topic", "subscribe", "subscribe", lambda s, n: s.subscribe(n, "c")),
    ("topic", "unsubscribe", "unsubscribe", lambda s, n: s.unsubscribe(n, "c")),
    ("topic", "observe", "observe", lambda s, n: s.observe("c", 1, topics=[n])),
    ("topic", "observe", "touch", lambda s, n: s.touch(_seat(n))),
    ("topic", "observe", "attend", lambda s, n: s.attend("c", topics=[n])),
    ("queue", "receive", "receive_dead", lambda s, n: s.receive_dead(n, 1)),
    ("topic", "observe", "receive_dead", lambda s, n: s.receive_dead(_seat(n), 1)),
    ("topic", "ack", "ack", lambda s, n: s.ack(_seat(n), [ID])),
    ("topic", "nack", "nack", lambda s, n: s.nack(_seat(n), [ID])),
    ("topic", "extend", "extend", lambda s, n: s.extend(_seat(n), [ID], 5)),
    ("topic", "inspect", "inspect", lambda s, n: s.inspect(_seat(n), "ready", 0, 1)),
    ("topic", "inspect", "get", lambda s, n: s.get(_seat(n), ID)),
    ("topic", "stats", "stats", lambda s, n: s.stats(_seat(n))),
    ("topic", "stats", "settings", lambda s, n: s.settings(_seat(n))),
    ("topic", "stats", "topic_stats", lambda s, n: s.topic_stats(n)),
    ("topic", "stats", "topic_settings", lambda s, n: s.topic_settings(n)),
    ("topic", "stats", "subscriptions", lambda s, n: s.subscriptions(n)),
    ("topic", "redrive", "redrive", lambda s, n: s.redrive(_seat(n))),
    ("topic", "configure", "configure_topic", lambda s, n: s.configure_topic(n, lease=5)),
    ("topic", "delete", "delete_topic", lambda s, n: s.delete_topic(n)),
]
asked = pytest.mark.parametrize(
    ("kind", "verb", "ask"),
    [(kind, verb, ask) for kind, verb, _, ask in ASKED],
    ids=[f"{kind}-{what}" for kind, _, what, _ in ASKED],
)


def _all_but(verb: str) -> frozenset[str]:
    return GROUPS["all"] - {verb}


def test_the_table_has_every_verb() -> None:
    assert {verb for kind, verb, *_ in ASKED if kind == "queue"} == set(QUEUE_VERBS)
    assert {verb for kind, verb, *_ in ASKED if kind == "topic"} == set(TOPIC_VERBS)


def test_the_table_has_everything_a_session_can_be_asked_for() -> None:
    methods = {n for n, m in getmembers(Session, iscoroutinefunction) if n[0] != "_"}
    # These show what one has rights to, or check the verb they are given; tested on their own.
    assert methods - {what for _, _, what, _ in ASKED} == {
        "queues",
        "topics",
        "consumer_topics",
        "clock",
    }


@asked
async def test_the_one_right_needed_is_enough(
    direct: AsyncClient, name: str, kind: Kind, verb: str, ask: Ask
) -> None:
    who = Principal("one", (Right(frozenset({verb}), kind, name, exact=True),))
    # There is nothing to settle, and to be told so one must have been let in.
    with suppress(AcceptTheState):
        await ask(Broker(direct).session(who), name)


@asked
@pytest.mark.parametrize("lacking", ["verb", "prefix", "exact name", "kind", "everything"])
async def test_any_other_right_is_not_enough_and_nothing_is_written(
    direct: AsyncClient, name: str, kind: Kind, verb: str, ask: Ask, lacking: str
) -> None:
    every = GROUPS["all"]
    other: Kind = "topic" if kind == "queue" else "queue"
    rights = {
        "verb": (Right(_all_but(verb), kind, name, exact=True),),
        "prefix": (Right(every, kind, "ship.", exact=False),),
        "exact name": (Right(every, kind, name[:-1], exact=True),),
        "kind": (Right(every, other, name, exact=True),),
        "everything": (),
    }[lacking]
    with pytest.raises(Refused, match=f"one may not {verb} on {kind} '{name}'"):
        await ask(Broker(direct).session(Principal("one", rights)), name)
    assert name not in await direct.queues()
    assert name not in await direct.topics()


async def test_one_queue_among_several_that_is_not_theirs_refuses_the_whole_call(
    direct: AsyncClient, name: str
) -> None:
    who = Principal("one", (right(f"receive queue:{name}"),))
    await direct.queue(name).send(b"x")
    with pytest.raises(Refused):
        await Broker(direct).session(who).receive([name, "other"], 1)
    assert (await direct.queue(name).stats()).ready == 1


async def test_only_names_one_has_a_right_to_are_listed(direct: AsyncClient, name: str) -> None:
    await direct.queue(f"{name}.a").send(b"x")
    await direct.queue(f"other.{name}").send(b"x")
    await direct.topic(f"{name}.t").publish(b"x")
    await direct.topic(f"other.{name}").publish(b"x")
    session = Broker(direct).session(Principal("one", (right(f"stats *:{name}*"),)))
    assert await session.queues() == [f"{name}.a"]
    assert await session.topics() == [f"{name}.t"]
    assert await Broker(direct).session(Principal("none", ())).queues() == []


async def test_observing_everything_leaves_out_topics_that_are_not_theirs(
    direct: AsyncClient, name: str
) -> None:
    for topic in (name, f"other.{name}"):
        await direct.topic(topic).subscribe(name)
        await direct.topic(topic).publish(topic.encode())
    session = Broker(direct).session(Principal("one", (right(f"observe topic:{name}"),)))
    got = await session.observe(name, 10)
    assert [delivery.body for delivery in got] == [name.encode()]


@pytest.mark.parametrize(
    ("text", "verb", "kind", "name", "may"),
    [
        ("send queue:orders.*", "send", "queue", "orders.eu", True),
        ("send queue:orders.*", "send", "queue", "orders.", True),
        ("send queue:orders.*", "send", "queue", "orders", False),
        ("send queue:orders.*", "send", "topic", "orders.eu", False),
        ("send queue:orders", "send", "queue", "orders", True),
        ("send queue:orders", "send", "queue", "orders2", False),
        ("send,ack *:*", "ack", "topic", "t", True),
        ("consume queue:*", "recover", "queue", "q", True),
        ("consume queue:*", "send", "queue", "q", False),
        ("produce *:*", "publish", "topic", "t", True),
        ("look *:*", "purge", "queue", "q", False),
        ("manage *:*", "delete", "topic", "t", True),
        ("all *:*", "delete", "queue", "q", True),
    ],
)
def test_a_right_means_what_its_text_says(
    text: str, verb: str, kind: Kind, name: str, may: bool
) -> None:
    assert Principal("p", (right(text),)).may(verb, kind, name) is may


@pytest.mark.parametrize(
    "text", ["", "send", "fly queue:a", "send queue:", "send a:b", ", queue:a"]
)
def test_a_right_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        right(text)


def test_everybody_may_do_everything() -> None:
    assert all(EVERYBODY.may(verb, "queue", "any") for verb in QUEUE_VERBS)
    assert all(EVERYBODY.may(verb, "topic", "any") for verb in TOPIC_VERBS)
