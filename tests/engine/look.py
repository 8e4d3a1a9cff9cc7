"""What tests ask of a queue again and again."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast import Delivery, Message, Queue, Subscription, Topic
from holdfast.message import STATES
from holdfast.settings import AS_SET, Lease

ALL = 100_000


def bodies(messages: Iterable[Message]) -> list[bytes]:
    return [m.body for m in messages]


def numbered(count: int, start: int = 1) -> list[bytes]:
    """Bodies that tell their own place: b"1", b"2", …"""
    return [str(n).encode() for n in range(start, start + count)]


def drain(queue: Queue | Subscription, lease: Lease = AS_SET) -> list[Delivery]:
    """Everything that can be received now, from all shards."""
    got: list[Delivery] = []
    while more := queue.receive_many(1000, lease=lease):
        got += more
    return got


def states(queue: Queue | Subscription | Topic) -> dict[str, list[str]]:
    """Message id → every state it is found in."""
    found: dict[str, list[str]] = {}
    for state in STATES:
        for message in queue.inspect(state, 0, ALL):
            found.setdefault(message.id, []).append(message.state)
    return found


def counts(queue: Queue | Subscription | Topic) -> tuple[int, int, int, int]:
    """Ready, delayed, leased, dead."""
    s = queue.stats()
    return s.ready, s.delayed, s.leased, s.dead


def assert_each_in_one_state(queue: Queue | Subscription | Topic, ids: Iterable[str]) -> None:
    """Every message is in exactly one state, no other message is, and the counts agree."""
    found = states(queue)
    assert {i: len(where) for i, where in found.items()} == dict.fromkeys(ids, 1)
    by_state = [sum(where == [state] for where in found.values()) for state in STATES]
    told = queue.stats()
    assert by_state == [getattr(told, state) for state in STATES]
