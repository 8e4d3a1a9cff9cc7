"""Reservations: batches with a name that a reader may ask for again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast import (
    Filter,
    InvalidArgument,
    Message,
    Outgoing,
    Queue,
    ReservationLost,
    Subscription,
    Topic,
)
from tests.clock import Clock
from tests.engine.look import assert_each_in_one_state, bodies, drain, numbered
from tests.raw import Raw

ME = "reader"


def rows(q: Queue | Subscription, most: int = 10**6) -> list[int]:
    """So many of each shard."""
    return [most] * len(q.refs())


def read(q: Queue | Subscription, seq: int, counts: list[int]) -> list[Message]:
    return [
        Message(record, shard, "reserved")
        for shard, count in enumerate(counts)
        if count
        for record in q.read_reserved(ME, seq, shard, 0, count)
    ]


def test_a_reservation_holds_messages_until_it_is_committed(q: Queue, clock: Clock) -> None:
    ids = q.send_many(numbered(30))
    counts = q.reserve(ME, 1, rows(q))
    assert sum(counts) == 30
    assert sorted(bodies(read(q, 1, counts))) == sorted(numbered(30))
    assert_each_in_one_state(q, ids)
    assert drain(q) == []
    assert q.commit(ME, 1, len(counts)) == 30
    assert q.stats().total == 0
    assert (q.stats().received, q.stats().acked) == (30, 30)


def test_asking_again_gives_the_same_messages_whatever_is_said_now(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(30))
    counts = q.reserve(ME, 1, rows(q, 5))
    first = [m.id for m in read(q, 1, counts)]
    q.send_many(numbered(30))
    assert q.reserve(ME, 1, rows(q, 50)) == counts
    assert [m.id for m in read(q, 1, counts)] == first


def test_more_messages_than_one_call_moves_stay_in_order(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(13_000))
    q.send_many([Outgoing(b, priority=5) for b in numbered(10, start=20_000)])
    counts = q.reserve(ME, 1, rows(q, 12_000))
    found = read(q, 1, counts)
    assert len(found) == sum(counts) <= 12_000 * len(counts)
    assert len({m.id for m in found}) == len(found)
    for shard in range(len(counts)):
        mine = [m for m in found if m.shard == shard]
        assert mine == sorted(mine, key=lambda m: (-m.priority, int(m.body)))


def test_a_reservation_of_nothing_is_one_too(q: Queue, clock: Clock) -> None:
    assert sum(q.reserve(ME, 1, rows(q))) == 0
    q.send_many(numbered(3))
    assert sum(q.reserve(ME, 1, rows(q))) == 0, "it was sealed empty"
    assert q.commit(ME, 1, len(rows(q))) == 0
    assert sum(q.reserve(ME, 2, rows(q))) == 3


def test_two_readers_share_a_queue(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(20))
    mine = sum(q.reserve("a", 1, rows(q, 3)))
    theirs = sum(q.reserve("b", 1, rows(q)))
    assert mine + theirs == 20
    q.commit("a", 1, len(rows(q)))
    assert q.stats().reserved == theirs


def test_commit_settles_all_up_to_one_and_can_be_repeated(q: Queue, clock: Clock) -> None:
    n = len(rows(q))
    for seq in (1, 2, 3):
        q.send_many(numbered(10))
        q.reserve(ME, seq, rows(q))
    assert q.commit(ME, 2, n) == 20
    assert q.commit(ME, 2, n) == 0
    assert q.stats().reserved == 10


def test_a_commit_before_the_last_one_is_of_a_reader_that_was_set_back(
    q: Queue, clock: Clock
) -> None:
    n = len(rows(q))
    for seq in (1, 2):
        q.send_many(numbered(10))
        q.reserve(ME, seq, rows(q))
    q.commit(ME, 2, n)
    with pytest.raises(ReservationLost, match=r"reader/1 is committed already, up to 2"):
        q.commit(ME, 1, n)
    assert q.commit(ME, 1, n, adopt=True) == 0


def test_a_reader_that_starts_from_an_older_place_is_told_so(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(10))
    q.reserve(ME, 1, rows(q, 1))
    q.commit(ME, 1, len(rows(q)))
    before = q.stats()
    with pytest.raises(ReservationLost, match=r"reader/1 is committed already, up to 1"):
        q.reserve(ME, 1, rows(q))
    assert q.stats() == before


def test_a_reader_that_leaves_one_out_is_told_so(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(10))
    with pytest.raises(ReservationLost, match="does not remember the ones between"):
        q.reserve(ME, 2, rows(q))
    assert q.stats().reserved == 0
    assert sum(q.reserve(ME, 2, rows(q), adopt=True)) == 10


def test_what_was_never_read_cannot_be_committed(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(10))
    with pytest.raises(ReservationLost, match="was never read, and yet is said to be done with"):
        q.commit(ME, 1)
    assert q.commit(ME, 1, adopt=True) == 0
    assert q.stats().ready == 10


def test_a_released_reservation_goes_back_in_order_and_never_comes_again(
    q: Queue, clock: Clock
) -> None:
    ids = q.send_many(numbered(2_500))
    counts = q.reserve(ME, 1, rows(q, 1_200))
    before = q.inspect("ready", 0, 5_000)
    assert q.release_reserved(ME, 1) == sum(counts)
    assert_each_in_one_state(q, ids)
    assert len(q.inspect("ready", 0, 5_000)) == len(before) + sum(counts)
    for shard in range(len(counts)):
        mine = [int(d.body) for d in q.inspect("ready", 0, 5_000) if d.shard == shard]
        assert mine == sorted(mine)
    with pytest.raises(ReservationLost, match="was given back"):
        q.reserve(ME, 1, rows(q))
    assert q.commit(ME, 1, len(counts)) == 0, "there is nothing left to ack"
    assert sum(q.reserve(ME, 2, rows(q))) == 2_500


def test_all_that_a_reader_has_is_released_at_once(q: Queue, clock: Clock) -> None:
    for seq in (1, 2):
        q.send_many(numbered(5))
        q.reserve(ME, seq, rows(q))
    q.send_many(numbered(5))
    q.reserve("other", 1, rows(q))
    assert q.release_reserved(ME) == 10
    assert q.release_reserved(ME) == 0
    assert {r.owner for r in q.reservations() if r.rows} == {"other"}


def test_reading_what_is_not_there_is_an_error_and_never_a_shorter_answer(
    q: Queue, clock: Clock
) -> None:
    q.send_many(numbered(10))
    counts = q.reserve(ME, 1, rows(q))
    with pytest.raises(ReservationLost, match=f"{counts[0]} messages at 0 where 99"):
        q.read_reserved(ME, 1, 0, 0, 99)
    q.commit(ME, 1, len(counts))
    with pytest.raises(ReservationLost, match="0 messages at 0 where 1"):
        q.read_reserved(ME, 1, 0, 0, 1)


def test_condemned_messages_die_when_the_rest_is_acked(q: Queue, clock: Clock) -> None:
    ids = q.send_many(numbered(30))
    counts = q.reserve(ME, 1, rows(q))
    reasons: dict[str, str] = {ids[3]: "not a number", ids[7]: "not a number", ids[8]: "too old"}
    assert q.condemn(ME, 1, reasons) == 3
    assert q.condemn(ME, 1, reasons) == 0
    assert len(read(q, 1, counts)) == 30, "the reservation stays as it is"
    assert q.commit(ME, 1, len(counts)) == 30
    dead = {m.id: m for m in q.inspect("dead", 0, 10)}
    assert {i: m.death.reason for i, m in dead.items() if m.death} == reasons
    assert {m.receives for m in dead.values()} == {1}
    assert q.stats().acked == 27
    with pytest.raises(ReservationLost, match="is not there"):
        q.condemn(ME, 1, {ids[0]: "late"})


def test_a_condemned_message_that_is_released_is_ready_again(q: Queue, clock: Clock) -> None:
    ids = q.send_many(numbered(5))
    q.reserve(ME, 1, rows(q))
    q.condemn(ME, 1, {ids[0]: "bad"})
    q.release_reserved(ME)
    assert (q.stats().ready, q.stats().dead) == (5, 0)


def test_a_reservation_with_a_ttl_goes_back_by_itself(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(2_500))
    counts = q.reserve(ME, 1, rows(q), ttl=30)
    assert {(r.ends - r.since).total_seconds() for r in q.reservations() if r.ends} == {30}
    clock.advance(29.999)
    assert drain(q) == []
    clock.advance(0.001)
    for _ in range(5):
        q.tend()
    assert q.stats().ready == sum(counts)
    with pytest.raises(ReservationLost, match="was given back"):
        q.reserve(ME, 1, rows(q))


def test_without_a_ttl_it_never_does(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(5))
    q.reserve(ME, 1, rows(q))
    clock.advance(10**8)
    assert drain(q) == []
    assert q.recover(10, elapsed=0) == []
    assert q.stats().reserved == 5


def test_a_paused_queue_reserves_nothing(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(5))
    q.pause()
    assert sum(q.reserve(ME, 1, rows(q))) == 0


def test_delayed_messages_are_reserved_once_they_are_due(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b, delay=10) for b in numbered(5)])
    assert sum(q.reserve(ME, 1, rows(q))) == 0
    clock.advance(10)
    assert sum(q.reserve(ME, 2, rows(q))) == 5


def test_expired_messages_are_not_reserved(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b, ttl=5 if n % 2 else None) for n, b in enumerate(numbered(10))])
    clock.advance(5)
    counts = q.reserve(ME, 1, rows(q))
    assert sum(counts) == 5
    assert q.stats().expired == 5


def test_a_reservation_takes_a_group_whole_and_nobody_else_has_of_it(
    q: Queue, clock: Clock
) -> None:
    q.send_many([Outgoing(b, group=f"g{n % 3}") for n, b in enumerate(numbered(30))])
    counts = q.reserve(ME, 1, rows(q, 20))
    found = read(q, 1, counts)
    assert len(found) == sum(counts) >= min(20, 30)
    for group in ("g0", "g1", "g2"):
        mine = [int(m.body) for m in found if m.group == group]
        assert mine == sorted(mine)
    held = {m.group for m in found}
    assert not [d for d in drain(q, lease=60) if d.group in held]


def test_a_committed_group_goes_on_where_it_stopped(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b, group="g") for b in numbered(10)])
    counts = q.reserve(ME, 1, rows(q, 4))
    q.commit(ME, 1, len(counts))
    got = []
    while d := q.receive():
        got.append(int(d.body))
        d.ack()
    assert got == list(range(5, 11))
    assert q.stats().groups == 0


def test_a_released_group_comes_again_in_order_one_at_a_time(q: Queue, clock: Clock) -> None:
    q.send_many([Outgoing(b, group="g") for b in numbered(10)])
    q.reserve(ME, 1, rows(q, 4))
    q.release_reserved(ME)
    got = []
    while len(held := q.receive_many(5)) == 1:
        got.append(int(held[0].body))
        held[0].ack()
    assert held == []
    assert got == list(range(1, 11))


def test_places_beyond_one_are_given_back_too(q: Queue, clock: Clock) -> None:
    q.configure(group_limit=2)
    q.send_many([Outgoing(b, group="g") for b in numbered(10)])
    counts = q.reserve(ME, 1, rows(q, 4))
    q.commit(ME, 1, len(counts))
    assert len(q.receive_many(10, lease=60)) == 2


def test_unique_names_are_free_again_after_the_commit(q: Queue, clock: Clock) -> None:
    first = q.ensure("once", b"x")
    counts = q.reserve(ME, 1, rows(q))
    assert q.ensure("once", b"x") == first
    q.commit(ME, 1, len(counts))
    assert q.ensure("once", b"x") != first


def test_the_journal_tells_of_reservations_as_of_deliveries(q: Queue, clock: Clock) -> None:
    q.configure(journal=True)
    ids = q.send_many(numbered(3))
    counts = q.reserve(ME, 1, rows(q))
    q.condemn(ME, 1, {ids[0]: "bad"})
    q.commit(ME, 1, len(counts))
    q.send(b"4")
    q.reserve(ME, 2, rows(q))
    q.release_reserved(ME)
    told = [(e.kind, e.reason) for e in q.journal() if e.kind != "sent"]
    assert sorted(told) == sorted(
        [
            *[("received", "reserved")] * 4,
            *[("acked", "")] * 2,
            ("dead", "bad"),
            ("requeued", "the reservation was released"),
        ]
    )


def test_the_list_says_who_holds_what(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(10))
    counts = q.reserve("archive", 1, rows(q))
    held = q.reservations()
    assert [(r.owner, r.seq, r.shard, r.rows, r.sealed, r.ends) for r in held] == [
        ("archive", 1, shard, n, True, None) for shard, n in enumerate(counts)
    ]
    assert [(r.owner, r.committed, r.planned) for r in q.readers()] == [("archive", 0, 1)]
    q.commit("archive", 1, len(counts))
    assert q.reservations() == []
    assert [(r.owner, r.committed, r.planned) for r in q.readers()] == [("archive", 1, 1)]


def test_a_reader_not_heard_of_for_long_is_forgotten(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(3))
    n = len(q.reserve("old", 1, rows(q)))
    q.commit("old", 1, n)
    q.reserve("holds", 1, rows(q))
    clock.advance(91 * 24 * 3600)
    q.reserve("new", 1, rows(q))
    assert [r.owner for r in q.readers()] == ["holds", "new"]


def test_a_reserved_message_is_found_by_its_id_and_not_removed(q: Queue, clock: Clock) -> None:
    ids = q.send_many(numbered(5))
    q.reserve(ME, 1, rows(q))
    found = q.get(ids[2])
    assert found is not None
    assert (found.state, found.body) == ("reserved", b"3")
    assert not q.remove(ids[2])
    assert not q.ack(ids[2])
    assert q.stats().reserved == 5


def test_purge_takes_reserved_messages_away(q: Queue, clock: Clock) -> None:
    q.send_many(numbered(2_500))
    q.send_many([Outgoing(b, group="g") for b in numbered(5)])
    q.reserve(ME, 1, rows(q, 2_000))
    reserved = q.stats().reserved
    assert q.purge("reserved") == reserved
    assert q.reservations() == []
    assert q.purge() == 2_505 - reserved
    assert q.stats().groups == 0


def test_a_queue_with_reservations_can_be_deleted(q: Queue, clock: Clock, raw: Raw) -> None:
    q.send_many(numbered(10))
    q.reserve(ME, 1, rows(q, 2))
    q.condemn(ME, 1, {q.inspect("reserved", 0, 1)[0].id: "bad"})
    q.delete()
    assert raw.keys(q) == set()


def test_committed_reservations_leave_no_key_but_their_readers_place(
    q: Queue, clock: Clock, raw: Raw
) -> None:
    q.send_many([Outgoing(b, group="g" if n % 2 else None) for n, b in enumerate(numbered(20))])
    counts = q.reserve(ME, 1, rows(q))
    q.condemn(ME, 1, {q.inspect("reserved", 0, 1)[0].id: "bad"})
    q.commit(ME, 1, len(counts))
    q.purge("dead")
    kept = {key.rpartition(":")[2] for key in raw.keys(q) if not key.endswith("}")}
    assert kept == {"h"}


def test_a_queue_that_grew_is_read_on_with_its_new_shards(
    new_queue: Callable[[], Queue], clock: Clock
) -> None:
    q = new_queue()
    before = len(q.refs())
    q.send_many(numbered(10))
    q.reserve(ME, 1, rows(q))
    q.commit(ME, 1, before)
    q.configure(shards=before + 1)
    q.send_many(numbered(50))
    counts = q.reserve(ME, 2, rows(q), known=before)
    assert (len(counts), sum(counts)) == (before + 1, 50)
    assert q.commit(ME, 2, before + 1) == 50


@pytest.mark.parametrize("owner", ["", "a/b", "x" * 201, "tab\there"])
def test_bad_owners_are_refused(q: Queue, owner: str) -> None:
    with pytest.raises(InvalidArgument):
        q.reserve(owner, 1, [1])


def test_subscriptions_reserve_with_the_bodies_that_lie_at_the_topic(
    topic: Topic, topic_clock: Clock
) -> None:
    first, second = (
        topic.subscribe("a"),
        topic.subscribe("b", filter=Filter.from_json('{"all": []}')),
    )
    topic.publish_many(numbered(1_500))
    counts = first.reserve(ME, 1, [10_000])
    found = read(first, 1, counts)
    assert bodies(found) == numbered(1_500)
    first.commit(ME, 1)
    assert bodies(drain(second)) == numbered(1_500), "the other still has its own"


def test_unsubscribing_gives_reserved_messages_to_whoever_comes_next(
    topic: Topic, topic_clock: Clock
) -> None:
    first = topic.subscribe("a")
    topic.publish_many(numbered(20))
    first.reserve(ME, 1, [10])
    topic.unsubscribe("a")
    assert bodies(drain(topic.subscribe("b"))) == numbered(20)
