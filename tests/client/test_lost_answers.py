"""A call whose answer was lost: repeated where that is safe, reported where it is not."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Iterator

import pytest

import holdfast
from holdfast import AnswerLost, Client, Delivery, Outgoing, Queue, Unavailable
from holdfast.client._sync import transport
from holdfast.engine import calls, tasks
from holdfast.engine.keys import LimitRef, QueueRef
from holdfast.engine.tasks import Settlement
from holdfast.message import plain_envelope
from tests.client.proxy import Proxy, proxied
from tests.servers import wait_until


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    with proxied(url) as proxy:
        yield proxy


@pytest.fixture
def hf(proxy: Proxy) -> Iterator[Client]:
    with holdfast.connect(proxy.url) as client:
        yield client


@pytest.fixture
def q(hf: Client) -> Queue:
    return hf.queue(f"lost-{secrets.token_hex(4)}")


def test_a_send_whose_answer_was_lost_is_sent_once(proxy: Proxy, q: Queue) -> None:
    q.send(b"first")
    proxy.lose(b"hf1_send", times=3)
    mid = q.send(b"second")
    assert proxy.lost == 3
    assert q.stats().sent == 2
    assert [m.id for m in q.inspect("ready")][-1] == mid


def test_a_batch_whose_answer_was_lost_is_sent_once_and_its_ids_are_right(
    proxy: Proxy, q: Queue
) -> None:
    proxy.lose(b"hf1_send")
    ids = q.send_many([b"a", Outgoing(b"b", dedup_id="x"), Outgoing(b"c", dedup_id="x")])
    assert proxy.lost == 1
    assert q.stats().sent == 2
    assert ids[1] == ids[2]
    assert [i.duplicate for i in ids] == [False, False, True]
    assert [m.id for m in q.inspect("ready")] == ids[:2]


def test_ensure_whose_answer_was_lost_still_says_that_it_sent(proxy: Proxy, q: Queue) -> None:
    proxy.lose(b"hf1_send")
    assert not q.ensure("once", b"x").duplicate
    assert q.stats().sent == 1


SETTLING: dict[str, tuple[str, Callable[[Delivery], None]]] = {
    "ack": ("ack", lambda d: d.ack()),
    "nack": ("nack", lambda d: d.nack(delay=60)),
    "release": ("nack", lambda d: d.release()),
    "bury": ("nack", lambda d: d.bury("bad")),
    "extend": ("extend", lambda d: d.extend(60)),
}


@pytest.mark.parametrize("how", SETTLING)
def test_a_delivery_settled_by_a_call_whose_answer_was_lost_is_no_lost_lease(
    proxy: Proxy, q: Queue, how: str
) -> None:
    """LeaseLost would say that somebody else has it; it was ourselves."""
    verb, settle = SETTLING[how]
    q.send_many([b"a", b"b"])
    for d in q.receive_many(2):
        proxy.lose(f"hf1_{verb}".encode(), times=2)
        settle(d)
    assert proxy.lost == 4
    stats = q.stats()
    done = {"ack": stats.acked, "bury": stats.buried, "extend": stats.extended}
    assert done.get(how, stats.requeued) == 2


def test_a_whole_batch_acked_by_a_call_whose_answer_was_lost_counts_as_acked(
    proxy: Proxy, q: Queue
) -> None:
    q.send_many([b"x"] * 20)
    held = q.receive_many(20)
    proxy.lose(b"hf1_ack")
    assert q.ack_many(held) == held
    assert q.stats().acked == 20


def test_several_acks_that_travel_together_and_are_lost_count_as_acked(
    proxy: Proxy, q: Queue
) -> None:
    q.send_many([b"x"] * 9)
    batches = [q.receive_many(3)[0].batch for _ in range(3)]
    proxy.lose(b"hf1_ack")
    assert q.ack_batches(batches) == [[], [], []]
    assert q.stats().acked == 9


def test_a_worker_learns_that_a_lost_call_settled_its_tasks(proxy: Proxy, hf: Client) -> None:
    q = hf.queue(f"lost-{secrets.token_hex(4)}")
    q.send_many([b"a", b"b"])
    settlements = [Settlement(d.wire, "bury", reason="bad") for d in q.receive_many(2)]
    proxy.lose(b"hf1_settle")
    assert hf.transport.run(tasks.settle(q.refs()[0], settlements)) == []
    assert q.stats().dead == 2


def test_settling_that_was_given_up_and_is_run_once_more_is_the_same_call(
    proxy: Proxy, url: str
) -> None:
    """As a worker does, which never gives up: the server had done it before it went away."""
    with holdfast.connect(proxy.url, retry_for=0) as client:
        q = client.queue(f"lost-{secrets.token_hex(4)}")
        q.send(b"x")
        d = q.receive()
        assert d is not None
        call = calls.ack(q.refs()[0], [d.wire])
        proxy.lose(b"hf1_ack")
        with pytest.raises(Unavailable):
            client.transport.run_many([call])
        assert client.transport.run_many([call]) == [[]]


@pytest.mark.parametrize("state", ["delayed", "dead", "leased", "ready"])
def test_a_message_removed_by_a_call_whose_answer_was_lost_was_there(
    proxy: Proxy, q: Queue, state: str
) -> None:
    mid = q.send(b"x", delay=60 if state == "delayed" else None)
    if state in ("dead", "leased"):
        d = q.receive()
        assert d is not None
        if state == "dead":
            d.bury("bad")
    proxy.lose(b"hf1_find" if state == "ready" else b"hf1_remove")
    assert q.remove(mid)
    assert proxy.lost == 1
    assert q.stats().total == 0


def test_rescheduling_to_now_and_not_hearing_of_it_is_still_done(proxy: Proxy, q: Queue) -> None:
    mid = q.send(b"x", delay=60)
    proxy.lose(b"hf1_reschedule")
    assert q.reschedule(mid, delay=0)


def test_what_was_purged_is_counted_though_the_answer_was_lost(proxy: Proxy, q: Queue) -> None:
    q.send_many([b"x"] * 5)
    proxy.lose(b"hf1_purge")
    assert q.purge("ready") == 5


def test_what_a_lost_receive_took_comes_back_when_its_lease_ends(proxy: Proxy, q: Queue) -> None:
    q.configure(lease=0.3)
    q.send(b"x")
    proxy.lose(b"hf1_receive")
    d = q.receive(wait=20)
    assert d is not None
    assert d.receives == 2


def test_a_redrive_whose_answer_was_lost_moves_no_more_than_was_asked_for(
    proxy: Proxy, q: Queue
) -> None:
    q.send_many([b"a", b"b"])
    q.bury_many(q.receive_many(2), "bad")
    proxy.lose(b"hf1_redrive")
    assert len(q.redrive(1)) == 1
    assert q.stats().redriven == 1


def test_what_must_not_be_repeated_is_not_when_its_answer_was_lost(
    proxy: Proxy, hf: Client
) -> None:
    limit = LimitRef(f"lost-{secrets.token_hex(4)}")
    assert hf.transport.run(tasks.permit_rate(limit, 10, 60, 10)).granted == 10
    proxy.lose(b"hf1_permit")
    with pytest.raises(AnswerLost, match=f"the answer to permit on '{limit.name}' was lost") as no:
        hf.transport.run(tasks.unpermit_rate(limit, 10, 60, 4))
    assert "look at stats or inspect to see whether it was done" in str(no.value)
    assert hf.transport.run(tasks.permit_rate(limit, 10, 60, 10)).granted == 4


def test_a_redrive_over_connections_that_died_meanwhile_is_simply_done(
    proxy: Proxy, q: Queue
) -> None:
    q.send_many([b"a", b"b"])
    q.bury_many(q.receive_many(2), "bad")
    proxy.cut()
    assert len(q.redrive()) == 2


def test_a_consumer_does_not_notice_cut_connections(proxy: Proxy, q: Queue) -> None:
    q.send_many([b"%d" % i for i in range(300)])
    seen: list[bytes] = []
    for d in q.consume(prefetch=50, lease=30, idle=0.3):
        with d:
            seen.append(d.body)
            if len(seen) % 70 == 0:
                proxy.cut()
    assert sorted(set(seen), key=int) == [b"%d" % i for i in range(300)]
    assert q.stats().total == 0


@pytest.mark.slow
def test_acks_that_an_outage_kept_from_going_go_when_it_is_over(
    proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    with holdfast.connect(proxy.url, retry_for=0.1) as client:
        q = client.queue(f"lost-{secrets.token_hex(4)}")
        q.send_many([b"before", b"after"])
        for d in q.consume(lease=60, idle=0.3):
            with d:
                if d.body == b"before":
                    proxy.break_off()
                else:
                    wait_until(lambda: "acking on" in caplog.text, what="an ack that failed")
                    proxy.mend()
        stats = q.stats()
    assert (stats.total, stats.acked, stats.requeued) == (0, 2, 0)


@pytest.fixture
def short_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the server remembered for a moment only, so that nobody has to wait for a minute to be over."""
    monkeypatch.setattr(transport, "_REMEMBERED", 0.5)


@pytest.mark.slow
def test_a_send_is_not_repeated_when_the_server_may_have_forgotten_it(
    proxy: Proxy, short_memory: None
) -> None:
    with holdfast.connect(proxy.url, retry_for=20, timeout=0.2) as client:
        q = client.queue(f"lost-{secrets.token_hex(4)}")
        q.send(b"first")
        proxy.lose(b"hf1_send", times=1000)
        with pytest.raises(AnswerLost, match="it is not safe to repeat any more"):
            q.send(b"second")
        proxy.lose(b"")
        assert q.stats().sent == 2


@pytest.mark.slow
def test_nor_when_it_could_not_be_reached_since(proxy: Proxy, short_memory: None) -> None:
    with holdfast.connect(proxy.url, retry_for=20, timeout=0.2) as client:
        q = client.queue(f"lost-{secrets.token_hex(4)}")
        q.send(b"first")
        proxy.lose(b"hf1_send", for_good=True)
        with pytest.raises(AnswerLost):
            q.send(b"second")


@pytest.fixture
def nobody() -> Iterator[str]:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and never listens: nobody else can take the port either
        yield f"redis://127.0.0.1:{nobody.getsockname()[1]}"


@pytest.mark.slow
def test_what_was_never_sent_is_tried_for_as_long_as_one_likes(
    nobody: str, short_memory: None
) -> None:
    with (
        holdfast.connect(nobody, retry_for=1, timeout=0.2) as client,
        pytest.raises(Unavailable, match="for 1 s"),
    ):
        client.transport.run(calls.send_one(QueueRef("x"), plain_envelope(b"x"), "anne", 1))


def test_what_must_not_be_repeated_and_was_never_sent_is_no_lost_answer(nobody: str) -> None:
    with (
        holdfast.connect(nobody, retry_for=0.2) as client,
        pytest.raises(Unavailable, match=r"for 0\.2 s"),
    ):
        client.transport.run(tasks.unpermit_rate(LimitRef("x"), 10, 60, 4))


def test_events_go_on_after_a_cut(proxy: Proxy, q: Queue) -> None:
    with q.events("sent") as events:
        q.send(b"a")
        assert events.get(5) is not None
        proxy.cut()
        # The first look finds the connection gone and renews it; what is sent after that is heard.
        events.get(0.3)
        mid = q.send(b"b")
        heard = events.get(5)
    assert heard is not None
    assert heard.id == mid


def test_a_server_that_stays_away_is_unavailable(nobody: str) -> None:
    with (
        holdfast.connect(nobody, retry_for=0.3) as hf,
        pytest.raises(Unavailable, match=r"no answer from redis://127.0.0.1:\d+/0 for 0.3 s"),
    ):
        hf.queue("x").send(b"x")


def test_a_closed_client_says_so(url: str) -> None:
    hf = holdfast.connect(url)
    hf.close()
    with pytest.raises(Unavailable, match="this client is closed; connect again"):
        hf.queue("x").send(b"x")


def test_a_publish_whose_answer_was_lost_is_published_once(proxy: Proxy, hf: Client) -> None:
    topic = hf.topic(f"lost-{secrets.token_hex(4)}")
    seats = [topic.subscribe("a"), topic.subscribe("b")]
    topic.publish(b"first")
    proxy.lose(b"hf1_publish", times=3)
    mid = topic.publish(b"second")
    assert proxy.lost == 3
    assert topic.stats().sent == 2
    for seat in seats:
        assert [m.body for m in seat.inspect("ready")] == [b"first", b"second"]
        assert seat.inspect("ready")[1].id == mid


def test_subscribing_and_leaving_are_repeated(proxy: Proxy, hf: Client) -> None:
    topic = hf.topic(f"lost-{secrets.token_hex(4)}")
    topic.publish_many([b"x"] * 1500)
    proxy.lose(b"hf1_subscribe", times=2)
    seat = topic.subscribe("a")
    assert proxy.lost == 2
    assert seat.stats().ready == 1500
    proxy.lose(b"hf1_unsubscribe", times=2)
    seat.unsubscribe()
    assert proxy.lost == 4
    assert topic.subscriptions() == []
    assert topic.stats().ready == 1500


def test_giving_up_a_subscription_and_not_hearing_of_it_is_having_had_it(
    proxy: Proxy, hf: Client
) -> None:
    topic = hf.topic(f"lost-{secrets.token_hex(4)}")
    topic.subscribe("a")
    proxy.lose(b"hf1_unsubscribe")
    assert topic.unsubscribe("a")


def test_what_a_lost_observe_took_comes_back_when_its_lease_ends(proxy: Proxy, hf: Client) -> None:
    topic = hf.topic(f"lost-{secrets.token_hex(4)}")
    topic.configure(lease=0.3)
    seat = topic.subscribe("a")
    topic.publish(b"x")
    proxy.lose(b"hf1_observe")
    [d] = seat.observe(wait=20)
    assert d.receives == 2
