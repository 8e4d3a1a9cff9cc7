"""Two consumers, step by step: every order of small lists of named steps.

In each order: every message is in exactly one state after every step, a receipt of an earlier
delivery changes nothing, and nobody gets a message that another one holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import permutations

import pytest

from holdfast import Delivery, Outgoing, Queue
from tests.clock import Clock
from tests.engine.look import assert_each_in_one_state, states

LEASE = 10


class Scene:
    """One queue, two messages, two consumers A and B, and what a correct queue must do."""

    def __init__(self, q: Queue, clock: Clock, group: str | None = None) -> None:
        self.q, self.clock = q, clock
        self.ids: set[str] = set(
            q.send_many([Outgoing(b"1", group=group), Outgoing(b"2", group=group)])
        )
        self.grouped = group is not None
        self.hands: dict[str, Delivery | None] = {"A": None, "B": None}
        # id → the delivery that counts, and when its lease ends
        self.current: dict[str, tuple[Delivery, float]] = {}

    def receive(self, who: str) -> None:
        self.reclaim()
        got = self.q.receive(lease=LEASE)
        if got is None:
            in_flight = len(self.current) + len(self.q.inspect("delayed"))
            assert self.grouped or len(self.current) == len(self.ids) or in_flight
            return
        assert got.id not in self.current, "somebody else holds it"
        if self.grouped:
            assert not self.current, "one of a group at a time"
        self.hands[who] = got
        self.current[got.id] = (got, self.clock.ms + LEASE * 1000)

    def reclaim(self) -> None:
        """What a look at the queue does: leases that have ended are over."""
        for i, (_, until) in list(self.current.items()):
            if until <= self.clock.ms:
                del self.current[i]

    def settle(self, who: str, how: str) -> None:
        held = self.hands[who]
        assert held is not None
        before = self.q.stats()
        valid = held.id in self.current and self.current[held.id][0] is held
        done: bool = {
            "ack": lambda: self.q.ack(held),
            "nack": lambda: self.q.nack(held),
            "nack later": lambda: self.q.nack(held, delay=5),
            "release": lambda: self.q.release(held),
            "bury": lambda: self.q.bury(held, "bad"),
            "extend": lambda: self.q.extend(held, LEASE),
        }[how]()
        assert done == valid, f"{how} by {who}"
        if not done:
            assert self.q.stats() == before, "a stale receipt changed something"
        elif how == "extend":
            self.current[held.id] = (held, self.clock.ms + LEASE * 1000)
        else:
            del self.current[held.id]
            if how == "ack":
                self.ids.remove(held.id)

    def expire(self) -> None:
        self.clock.advance(LEASE)

    def tend(self) -> None:
        self.q.tend()
        self.reclaim()

    def recover(self, who: str) -> None:
        before = set(self.current)
        got = self.q.recover(1, elapsed=0, lease=LEASE)
        for d in got:
            # In hand, or past its lease with nobody having looked since.
            self.hands[who] = d
            self.current[d.id] = (d, self.clock.ms + LEASE * 1000)
        assert len(got) == 1 or not before

    def redrive(self) -> None:
        self.q.redrive()

    def remove(self, who: str) -> None:
        held = self.hands[who]
        if held is None or held.id not in self.ids:
            return
        assert self.q.remove(held.id)
        self.ids.remove(held.id)
        self.current.pop(held.id, None)

    def check(self) -> None:
        assert_each_in_one_state(self.q, self.ids)
        where = states(self.q)
        for i in self.current:
            assert where[i] == ["leased"]


def run(scene: Scene, step: str) -> None:
    verb, _, who = step.rpartition(" ")
    if step in ("expire", "tend", "redrive"):
        getattr(scene, step)()
    elif verb in ("receive", "recover", "remove"):
        getattr(scene, verb)(who)
    elif scene.hands[who] is None:
        return  # there is nothing to settle, and nothing has changed
    else:
        scene.settle(who, verb)
    scene.check()


def effective(order: Iterable[str]) -> tuple[str, ...]:
    """Without the steps of somebody who has nothing in hand yet."""
    kept, came = [], set()
    for step in order:
        verb, _, who = step.rpartition(" ")
        if verb in ("receive", "recover"):
            came.add(who)
        if not verb or who in came:
            kept.append(step)
    return tuple(kept)


SETTLING = ["ack", "nack", "nack later", "release", "bury", "extend"]

LISTS: dict[str, list[str]] = {
    **{
        f"{a} against {b} after an expiry": ["receive A", "expire", "receive B", f"{a} A", f"{b} B"]
        for a in SETTLING
        for b in ("ack", "extend")
    },
    "extend against expiry": ["receive A", "extend A", "expire", "receive B", "ack A"],
    "nack against recover": ["receive A", "nack A", "recover B", "ack A", "ack B"],
    "ack against recover": ["receive A", "expire", "recover B", "ack A", "ack B"],
    "bury against redrive": ["receive A", "bury A", "redrive", "receive B", "ack B"],
    "remove against settle": ["receive A", "remove A", "receive B", "nack A", "ack B"],
    "tend against ack": ["receive A", "expire", "tend", "receive B", "ack A"],
    "two recoveries": ["receive A", "recover B", "recover A", "ack A", "ack B"],
}


CASES = [(name, None) for name in LISTS] + [
    (name, "g") for name in LISTS if not name.endswith("against extend after an expiry")
]


@pytest.mark.parametrize(
    ("name", "group"), CASES, ids=[f"{name}, {group or 'no group'}" for name, group in CASES]
)
@pytest.mark.only(
    "standalone", "packed", reason="thousands of steps; the functions are the same everywhere"
)
@pytest.mark.slow
def test_every_order_of(new_queue: Callable[[], Queue], name: str, group: str | None) -> None:
    # Orders that differ only in when nothing happens are the same.
    for order in dict.fromkeys(map(effective, permutations(LISTS[name]))):
        q = new_queue()
        scene = Scene(q, Clock(q), group)
        try:
            for step in order:
                run(scene, step)
        except AssertionError as error:
            raise AssertionError(f"in the order {order}: {error}") from error


@pytest.mark.slow
def test_the_story_of_a_slow_consumer(q: Queue, clock: Clock) -> None:
    """The one that matters most, told once in every setting."""
    q.send(b"x")
    a = q.receive(lease=LEASE)
    clock.advance(LEASE)
    b = q.receive(lease=LEASE)
    assert a is not None
    assert b is not None
    assert not q.ack(a)
    assert not q.extend(a, 60)
    assert not q.nack(a)
    assert q.extend(b, 60)
    clock.advance(59)
    assert q.receive() is None
    assert q.ack(b)
    assert not q.ack(b)
    assert q.stats().total == 0
