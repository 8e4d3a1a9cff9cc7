"""Random histories against a plain model of the promises.

The model knows nothing of lists, batches or tokens: only what a user is promised. After every step
the counts and the contents of all states must be the model's. What the model leaves open, because
the promises do: when an expired message is noticed, how groups and other messages take turns, and which of
several that are ready give way when the queue is full.

All of it goes through a proxy that loses answers now and then: nobody may notice.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import Phase, seed, settings, stateful
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import holdfast
from holdfast import Client, Delivery, Message, Outgoing, Queue, QueueFull
from tests.client.proxy import Proxy, proxied
from tests.clock import START
from tests.conftest import Setting
from tests.engine.look import ALL, states
from tests.engine.model import Known, Model
from tests.engine.settling import ACTIONS, SETTLE, changed, settle

GROUPS = [None, None, "g", "h"]
LEASE = 20
# Those whose answers may be lost. What a receive took whose answer was lost comes back when its lease ends:
# tests/client/test_lost_answers.py.
VERBS = [
    *("send", "ack", "nack", "extend", "settle", "remove", "find", "redrive", "tend"),
    *("reserve", "condemn", "commit", "release", "clock"),
]


class Promises(RuleBasedStateMachine):
    hf: Client  # set by the test
    proxy: Proxy  # it goes through this
    numbers = iter(range(1, 10**9))

    @initialize(
        max_receives=st.integers(1, 3),
        group_limit=st.integers(1, 2),
        ttl=st.sampled_from([None, None, 45]),
        max_length=st.sampled_from([None, 4, 8]),
        drops=st.booleans(),
    )
    def start(
        self,
        max_receives: int,
        group_limit: int,
        ttl: int | None,
        max_length: int | None,
        drops: bool,
    ) -> None:
        self.q: Queue = self.hf.queue(f"model {next(self.numbers)}")
        self.settings: dict[str, Any] = {
            "max_receives": max_receives,
            "group_limit": group_limit,
            "ttl": ttl,
            "lease": LEASE,
            "max_length": max_length,
            "overflow": "drop_oldest" if drops else "reject",
        }
        self.q.configure(**self.settings)
        self.q.set_clock(START)
        self.m = Model(max_receives, group_limit, max_length=max_length or 0, drops=drops)
        self.ttl = ttl
        self.old: list[tuple[Delivery, str]] = []
        # All that was held of each batch when the queue was deleted.
        self.batches: list[list[Delivery]] = []
        self.sent = self.acked = self.removed = 0
        self.committed = self.planned = 0

    def teardown(self) -> None:
        self.proxy.lose(b"", 0)
        if hasattr(self, "q"):
            self.q.delete()

    # ---- what users do ----------------------------------------------------------------------

    @rule(verb=st.sampled_from(VERBS), times=st.integers(1, 2))
    def lose_answers(self, verb: str, times: int) -> None:
        self.proxy.lose(f"hf1_{verb}".encode(), times)

    @rule(
        messages=st.lists(
            st.tuples(
                st.integers(0, 2),
                st.sampled_from(GROUPS),
                st.sampled_from([0, 0, 0, 7, 30]),
                st.sampled_from([None, None, None, 15]),
            ),
            min_size=1,
            max_size=5,
        )
    )
    def send(self, messages: list[tuple[int, str | None, int, int | None]]) -> None:
        sent = [Outgoing(b"x", priority=p, group=g, delay=d, ttl=t) for p, g, d, t in messages]
        over = self.m.too_many(len(sent))
        if over < 0:
            with pytest.raises(QueueFull):
                self.q.send_many(sent)
            return
        ids = self.q.send_many(sent)
        self.give_way(over)
        for i, (p, g, d, t) in zip(ids, messages, strict=True):
            self.stored(i, p, g, d, t)

    @rule(
        name=st.sampled_from(["u", "v"]),
        group=st.sampled_from(GROUPS),
        delay=st.sampled_from([0, 0, 7]),
        ttl=st.sampled_from([None, 15]),
    )
    def ensure(self, name: str, group: str | None, delay: int, ttl: int | None) -> None:
        holder = self.m.holder(name)
        over = self.m.too_many(0 if holder else 1)
        if over < 0:
            with pytest.raises(QueueFull):
                self.q.ensure(name, b"x", group=group, delay=delay, ttl=ttl)
            return
        mid = self.q.ensure(name, b"x", group=group, delay=delay, ttl=ttl)
        assert (mid.duplicate, mid) == (holder is not None, holder or mid)
        if holder is None:
            self.give_way(over)
            self.stored(mid, 0, group, delay, ttl).unique = name
            self.m.names[name] = mid

    def give_way(self, over: int) -> None:
        """So many that were ready and had not expired are gone."""
        if over:
            found = states(self.q)
            gone = [m for m in self.m.live() if m.id not in found]
            assert len(gone) == over, "more or fewer were dropped than had to be"
            for m in gone:
                del self.m.ready[m.id]
            self.m.dropped += over

    def stored(self, i: str, p: int, g: str | None, d: int, t: int | None) -> Known:
        self.sent += 1
        ttl = t or self.ttl
        m = Known(i, p, g, int(i.split("-")[0]) + ttl * 1000 if ttl else None, t, 0)
        if d:
            m.due = self.m.now + d * 1000
            self.m.delayed[i] = m
        else:
            self.m.tail(m)
        return m

    @rule(count=st.integers(1, 6), lease=st.sampled_from([5, LEASE, 60]))
    def receive(self, count: int, lease: int) -> None:
        self.m.catch_up()
        for d in self.q.receive_many(count, lease=lease):
            count -= 1
            m = self.m.ready.get(d.id)
            assert m is not None, f"{d.id} was not ready"
            self.m.check_delivery(m)
            assert d.receives == m.failures + 1
            del self.m.ready[d.id]
            m.delivery, m.until = d, self.m.now + lease * 1000
            self.m.leased[d.id] = m
        if count > 0:
            assert self.m.deliverable() == [], "these could have gone out too"

    def held(self, data: Any) -> Known:
        chosen: Known = data.draw(
            st.sampled_from(sorted(self.m.leased.values(), key=lambda m: m.id))
        )
        return chosen

    @precondition(lambda self: self.m.leased)
    @rule(data=st.data())
    def ack(self, data: Any) -> None:
        m = self.held(data)
        assert m.delivery is not None
        assert self.q.ack(m.delivery if data.draw(st.booleans()) else m.id)
        self.acked += 1
        self.settled(m)

    @precondition(lambda self: self.m.leased)
    @rule(data=st.data(), delay=st.sampled_from([0, 0, 4]))
    def nack(self, data: Any, delay: int) -> None:
        m = self.held(data)
        assert m.delivery is not None
        assert self.q.nack(m.delivery, delay=delay)
        self.settled(m)
        self.m.fail([m], delay * 1000)

    @precondition(lambda self: self.m.leased)
    @rule(data=st.data())
    def release(self, data: Any) -> None:
        m = self.held(data)
        assert m.delivery is not None
        assert self.q.release(m.delivery)
        self.settled(m)
        self.m.head([m])

    @precondition(lambda self: self.m.leased)
    @rule(data=st.data())
    def bury(self, data: Any) -> None:
        m = self.held(data)
        assert m.delivery is not None
        assert self.q.bury(m.delivery, "bad")
        self.settled(m)
        m.failures += 1
        self.m.dead[m.id] = m

    @precondition(lambda self: self.m.leased)
    @rule(
        data=st.data(),
        actions=st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=4),
        delay=st.sampled_from([0, 4]),
    )
    def settle(self, data: Any, actions: list[str], delay: int) -> None:
        """Several at once, each in its own way; one of them perhaps by an old receipt."""
        held = sorted(self.m.leased.values(), key=lambda m: m.id)
        chosen = data.draw(st.permutations(held))[: len(actions)]
        items: list[tuple[Delivery | str, dict[str, Any]]] = []
        for m, action in zip(chosen, actions, strict=False):
            assert m.delivery is not None
            new = changed(m.delivery, b"again", ttl=m.ttl)
            how = {"action": action, "delay_ms": delay * 1000, "envelope": new}
            items.append((m.delivery, how))
        if self.old:
            items.insert(0, (data.draw(st.sampled_from(self.old))[0], {"action": "bury"}))
        assert settle(self.q, *items) == [d for d, _ in items[: len(items) - len(chosen)]]
        at_once = []
        for m, action in zip(chosen, actions, strict=False):
            self.settled(m)
            if action == "ack":
                self.acked += 1
            elif action == "bury":
                m.failures += 1
                self.m.dead[m.id] = m
            else:
                if action == "retry":
                    m.failures = 0
                if delay and action != "release":
                    self.m.hold_back(m, delay * 1000)
                else:
                    at_once.append(m)
        self.m.head(at_once)

    @precondition(lambda self: self.m.leased)
    @rule(data=st.data(), lease=st.sampled_from([0, 1, LEASE, 100]))
    def extend(self, data: Any, lease: int) -> None:
        m = self.held(data)
        assert m.delivery is not None
        assert self.q.extend(m.delivery, lease)
        if lease:
            m.until = self.m.now + lease * 1000
        else:
            self.settled(m)
            self.m.fail([m])

    def settled(self, m: Known) -> None:
        assert m.delivery is not None
        self.old.append((m.delivery, m.id))
        del self.m.leased[m.id]

    @precondition(lambda self: self.old)
    @rule(data=st.data(), how=st.sampled_from(sorted(SETTLE)))
    def use_an_old_receipt(self, data: Any, how: str) -> None:
        delivery, _ = data.draw(st.sampled_from(self.old))
        before = self.q.stats()
        assert SETTLE[how](self.q, [delivery]) == []
        assert self.q.stats() == before

    @precondition(lambda self: self.batches)
    @rule(data=st.data(), how=st.sampled_from(sorted(SETTLE)))
    def use_a_batch_of_a_deleted_queue(self, data: Any, how: str) -> None:
        before = self.q.stats()
        assert SETTLE[how](self.q, data.draw(st.sampled_from(self.batches))) == []
        assert self.q.stats() == before

    @precondition(lambda self: self.m.leased)
    @rule()
    def delete_and_use_again(self) -> None:
        by_batch: dict[int, list[Delivery]] = {}
        for m in self.m.leased.values():
            assert m.delivery is not None
            self.old.append((m.delivery, m.id))
            by_batch.setdefault(m.delivery.batch.number, []).append(m.delivery)
        self.batches += [sorted(held, key=lambda d: d.place) for held in by_batch.values()]
        self.q.delete()
        self.q.configure(**self.settings)
        self.q.set_clock(self.m.now)
        self.m = Model(
            self.m.max_receives,
            self.m.group_limit,
            self.m.now,
            max_length=self.m.max_length,
            drops=self.m.drops,
        )
        self.sent = self.acked = self.removed = 0
        self.committed = self.planned = 0

    @rule(seconds=st.sampled_from([0.001, 1, 4, 5, 10, 19.999, 20, 40]))
    def let_time_pass(self, seconds: float) -> None:
        self.m.now += round(seconds * 1000)
        self.q.set_clock(self.m.now)

    @rule()
    def tend(self) -> None:
        self.m.catch_up()
        self.q.tend()

    @rule(data=st.data())
    def remove(self, data: Any) -> None:
        held = (self.m.ready, self.m.delayed, self.m.leased, self.m.dead)
        everything = sorted(i for state in held for i in state)
        if not everything:
            return
        chosen = data.draw(st.sampled_from(everything))
        there = self.q.remove(chosen)
        ready = self.m.ready.get(chosen)
        assert there or (ready is not None and self.m.is_expired(ready))
        self.removed += there
        for state in held:
            state.pop(chosen, None)

    @precondition(lambda self: self.m.dead)
    @rule(count=st.integers(1, 3))
    def redrive(self, count: int) -> None:
        moved = self.q.redrive(count)
        assert len(moved) == min(count, len(self.m.dead))
        for i in moved:
            m = self.m.dead.pop(i)
            m.failures = 0
            if m.unique and not self.m.holder(m.unique) and not self.m.is_expired(m):
                self.m.names[m.unique] = m.id
            self.m.tail(m)

    @precondition(lambda self: self.m.dead)
    @rule(settle=st.sampled_from(["ack", "nack", "leave"]))
    def receive_dead(self, settle: str) -> None:
        self.m.catch_up()
        for d in self.q.receive_dead(1, lease=5):
            m = self.m.dead.pop(d.id)
            if settle == "ack":
                d.ack()
                self.acked += 1
            elif settle == "nack":
                d.nack()
                self.m.dead[d.id] = m
            else:
                m.until = self.m.now + 5000
                self.m.dead_leased[d.id] = m

    @precondition(lambda self: self.m.leased and not self.m.dead_leased)
    @rule(count=st.integers(1, 2))
    def recover(self, count: int) -> None:
        for d in self.q.recover(count, elapsed=0, lease=LEASE):
            m = self.m.leased.pop(d.id)
            assert m.delivery is not None
            self.old.append((m.delivery, m.id))
            m.failures += 1
            assert d.receives == m.failures + 1
            m.delivery, m.until = d, self.m.now + LEASE * 1000
            self.m.leased[d.id] = m
        for seen in self.q.inspect("dead", 0, ALL):
            if seen.id in self.m.leased:  # past its last try
                m = self.m.leased.pop(seen.id)
                m.failures += 1
                assert m.failures >= self.m.max_receives
                self.m.dead[m.id] = m

    @rule(rows=st.integers(0, 6))
    def reserve(self, rows: int) -> None:
        self.m.catch_up()
        self.planned += 1
        [count] = self.q.reserve("reader", self.planned, [rows])
        assert count <= rows
        assert self.q.reserve("reader", self.planned, [99]) == [count], "it is sealed"
        records = self.q.read_reserved("reader", self.planned, 0, 0, count) if count else []
        taken: list[Known] = []
        for record in records:
            m = self.m.ready[Message(record, 0, "reserved").id]
            if m.group and any(t.group == m.group for t in taken):
                assert self.m.first_of(m.group) is m, "out of order within its group"
                assert not self.m.is_expired(m)
            else:
                self.m.check_delivery(m)
            del self.m.ready[m.id]
            self.m.reserved[m.id] = m
            taken.append(m)
        self.m.reservations.append(taken)
        if count < rows:
            assert self.m.deliverable() == [], "these could have been reserved too"

    @precondition(lambda self: self.m.reserved)
    @rule(data=st.data())
    def condemn(self, data: Any) -> None:
        chosen = data.draw(st.sampled_from(sorted(self.m.reserved)))
        for at, held in enumerate(self.m.reservations):
            if any(m.id == chosen for m in held):
                self.q.condemn("reader", self.committed + at + 1, {chosen: "bad"})
        self.m.condemned.add(chosen)

    @precondition(lambda self: self.m.reservations)
    @rule(data=st.data())
    def commit(self, data: Any) -> None:
        count = data.draw(st.integers(1, len(self.m.reservations)))
        self.committed += count
        self.q.commit("reader", self.committed)
        self.q.commit("reader", self.committed)
        for held in self.m.reservations[:count]:
            for m in held:
                del self.m.reserved[m.id]
                if m.id in self.m.condemned:
                    m.failures += 1
                    self.m.dead[m.id] = m
                else:
                    self.acked += 1
        del self.m.reservations[:count]

    @precondition(lambda self: self.m.reservations)
    @rule()
    def release_reserved(self) -> None:
        self.q.release_reserved("reader", self.planned)
        held = self.m.reservations.pop()
        self.m.head(held)
        for m in held:
            del self.m.reserved[m.id]
            self.m.condemned.discard(m.id)
        # What was given back cannot be had again; the reader starts anew.
        self.m.reservations.append([])

    # ---- what is always true ----------------------------------------------------------------

    @invariant()
    def each_message_is_in_the_state_the_model_says(self) -> None:
        if not hasattr(self, "q"):
            return
        found = states(self.q)
        expected = {
            **{i: ["ready"] for i in self.m.ready},
            **{i: ["delayed"] for i in self.m.delayed},
            **{i: ["leased"] for i in self.m.leased},
            **{i: ["dead"] for i in self.m.dead},
            **{i: ["reserved"] for i in self.m.reserved},
            **{i: ["leased"] for i in self.m.dead_leased},
        }
        # The engine may have noticed already that a message that waits has expired.
        for i in set(expected) - set(found):
            waits = self.m.ready if i in self.m.ready else self.m.delayed
            assert self.m.is_expired(waits[i]), f"{i} is lost"
            del waits[i], expected[i]
            self.m.expired.add(i)
        assert found == expected

    @invariant()
    def the_counts_add_up(self) -> None:
        if not hasattr(self, "q"):
            return
        s = self.q.stats()
        assert (s.ready, s.delayed) == (len(self.m.ready), len(self.m.delayed))
        assert (s.leased, s.dead) == (
            len(self.m.leased) + len(self.m.dead_leased),
            len(self.m.dead),
        )
        assert s.reserved == len(self.m.reserved)
        assert (s.sent, s.acked, s.removed) == (self.sent, self.acked, self.removed)
        assert s.dropped == self.m.dropped
        assert s.sent == s.total + s.acked + s.removed + s.expired + s.dropped

    @invariant()
    def messages_without_a_group_are_shown_in_the_order_they_will_go_out(self) -> None:
        if not hasattr(self, "q"):
            return
        shown = [m.id for m in self.q.inspect("ready", 0, ALL) if m.group is None]
        waiting = sorted(self.m.ready.values(), key=lambda m: (-m.priority, m.place))
        assert shown == [m.id for m in waiting if m.group is None]


@pytest.mark.only("standalone", "packed", reason="the functions are the same everywhere")
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(n, marks=pytest.mark.torture) for n in range(1, 6))]
)
@pytest.mark.slow
@pytest.mark.packed
def test_random_histories_keep_the_promises(hf: Client, setting: Setting, part: int) -> None:
    """Six parts of 20 histories of 50 steps, the same on every run. Each part, on each of the two
    libraries, has its own.

    Shrinking a history can take minutes; ask for it with HOLDFAST_SHRINK=1 once one has failed.
    """
    with (
        proxied(hf.url) as proxy,
        holdfast.connect(proxy.url, check="off") as through,
    ):
        parts = {"hf": through, "proxy": proxy}
        machine = seed(2 * part + (setting.name == "packed"))(
            type(f"Promises{part}", (Promises,), parts)
        )
        stateful.run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=20,
                stateful_step_count=50,
                derandomize=False,
                phases=[
                    Phase.generate,
                    *([Phase.shrink] if os.environ.get("HOLDFAST_SHRINK") else []),
                ],
            ),
        )
