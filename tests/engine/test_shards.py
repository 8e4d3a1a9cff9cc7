from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest

import holdfast
from holdfast import Client, InvalidArgument, Outgoing, Queue
from holdfast.client._sync import receiving
from holdfast.engine import calls
from holdfast.engine.keys import QueueRef
from holdfast.errors import Resharded
from holdfast.message import parse_id, plain_envelope
from tests.clock import Clock
from tests.engine.look import assert_each_in_one_state, bodies, counts, drain, numbered
from tests.raw import Raw

pytestmark = pytest.mark.only(
    "standalone-shards", "cluster-shards", reason="about queues of several shards"
)


def shard_of(message_id: str) -> int:
    return parse_id(message_id)[1]


def test_sends_go_round_and_ids_carry_the_shard(q: Queue, clock: Clock) -> None:
    ids = [q.send(body) for body in numbered(9)]
    assert Counter(map(shard_of, ids)) == {0: 3, 1: 3, 2: 3}
    assert [i.count("-") for i in ids] == [2 if shard_of(i) else 1 for i in ids]
    assert len(set(ids)) == 9
    assert_each_in_one_state(q, ids)
    assert [s.ready for s in q.shard_stats()] == [3, 3, 3]


def test_a_receipt_or_an_id_finds_its_shard_by_itself(hf: Client, q: Queue, clock: Clock) -> None:
    ids = [q.send(body) for body in numbered(6)]
    held = drain(q)
    other = hf.queue(q.name)
    assert other.ack_many([d.receipt for d in held[:3]]) == [d.receipt for d in held[:3]]
    for d in held[3:]:
        found = other.get(d.id)
        assert found is not None
        assert found.state == "leased"
        assert other.nack(d.id)
    for i in {d.id for d in held[3:]} & set(ids):
        assert other.remove(i)
    assert other.stats().total == 0


def test_one_batch_may_ack_in_all_shards(q: Queue, clock: Clock) -> None:
    for body in numbered(9):
        q.send(body)
    held = drain(q)
    assert set(q.ack_many(held)) == set(held)
    assert q.stats().acked == 9


def test_receive_goes_round_and_starves_no_shard(q: Queue, clock: Clock) -> None:
    for _ in range(3):
        q.send_many(numbered(40))
    taken = []
    for _ in range(30):
        got = q.receive()
        assert got is not None
        taken.append(shard_of(got.id))
    assert min(Counter(taken)[s] for s in range(3)) >= 8


def test_a_batch_is_shared_between_the_shards_that_hold_something(q: Queue, clock: Clock) -> None:
    for _ in range(3):
        q.send_many(numbered(40))
    got = q.receive_many(30)
    assert Counter(shard_of(d.id) for d in got) == {0: 10, 1: 10, 2: 10}


def test_order_within_a_shard_is_kept(q: Queue, clock: Clock) -> None:
    sent = [q.send(body) for body in numbered(30)]
    got = [d.id for d in drain(q)]
    for shard in range(3):
        mine = [i for i in sent if shard_of(i) == shard]
        assert [i for i in got if shard_of(i) == shard] == mine


def test_a_receive_costs_one_call_however_many_shards_are_empty(
    q: Queue, clock: Clock, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "_HINTS_LAST", 60.0)
    q.configure(shards=12)
    clock.set(clock.ms)
    q.send_many(numbered(30))
    q.receive()
    before = raw.calls()["fcall"]
    for _ in range(20):
        assert q.receive() is not None
    assert raw.calls()["fcall"] - before == 20


def test_what_was_known_of_shards_does_not_hide_a_message_in_another_one(
    hf: Client, q: Queue, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "_HINTS_LAST", 60.0)
    q.send_many(numbered(2))
    q.receive()  # and knows now that one shard holds more
    assert len(drain(hf.queue(q.name))) == 1  # somebody else takes it
    q.send_many([b"in another shard"])
    got = q.receive()
    assert got is not None
    assert got.body == b"in another shard"


def test_what_was_known_of_a_shard_that_is_gone_is_forgotten(q: Queue) -> None:
    ids = [q.send(body) for body in numbered(6)]
    assert {shard_of(i) for i in ids} == {0, 1, 2}
    q.ack_many(q.receive_many(3))
    assert q._full == [0, 1, 2]
    q.purge()
    q.configure(shards=2)
    assert q.receive() is None


def test_a_group_and_a_dedup_id_have_one_shard(q: Queue, clock: Clock) -> None:
    ids = [q.send(b"x", group="g") for _ in range(6)]
    assert len(set(map(shard_of, ids))) == 1
    assert len({q.send(b"x", dedup_id="d") for _ in range(6)}) == 1
    assert len({q.ensure("u", b"x") for _ in range(6)}) == 1


def test_the_number_of_shards_can_grow_while_messages_are_there(
    hf: Client, q: Queue, clock: Clock
) -> None:
    other = hf.queue(q.name)
    ids = [q.send(body) for body in numbered(6)]
    other.stats()  # knows three shards
    assert q.configure(shards=5).shards == 5
    clock.set(clock.ms)
    assert len(q.refs()) == 5
    ids += [q.send(body) for body in numbered(10)]
    assert set(map(shard_of, ids)) == {0, 1, 2, 3, 4}
    other.send(b"x")  # the answer tells how many there are
    assert len(other.refs()) == 5
    assert len(drain(other)) == 17


def test_new_shards_have_the_queues_settings(q: Queue, clock: Clock) -> None:
    q.configure(lease=77)
    q.configure(shards=6)
    clock.set(clock.ms)
    for _ in range(6):
        q.send(b"x")
    assert {d.lease_until for d in drain(q)} == {clock.at(77)}


@pytest.mark.parametrize("state", ["ready", "delayed", "leased", "dead"])
def test_a_shard_that_holds_messages_is_not_given_up(q: Queue, clock: Clock, state: str) -> None:
    while shard_of(q.send(b"x", delay=60 if state == "delayed" else 0)) != 2:
        pass
    if state in ("leased", "dead"):
        held = drain(q, lease=None)
        if state == "dead":
            q.bury_many(held, "bad")
    with pytest.raises(InvalidArgument) as refused:
        q.configure(shards=2)
    assert str(refused.value) == (
        f"cannot shrink {q.name!r} to 2 shards: shard 2 holds messages; "
        "let consumers empty it, or purge, and try again"
    )
    assert q.settings().shards == 3
    q.purge()
    assert q.configure(shards=2).shards == 2
    assert {shard_of(q.send(b"x")) for _ in range(4)} == {0, 1}


def test_a_queue_of_one_shard_can_become_one_of_many(hf: Client, q: Queue) -> None:
    queue = hf.queue(q.name + " grows")
    clock = Clock(queue)
    old = queue.send_many(numbered(3))
    queue.configure(shards=4)
    clock.set(clock.ms)
    new = [queue.send(body) for body in numbered(4)]
    assert_each_in_one_state(queue, [*old, *new])
    assert sorted(bodies(drain(queue))) == sorted(numbered(3) + numbered(4))


def test_every_verb_reaches_all_shards(q: Queue, clock: Clock) -> None:
    for _ in range(6):
        q.send(b"x", delay=5)
    clock.advance(5)
    q.tend()
    assert counts(q) == (6, 0, 0, 0)
    q.pause()
    assert drain(q) == []
    q.resume()
    held = drain(q, lease=None)
    assert len(held) == 6
    assert len(q.recover(6, elapsed=0, lease=None)) == 6
    assert len(q.inspect("leased", 0, 10)) == 6
    assert bodies(q.inspect("leased", -1, 10)) == [b"x"]
    q.bury_many([d.id for d in held], "bad")
    assert len(q.receive_dead(6, lease=None)) == 6
    q.release_many([d.id for d in held])
    assert len(q.redrive(5)) == 5
    assert q.purge() == 6


def test_messages_in_several_shards_carry_their_priorities(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b"%d" % p, priority=p) for p in (1, 9, 5)])
    assert bodies(drain(q)) == [b"9", b"5", b"1"]


@pytest.fixture
def stale(hf: Client, q: Queue) -> Iterator[Queue]:
    """The queue as another client knows it, which is not told of what happens from now on."""
    with holdfast.connect(hf.url, check="off") as other:
        stale = other.queue(q.name)
        stale.stats()
        yield stale


def all_bodies(hf: Client, q: Queue) -> list[bytes]:
    """What somebody gets who knows nothing yet."""
    with holdfast.connect(hf.url, check="off") as fresh:
        queue = fresh.queue(q.name)
        got: list[bytes] = []
        while part := queue.receive_many(100):
            got += bodies(part)
        return sorted(got)


def test_what_is_sent_to_a_shard_that_was_given_up_goes_to_another(
    hf: Client, q: Queue, stale: Queue
) -> None:
    q.configure(shards=1)
    for body in numbered(4):
        stale.send(body)
    assert all_bodies(hf, q) == numbered(4)


def test_a_batch_sent_to_shards_that_were_given_up_goes_to_others(
    hf: Client, q: Queue, stale: Queue
) -> None:
    q.configure(shards=2)
    sent = [Outgoing(body, group=body.decode()) for body in numbered(30)]
    ids = stale.send_many(sent)
    assert {shard_of(i) for i in ids} == {0, 1}
    assert all_bodies(hf, q) == sorted(numbered(30))
    assert len(stale.refs()) == 2


async def test_sends_that_travel_together_do_too(hf: Client, q: Queue) -> None:
    async with holdfast.connect_async(hf.url, check="off") as other:
        stale = other.queue(q.name)
        await stale.stats()
        q.configure(shards=1)
        sends = [stale.send(b, group=b.decode()) for b in numbered(30)]
        ids = await asyncio.gather(*sends)
    assert {shard_of(i) for i in ids} == {0}
    assert all_bodies(hf, q) == sorted(numbered(30))


def test_a_queue_that_was_deleted_has_no_shards_but_the_first(
    hf: Client, q: Queue, stale: Queue
) -> None:
    q.delete()
    stale.receive(wait=0.01)
    for body in numbered(4):
        stale.send(body)
    assert all_bodies(hf, q) == numbered(4)


def test_delete_reaches_shards_that_others_have_added(hf: Client, q: Queue, stale: Queue) -> None:
    q.configure(shards=5)
    ids = [q.send(body) for body in numbered(10)]
    assert max(map(shard_of, ids)) == 4
    stale.delete()
    q.configure(shards=5)
    assert all_bodies(hf, q) == []


def test_who_does_not_know_of_new_shards_purges_and_pauses_them_too(
    hf: Client, q: Queue, stale: Queue
) -> None:
    q.configure(shards=5)
    for body in numbered(10):
        q.send(body)
    stale.pause()
    assert all_bodies(hf, q) == []
    assert stale.purge() == 10


def test_a_shard_that_was_given_up_and_comes_back_takes_messages(hf: Client, q: Queue) -> None:
    q.configure(shards=1)
    q.configure(shards=3)
    ids = [q.send(body) for body in numbered(9)]
    assert Counter(map(shard_of, ids)) == {0: 3, 1: 3, 2: 3}
    assert all_bodies(hf, q) == numbered(9)


def test_so_it_does_after_the_queue_was_deleted_in_between(hf: Client, q: Queue) -> None:
    q.configure(shards=1)
    q.delete()
    q.configure(shards=3)
    assert {shard_of(q.send(body)) for body in numbered(9)} == {0, 1, 2}


def test_who_cannot_give_a_shard_up_leaves_it_open(hf: Client, q: Queue, clock: Clock) -> None:
    q.configure(lease=7)
    ids = [q.send(body) for body in numbered(9)]
    with pytest.raises(InvalidArgument, match="cannot shrink"):
        q.configure(shards=1)
    ids += [q.send(body) for body in numbered(9, 10)]
    assert Counter(map(shard_of, ids)) == {0: 6, 1: 6, 2: 6}
    assert [q.settings().shards, q.settings().lease] == [3, 7]


def test_an_earlier_change_never_overwrites_a_later_one(hf: Client, q: Queue) -> None:
    """Two who change the number of shards at the same time, one of them slow."""
    run, first = q.transport.run, q.refs()[0]
    slow = run(calls.configure(first, {"edition": 0})).own | {"shards": 1}
    q.configure(shards=4)
    for shard in (1, 2):
        run(calls.configure(QueueRef(q.name, shard), slow))
    assert run(calls.configure(first, slow)).settings.shards == 4
    assert {shard_of(q.send(body)) for body in numbered(8)} == {0, 1, 2, 3}


def test_a_change_that_stopped_half_way_loses_nothing(hf: Client, q: Queue) -> None:
    """It told the last shard that it goes, and died."""
    begun = q.transport.run(calls.configure(q.refs()[0], {"edition": 0})).own
    q.transport.run(calls.configure(q.refs()[2], begun | {"shards": 2}))
    for body in numbered(9):
        q.send(body)
    assert all_bodies(hf, q) == numbered(9)
    q.purge()
    q.configure(shards=3)
    assert {shard_of(q.send(body)) for body in numbered(9)} == {0, 1, 2}


def test_clients_of_earlier_releases_hear_of_it_as_an_error(q: Queue) -> None:
    q.configure(shards=1)
    gone = QueueRef(q.name, 2)
    for call in (
        calls.send_one(gone, plain_envelope(b"x"), "anne", 1),
        calls.send_plain(gone, [b"x"], "anne", 2),
    ):
        with pytest.raises(Resharded, match="1 is how many shards the queue has") as told:
            q.transport.run(call)
        assert told.value.shards == 1
    assert q.transport.run(calls.stats(gone)).total == 0


def test_a_repeated_send_is_answered_by_the_shard_that_knows_it(q: Queue) -> None:
    """Also when that shard has been given up since: it is not sent a second time."""
    call = calls.send_one(q.refs()[2], plain_envelope(b"x"), "anne", 1)
    sent = q.transport.run(call)
    drained = drain(q)
    q.ack_many(drained)
    q.configure(shards=1)
    assert q.transport.run(call.again()) == sent._replace(shards=3)
