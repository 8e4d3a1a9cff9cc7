"""Random histories of a topic against a plain model of its promises.

The model is a list per subscription and one for what the topic holds. It knows nothing of references or
counts: the invariants look at those, and they must be what the lists say.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import Phase, seed, settings, stateful
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast import Client, Delivery, Outgoing, Subscription, Topic, filters
from holdfast.message import parse_id
from tests.clock import START
from tests.conftest import Setting
from tests.engine.look import states
from tests.engine.seats import topic_key
from tests.raw import Raw

LEASE = 20
PEER_TIMEOUT = 30
TRIES = 3
WANTED = {None: None, "x": filters.equals("k", "x")}
PEERS = [("a", "p"), ("a", "q"), ("b", ""), ("s", "p"), ("s", "q")]


@dataclass
class Known:
    """What the model knows of one message in one place."""

    id: str
    body: bytes
    kind: str
    failures: int = 0
    due: int = 0
    until: int = 0
    delivery: Delivery | None = None


@dataclass
class Place:
    """A subscription, or what the topic holds itself."""

    kind: str | None = None
    ready: list[Known] = field(default_factory=list)
    delayed: list[Known] = field(default_factory=list)
    leased: list[Known] = field(default_factory=list)
    dead: list[Known] = field(default_factory=list)

    def by_state(self) -> dict[str, list[str]]:
        parts = {"ready": self.ready, "delayed": self.delayed, "leased": self.leased}
        return {m.id: [s] for s, part in {**parts, "dead": self.dead}.items() for m in part}

    def everything(self) -> list[Known]:
        return [*self.ready, *self.delayed, *self.leased, *self.dead]

    def fail(self, messages: list[Known]) -> None:
        for m in messages:
            m.failures += 1
        self.dead += [m for m in messages if m.failures >= TRIES]
        self.ready[:0] = [m for m in messages if m.failures < TRIES]

    def catch_up(self, now: int) -> None:
        due = sorted((m for m in self.delayed if m.due <= now), key=lambda m: (m.due, order(m)))
        self.ready += due
        self.delayed = [m for m in self.delayed if m.due > now]
        over = [m for m in self.leased if m.until <= now]
        self.leased = [m for m in self.leased if m.until > now]
        self.fail(sorted(over, key=order))

    def taken_from(self, other: Place) -> None:
        """All that another had: what was in hand first, then what was ready."""
        wanted = [
            [m for m in part if self.kind in (None, m.kind)]
            for part in (other.leased + other.ready, other.delayed)
        ]
        self.ready += wanted[0]
        self.delayed += wanted[1]
        self.dead += other.dead


def order(m: Known) -> tuple[int, int]:
    ms, seq = m.id.split("-")
    return int(ms), int(seq)


class Promises(RuleBasedStateMachine):
    hf: Client  # set by the test
    numbers = iter(range(1, 10**9))

    @initialize()
    def start(self) -> None:
        self.topic: Topic = self.hf.topic(f"model {next(self.numbers)}")
        self.topic.configure(lease=LEASE, max_receives=TRIES, peer_timeout=PEER_TIMEOUT)
        self.now = START
        self.topic.set_clock(self.now)
        self.held = Place()
        self.seats: dict[tuple[str, str | None], Place] = {}
        self.seen: dict[tuple[str, str], int] = {}
        self.published = 0
        self.unwanted = 0
        self.raw = Raw(self.hf)

    def teardown(self) -> None:
        if hasattr(self, "topic"):
            self.topic.delete()
            assert self.raw.keys(self.topic) == set()

    @staticmethod
    def seat_of(consumer: str, peer: str) -> tuple[str, str | None]:
        return (consumer, None) if consumer == "s" else (consumer, peer)

    def place(self, consumer: str, peer: str) -> Place:
        return self.seats[self.seat_of(consumer, peer)]

    def handle(self, consumer: str, peer: str | None) -> Subscription:
        return self.topic.subscription(consumer, peer=peer or "")

    # ---- what users do ----------------------------------------------------------------------

    @rule(
        messages=st.lists(
            st.tuples(st.sampled_from("xy"), st.sampled_from([0, 0, 0, 7])), min_size=1, max_size=4
        )
    )
    def publish(self, messages: list[tuple[str, int]]) -> None:
        first = self.published
        out = [
            Outgoing(b"%d" % (first + n), attributes={"k": kind}, delay=delay)
            for n, (kind, delay) in enumerate(messages)
        ]
        ids = self.topic.publish_many(out)
        self.published += len(ids)
        self.held.catch_up(self.now)
        for mid, body, (kind, delay) in zip(ids, [m.body for m in out], messages, strict=True):
            takers = [p for p in self.live() if p.kind in (None, kind)]
            if self.seats and not takers:
                self.unwanted += 1
            for place in takers if self.seats else [self.held]:
                m = Known(mid, bytes(body), kind, due=self.now + delay * 1000 if delay else 0)
                (place.delayed if delay else place.ready).append(m)

    def live(self) -> list[Place]:
        """The seats that get new messages."""
        chosen = []
        for (consumer, peer), place in self.seats.items():
            silent = peer is not None and not self.is_live(consumer, peer)
            others = [p for c, p in self.seats if c == consumer and p is not None]
            if not silent or not any(self.is_live(consumer, p) for p in others):
                chosen.append(place)
        return chosen

    def is_live(self, consumer: str, peer: str) -> bool:
        return self.now - self.seen[consumer, peer] <= PEER_TIMEOUT * 1000

    @rule(who=st.sampled_from(PEERS), kind=st.sampled_from([None, None, "x"]))
    def subscribe(self, who: tuple[str, str], kind: str | None) -> None:
        consumer, peer = who
        mode: Any = "shared" if consumer == "s" else "broadcast"
        self.topic.subscribe(consumer, peer=peer, mode=mode, filter=WANTED[kind])
        self.seen[who] = self.now
        seat = self.seat_of(*who)
        place = self.seats.setdefault(seat, Place())
        place.kind = kind
        if len(self.seats) == 1 and self.held.everything():
            before = len(self.held.everything())
            place.taken_from(self.held)
            self.unwanted += before - len(place.everything())
            self.held = Place()

    @precondition(lambda self: self.seats)
    @rule(data=st.data())
    def unsubscribe(self, data: Any) -> None:
        who = data.draw(st.sampled_from(sorted(self.seen)))
        assert self.topic.unsubscribe(who[0], peer=who[1])
        del self.seen[who]
        seat = self.seat_of(*who)
        if seat[1] is None and any(c == who[0] for c, _ in self.seen):
            return
        gone = self.seats.pop(seat)
        if not self.seats:
            self.held.taken_from(gone)

    @precondition(lambda self: self.seats)
    @rule(data=st.data(), count=st.integers(1, 5))
    def observe(self, data: Any, count: int) -> None:
        who = data.draw(st.sampled_from(sorted(self.seen)))
        place = self.place(*who)
        place.catch_up(self.now)
        got = self.handle(*who).observe(count)
        self.seen[who] = self.now
        expected, place.ready = place.ready[:count], place.ready[count:]
        assert [(d.id, d.body) for d in got] == [(m.id, m.body) for m in expected]
        for d, m in zip(got, expected, strict=True):
            assert d.receives == m.failures + 1
            assert d.attributes == {"k": m.kind}
            m.delivery, m.until = d, self.now + LEASE * 1000
            place.leased.append(m)

    def choose(self, data: Any) -> tuple[Subscription, Place, Known]:
        choices = [
            (seat, m.id)
            for seat, place in sorted(self.seats.items(), key=str)
            for m in place.leased
        ]
        seat, mid = data.draw(st.sampled_from(choices))
        place = self.seats[seat]
        [m] = [m for m in place.leased if m.id == mid]
        place.leased.remove(m)
        return self.handle(*seat), place, m

    @precondition(lambda self: any(p.leased for p in self.seats.values()))
    @rule(data=st.data())
    def ack(self, data: Any) -> None:
        handle, _, m = self.choose(data)
        assert m.delivery is not None
        assert handle.ack(m.delivery)

    @precondition(lambda self: any(p.leased for p in self.seats.values()))
    @rule(data=st.data(), delay=st.sampled_from([0, 0, 4]))
    def nack(self, data: Any, delay: int) -> None:
        handle, place, m = self.choose(data)
        assert m.delivery is not None
        assert handle.nack(m.delivery, delay=delay)
        if delay and m.failures + 1 < TRIES:
            m.failures += 1
            m.due = self.now + delay * 1000
            place.delayed.append(m)
        else:
            place.fail([m])

    @precondition(lambda self: any(p.everything() for p in self.seats.values()))
    @rule(data=st.data(), how=st.sampled_from(["remove", "redrive", "purge"]))
    def keep_house(self, data: Any, how: str) -> None:
        seat = data.draw(st.sampled_from(sorted(self.seats, key=str)))
        handle, place = self.handle(*seat), self.seats[seat]
        if how == "purge":
            handle.purge()
            self.seats[seat] = Place(place.kind)
        elif how == "redrive":
            dead = {m.id: m for m in place.dead}
            for mid in handle.redrive(2):
                m = dead[mid]
                m.failures = 0
                place.dead.remove(m)
                place.ready.append(m)
        elif place.everything():
            m = data.draw(st.sampled_from(place.everything()))
            assert handle.remove(m.id)
            for part in (place.ready, place.delayed, place.leased, place.dead):
                if m in part:
                    part.remove(m)

    @rule(seconds=st.sampled_from([0.001, 4, 7, 19.999, 20, 31]))
    def let_time_pass(self, seconds: float) -> None:
        self.now += round(seconds * 1000)
        self.topic.set_clock(self.now)

    @rule()
    def tend(self) -> None:
        self.topic.tend()
        self.held.catch_up(self.now)

    # ---- what is always true ----------------------------------------------------------------

    @invariant()
    def each_message_is_in_one_state_for_each_taker(self) -> None:
        if not hasattr(self, "topic"):
            return
        assert states(self.topic) == self.held.by_state()
        for seat, place in self.seats.items():
            assert states(self.handle(*seat)) == place.by_state()

    @invariant()
    def what_is_ready_is_in_the_order_in_which_it_will_go_out(self) -> None:
        if not hasattr(self, "topic"):
            return
        for seat, place in self.seats.items():
            shown = self.handle(*seat).inspect("ready", 0, 1000)
            assert [(m.id, m.body) for m in shown] == [(m.id, m.body) for m in place.ready]

    @invariant()
    def bodies_are_kept_while_somebody_has_a_reference_and_counted_right(self) -> None:
        if not hasattr(self, "topic"):
            return
        had: dict[bytes, int] = {}
        for place in (self.held, *self.seats.values()):
            for m in place.everything():
                packed = parse_id(m.id)[0]
                had[packed] = had.get(packed, 0) + 1
        takers = topic_key(self.topic, "takers")
        counted = {f: int(self.raw("HGET", takers, f)) for f in self.raw("HKEYS", takers)}
        assert set(self.raw("HKEYS", topic_key(self.topic, "bodies"))) == set(counted)
        # One that had a single taker from the start is not shared; all others are counted.
        assert {f: had[f] for f in counted} == counted
        assert {f for f, n in had.items() if n > 1} <= set(counted)

    @invariant()
    def the_counts_add_up(self) -> None:
        if not hasattr(self, "topic"):
            return
        stats = self.topic.stats()
        assert (stats.sent, stats.dropped) == (self.published, self.unwanted)
        listed = {(i.consumer, i.peer) for i in self.topic.subscriptions()}
        assert listed == set(self.seats)


@pytest.mark.only("standalone", "packed", reason="the functions are the same everywhere")
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(n, marks=pytest.mark.torture) for n in range(1, 4))]
)
@pytest.mark.slow
@pytest.mark.packed
def test_random_histories_of_a_topic_keep_the_promises(
    hf: Client, setting: Setting, part: int
) -> None:
    """Four parts of 15 histories of 50 steps, the same on every run. Each part, on each of the two
    libraries, has its own.

    Shrinking a history can take minutes; ask for it with HOLDFAST_SHRINK=1 once one has failed.
    """
    machine = seed(2 * part + (setting.name == "packed"))(
        type(f"Promises{part}", (Promises,), {"hf": hf})
    )
    stateful.run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=15,
            stateful_step_count=50,
            derandomize=False,
            phases=[Phase.generate, *([Phase.shrink] if os.environ.get("HOLDFAST_SHRINK") else [])],
        ),
    )
