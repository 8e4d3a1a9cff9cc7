"""A node goes away and another one takes over: service is back soon after, at default settings."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis.crc import key_slot

import holdfast
from holdfast.client._sync.routes import Routes
from holdfast.client.address import parse
from tests.client.fake import Answer, array, bulk, fake
from tests.client.test_redirects import url_of
from tests.servers import SLOTS, Server, cluster_with_a_replica, sentinel, wait_until

# How long after the servers' own failover a call may still be without its answer, seconds.
LATE = 2.0


def name_on_the_first(nodes: int = 3) -> str:
    """Of a queue in a slot of the first node."""
    return next(
        name
        for name in (f"q{i}" for i in range(1000))
        if key_slot(f"hf1:{{{name}}}".encode()) < SLOTS // nodes
    )


@contextmanager
def watched(replica: Server) -> Iterator[list[float]]:
    """When it has become a primary."""
    promoted: list[float] = []

    def watch() -> None:
        wait_until(replica.is_primary, 30, "a failover")
        promoted.append(time.monotonic())

    watcher = threading.Thread(target=watch)
    watcher.start()
    yield promoted
    watcher.join()


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_a_cluster_serves_again_soon_after_its_failover(tmp_path: Path, fault: str) -> None:
    name = name_on_the_first()
    with (
        cluster_with_a_replica(tmp_path) as (nodes, replica),
        holdfast.connect(url_of(nodes), check="off") as hf,
        holdfast.connect(url_of(nodes), check="off") as waits,
    ):
        q = hf.queue(name)
        q.send(b"before")
        assert q.ack_many(q.receive_many(1))
        got: list[tuple[bytes, float]] = []

        def receives() -> None:
            d = waits.queue(name).receive(wait=30)
            assert d is not None
            got.append((d.body, time.monotonic()))

        waiter = threading.Thread(target=receives)
        waiter.start()
        wait_until(lambda: nodes[0].info("clients")["blocked_clients"] == 1, what="a waiter")
        with watched(replica) as promoted:
            nodes[0].kill() if fault == "kill" else nodes[0].pause()
            q.send(b"after")
            sent = time.monotonic()
            waiter.join(30)
        assert sent - promoted[0] < LATE
        [(body, when)] = got
        assert body == b"after"
        assert when - max(promoted[0], sent) < LATE


@pytest.mark.slow
def test_the_master_of_sentinels_is_not_waited_for_when_another_one_is_named(
    tmp_path: Path,
) -> None:
    with sentinel(tmp_path) as those:
        host, port = those.address
        with holdfast.connect(f"redis+sentinel://{host}:{port}/mymaster", check="off") as hf:
            q = hf.queue("q")
            q.send(b"before")
            with watched(those.replica) as promoted:
                those.primary.pause()
                q.send(b"after")
                sent = time.monotonic()
            assert sent - promoted[0] < LATE


def node_says(state: str, epoch: int, owner: Callable[[], int]) -> Answer:
    """A node that takes another one for the owner of all slots."""

    def answer(words: list[bytes]) -> bytes:
        if words[1].upper() == b"INFO":
            return bulk(b"cluster_state:%s\r\ncluster_current_epoch:%d" % (state.encode(), epoch))
        node = array(bulk(b"127.0.0.1"), b":%d\r\n" % owner(), bulk(b"id"), array())
        return array(array(b":0\r\n", b":16383\r\n", node))

    return answer


@pytest.mark.parametrize(
    ("isolated", "others"),
    [(("fail", 7), ("ok", 7)), (("ok", 3), ("ok", 4))],
    ids=["it knows that it is alone", "it does not know it yet"],
)
def test_a_node_that_was_cut_off_is_not_believed_though_it_answers_first(
    isolated: tuple[str, int], others: tuple[str, int]
) -> None:
    right: list[int] = []
    with (
        fake(lambda words: node_says(*isolated, lambda: 1)(words)) as alone,
        fake(node_says(*others, lambda: right[0])) as one,
        fake(node_says(*others, lambda: right[0])) as two,
    ):
        right.append(one.port)
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in (alone, one, two))
        routes = Routes(parse(f"redis://{hosts}"), timeout=5)
        assert routes.node_for("q").port == one.port
        routes.close()


def test_nodes_that_say_nothing_do_not_hold_up_those_who_answer() -> None:
    right: list[int] = []
    with (
        fake(lambda _: None) as silent,
        fake(lambda _: None) as mute,
        fake(node_says("ok", 1, lambda: right[0])) as one,
    ):
        right.append(one.port)
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in (silent, mute, one))
        routes = Routes(parse(f"redis://{hosts}"), timeout=10)
        began = time.monotonic()
        assert routes.node_for("q").port == one.port
        assert time.monotonic() - began < 1.5
        routes.close()
