"""`connect(replicas=n)`: what is confirmed, what is not, and what is handed out all the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import NotReplicated
from holdfast.client._sync import node
from tests.servers import (
    Replicated,
    another_replica,
    primary_with_replica,
    standalone_server,
    wait_until,
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicated]:
    with primary_with_replica(tmp_path_factory.mktemp("replicas")) as found:
        yield found


@pytest.mark.slow
def test_who_stops_waiting_for_a_message_does_not_stop_waiting_for_replicas(
    both: Replicated, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The time to wait ends in the moment the message comes: CLIENT UNBLOCK must not meet the WAIT."""
    with (
        holdfast.connect(both.primary.url, replicas=1, check="off") as hf,
        holdfast.connect(both.primary.url, check="off") as other,
    ):
        q = hf.queue("late")
        q.configure(lease=60)
        resumed = threading.Timer(1.1, both.replica.resume)

        def comes_late(_: object, seconds: float) -> None:
            ends = time.monotonic() + seconds
            both.replica.pause()
            other.queue("late").send(b"x")
            wait_until(lambda: other.queue("late").stats().leased == 1, what="it is taken")
            resumed.start()
            wait_until(lambda: time.monotonic() >= ends, what="the end of the time to wait")
            raise TimeoutError

        monkeypatch.setattr(node, "read_within", comes_late)
        d = q.receive(wait=0.9)
        resumed.join()
        assert d is not None
        assert not caplog.records
        d.ack()


@contextmanager
def without_replicas(tmp_path: Path, name: str, **settings: Any) -> Iterator[holdfast.Queue]:
    """A queue whose client wants a replica, on a server that has none."""
    with (
        standalone_server(tmp_path) as server,
        holdfast.connect(server.url, check="off") as other,
        holdfast.connect(server.url, replicas=1, timeout=3, check="off") as hf,
    ):
        other.queue(name).configure(**settings)
        other.queue(name).send_many([b"%d" % i for i in range(20)])
        yield hf.queue(name)


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 3])
def test_what_was_taken_is_handed_out_though_no_replica_knows_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, shards: int
) -> None:
    """It is delivered at least once in any case; dropped, it would be counted and seen by nobody."""
    with without_replicas(tmp_path, "q", max_receives=2, lease=30, shards=shards) as q:
        got = q.receive_many(5, wait=1)
        assert len(got) == 5
        assert [d.receives for d in got] == [1] * 5
        began = time.monotonic()
        rest = [d for _ in range(10) for d in q.receive_many(5)]
        assert time.monotonic() - began < 2  # who has just waited in vain does not wait again
        assert len(rest) == 15
        assert len(q.recover(20, elapsed=0)) == 20
        with pytest.raises(NotReplicated):
            q.ack(got[0])
    said = [r.getMessage() for r in caplog.records]
    assert len(said) == 1
    assert "receive on 'q'" in said[0]
    assert "0 of 1 replicas" in said[0]


@pytest.mark.slow
def test_dead_letters_and_observed_messages_are_handed_out_too(tmp_path: Path) -> None:
    with (
        standalone_server(tmp_path) as server,
        holdfast.connect(server.url, check="off") as other,
        holdfast.connect(server.url, replicas=1, timeout=1, check="off") as hf,
    ):
        other.queue("q").send(b"x")
        other.queue("q").bury_many(other.queue("q").receive_many(1), "why not")
        other.topic("t").subscribe("a")
        other.topic("t").publish(b"y")
        assert [d.body for d in hf.queue("q").receive_dead()] == [b"x"]
        assert [d.body for d in hf.topic("t").subscription("a").observe()] == [b"y"]


@pytest.mark.slow
def test_a_reservation_that_no_replica_knows_of_is_refused_and_not_counted(tmp_path: Path) -> None:
    """It is a promise to give the same again, also after a failover; asking again gives the same."""
    with without_replicas(tmp_path, "q") as q:
        with pytest.raises(NotReplicated):
            q.reserve("reader", 1, [5])
        [held] = q.reservations()
        assert (held.rows, held.sealed) == (5, True)


@pytest.mark.slow
def test_a_consumer_without_replicas_makes_no_dead_letters(tmp_path: Path) -> None:
    with without_replicas(tmp_path, "q", lease=3, max_receives=2) as q:
        seen = []
        for d in q.consume(prefetch=5, idle=10):
            with d:
                seen.append(d.body)
            if len(seen) == 20:
                break
        assert len(set(seen)) == 20
        assert q.stats().dead == 0


@pytest.mark.slow
def test_one_of_two_replicas_is_enough_for_replicas_1_and_only_both_for_any_to_take_over(
    tmp_path: Path,
) -> None:
    with primary_with_replica(tmp_path) as both, another_replica(tmp_path, both) as behind:
        # It is there, and does not get what comes now.
        behind.pause()
        both.primary.ask("CLIENT", "KILL", "TYPE", "replica")
        wait_until(lambda: both.primary.info("replication")["connected_slaves"] == 1, what="one")
        with holdfast.connect(both.primary.url, replicas=1, check="off") as hf:
            hf.queue("q").send(b"x")
        with (
            holdfast.connect(both.primary.url, replicas=2, timeout=0.5, check="off") as hf,
            pytest.raises(NotReplicated, match="1 of 2 replicas confirmed"),
        ):
            hf.queue("r").send(b"y")
        both.primary.kill()
        behind.resume()
        for server, has in ((behind, 0), (both.replica, 1)):
            server.ask("REPLICAOF", "NO", "ONE")
            assert server.ask("EXISTS", "hf1:{q}") == has
