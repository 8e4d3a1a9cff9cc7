"""What `replicas=n` confirms is what the replicas have, also where the call itself wrote nothing."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import holdfast
from holdfast import Client, NotReplicated, Queue
from tests.client.proxy import Proxy, proxied
from tests.servers import Replicated, primary_with_replica


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicated]:
    with primary_with_replica(tmp_path_factory.mktemp("replicated")) as both:
        yield both


@pytest.fixture
def proxy(both: Replicated) -> Iterator[Proxy]:
    with proxied(both.primary.url) as proxy:
        yield proxy


def connected(url: str) -> Client:
    return holdfast.connect(url, replicas=1, timeout=0.5, check="off")


@contextmanager
def replica_away(both: Replicated) -> Iterator[None]:
    os.kill(both.replica.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(both.replica.pid, signal.SIGCONT)


SENDS: dict[str, Callable[[Queue], object]] = {
    "send_one": lambda q: q.send(b"x"),
    "send": lambda q: q.send_many([b"x", b"y"]),
    "ensure": lambda q: q.ensure("once", b"x"),
}


@pytest.mark.parametrize("how", SENDS)
def test_a_send_answered_from_memory_is_not_confirmed_before_a_replica_has_it(
    both: Replicated, proxy: Proxy, how: str
) -> None:
    with connected(proxy.url) as hf:
        q = hf.queue(f"replicas-{secrets.token_hex(4)}")
        q.send(b"first")
        with replica_away(both):
            proxy.lose(b"hf1_send")
            with pytest.raises(NotReplicated):
                SENDS[how](q)
            assert proxy.lost == 1
        SENDS[how](q)  # now that it is back


def test_a_duplicate_is_not_confirmed_before_a_replica_has_the_first(both: Replicated) -> None:
    name = f"replicas-{secrets.token_hex(4)}"
    with connected(both.primary.url) as hf, connected(both.primary.url) as other:
        other.queue(name).send(b"x")
        with replica_away(both):
            for client in (hf, other):
                with pytest.raises(NotReplicated):
                    client.queue(name).send(b"x", dedup_id="once")


def test_an_ack_answered_from_memory_is_not_confirmed_before_a_replica_knows(
    both: Replicated, proxy: Proxy
) -> None:
    with connected(proxy.url) as hf:
        q = hf.queue(f"replicas-{secrets.token_hex(4)}")
        q.send(b"x")
        d = q.receive()
        assert d is not None
        with replica_away(both):
            proxy.lose(b"hf1_ack")
            with pytest.raises(NotReplicated):
                d.ack()
            assert proxy.lost == 1


def test_who_only_looks_waits_for_nobody(both: Replicated) -> None:
    with connected(both.primary.url) as hf:
        q = hf.queue(f"replicas-{secrets.token_hex(4)}")
        q.send(b"x")
        with replica_away(both):
            assert q.stats().ready == 1
            assert [m.body for m in q.inspect("ready")] == [b"x"]


def test_confirming_works_when_the_server_is_full(tmp_path: Path) -> None:
    """What settles must go on then, or the server never gets emptier."""
    with (
        primary_with_replica(tmp_path) as both,
        holdfast.connect(both.primary.url, replicas=1, check="off") as hf,
    ):
        q = hf.queue("full")
        q.send(b"x")
        d = q.receive()
        assert d is not None
        both.primary.ask("CONFIG SET", "maxmemory", 1)
        d.ack()
        assert q.stats().total == 0
