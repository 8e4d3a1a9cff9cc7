"""A slot that is moved key by key while its queue is in use, as every cluster but Valkey 9 does it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from redis.crc import key_slot

import holdfast
from holdfast import Unavailable
from tests.client.test_redirects import owner, url_of
from tests.servers import Server, cluster_nodes, wait_until


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    with cluster_nodes(tmp_path_factory.mktemp("cluster")) as found:
        yield found


class Migration:
    """One slot on its way from one node to another."""

    def __init__(self, nodes: list[Server], queue: str) -> None:
        self._nodes = nodes
        self.slot = key_slot(f"hf1:{{{queue}}}".encode())
        self.source, self.target = owner(nodes, self.slot)
        self._there = self.target.ask("CLUSTER MYID")
        here = self.source.ask("CLUSTER MYID")
        self.target.ask("CLUSTER", "SETSLOT", self.slot, "IMPORTING", here)
        self.source.ask("CLUSTER", "SETSLOT", self.slot, "MIGRATING", self._there)

    def keys(self) -> list[bytes]:
        """Those that are still at the source."""
        found = self.source.raw("CLUSTER", "GETKEYSINSLOT", self.slot, 1000)
        return sorted(found)

    def move(self, *keys: bytes) -> None:
        self.source.raw("MIGRATE", "127.0.0.1", self.target.port, "", 0, 5000, "KEYS", *keys)

    def finish(self) -> None:
        for node in (self.target, self.source, *self._nodes):
            node.ask("CLUSTER", "SETSLOT", self.slot, "NODE", self._there)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["the queue itself", "what is below it"])
def test_nothing_is_done_by_halves_while_keys_are_on_their_way(
    nodes: list[Server], first: str
) -> None:
    name = f"halves-{first[-2:]}"
    with holdfast.connect(url_of(nodes), retry_for=0.2, check="off") as hf:
        q = hf.queue(name)
        q.configure(lease=60)
        q.send_many([b"%d" % i for i in range(10)])
        held = q.receive_many(2)
        way = Migration(nodes, name)
        keys = way.keys()
        some = [
            k for k in keys if (k == b"hf1:{%s}" % name.encode()) is (first == "the queue itself")
        ]
        way.move(*some)
        for act in (
            lambda: q.send(b"late"),
            lambda: q.send_many([b"late", b"later"]),
            lambda: q.receive_many(3),
            lambda: q.ack_many(held),
            lambda: q.receive(wait=0.1),
        ):
            with pytest.raises(Unavailable):
                act()
        if left := way.keys():
            way.move(*left)
        way.finish()
        assert q.ack_many(held) == held
        assert sorted(d.body for d in q.receive_many(20)) == [b"%d" % i for i in range(2, 10)]


@pytest.mark.slow
def test_a_queue_in_use_loses_nothing_while_its_slot_moves(nodes: list[Server]) -> None:
    name, stop = "moving", threading.Event()
    sent: list[bytes] = []
    got: list[bytes] = []
    longest = 0.0

    def sends() -> None:
        nonlocal longest
        with holdfast.connect(url_of(nodes), check="off") as hf:
            q, n = hf.queue(name), 0
            while not stop.is_set():
                began = time.monotonic()
                body, n = b"%d" % n, n + 1
                q.send(body, group=f"g{n % 7}" if n % 2 else None)
                sent.append(body)
                longest = max(longest, time.monotonic() - began)

    def receives() -> None:
        with holdfast.connect(url_of(nodes), check="off") as hf:
            q = hf.queue(name)
            while (deliveries := q.receive_many(20, wait=0.2)) or not stop.is_set():
                got.extend(d.body for d in q.ack_many(deliveries))

    with holdfast.connect(url_of(nodes), check="off") as hf:
        hf.queue(name).configure(lease=20)
    threads = [threading.Thread(target=work) for work in (sends, receives)]
    for thread in threads:
        thread.start()
    for turn in range(1, 4):
        wait_until(lambda: len(sent) > 20 * turn, 30, "some are sent")  # noqa: B023
        way = Migration(nodes, name)
        while keys := way.keys():
            way.move(*keys[:3])
        way.finish()
    stop.set()
    for thread in threads:
        thread.join(60)
    assert sorted(got, key=int) == sent
    assert longest < 5


@pytest.mark.slow
def test_who_listens_hears_on_after_the_slot_has_moved(nodes: list[Server]) -> None:
    with holdfast.connect(url_of(nodes), check="off") as hf:
        q = hf.queue("heard")
        q.send(b"before")
        with q.events("sent") as events:
            way = Migration(nodes, "heard")
            way.move(*way.keys())
            way.finish()
            events.get(0.3)  # finds out, and listens at the new place
            mid = q.send(b"after")
            heard = events.get(5)
        assert heard is not None
        assert heard.id == mid
