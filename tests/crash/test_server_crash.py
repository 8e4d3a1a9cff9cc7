"""kill -9 of the server under load: nothing stored is lost, nothing acked comes back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

import holdfast
from holdfast import Client, TryAgain
from tests.crash.accounting import Books
from tests.servers import Server, standalone_server, wait_until

pytestmark = pytest.mark.slow

KILLS = 3


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with standalone_server(tmp_path, durability="durable") as server:
        yield server


class Load:
    """Producers and a consumer that go on through crashes, and keep the books."""

    def __init__(self, url: str) -> None:
        self.books = Books()
        self.done = threading.Event()
        self._url = url
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._produce, args=(n,)) for n in range(2)]
        self._threads.append(threading.Thread(target=self._consume))
        self.failed: list[BaseException] = []

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def flow(self, acked: int) -> None:
        """Wait until so many have been acked."""
        wait_until(lambda: len(self.books.acked) >= acked, 60, f"{acked} acks")

    def finish(self) -> None:
        self.done.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _client(self) -> Client:
        return holdfast.connect(self._url, check="off", retry_for=20, timeout=5)

    def _produce(self, who: int) -> None:
        with self._client() as hf:
            q, n = hf.queue("load"), 0
            while not self.done.is_set():
                bodies = [b"%d-%d" % (who, n + i) for i in range(1 + n % 7)]
                n += len(bodies)
                try:
                    q.send_many(bodies)
                except TryAgain:
                    continue
                with self._lock:
                    for body in bodies:
                        self.books.store(body)

    def _consume(self) -> None:
        try:
            with self._client() as hf:
                q = hf.queue("load")
                while True:
                    try:
                        deliveries = q.receive_many(20, wait=0.2, lease=2)
                        if not deliveries and self.done.is_set() and q.stats().total == 0:
                            return
                        for d in deliveries:
                            self.books.see(d.body)
                        for d in q.ack_many(deliveries):
                            self.books.ack(d.body)
                    except TryAgain:
                        continue
        except BaseException as error:
            self.failed.append(error)


def test_nothing_is_lost_and_nothing_comes_back(server: Server) -> None:
    load = Load(server.url)
    load.start()
    for round_ in range(1, KILLS + 1):
        load.flow(150 * round_)
        server.kill()
        server.start()
    load.flow(150 * (KILLS + 1))
    load.finish()
    assert not load.failed
    assert load.books.problems() == []
    assert len(load.books.stored) > 150 * KILLS
    with holdfast.connect(server.url, check="off") as hf:
        assert hf.queue("load").stats().total == 0


def test_every_message_is_in_exactly_one_state_after_a_crash(server: Server) -> None:
    with holdfast.connect(server.url, check="off") as hf:
        q = hf.queue("states")
        ids = q.send_many([b"%d" % i for i in range(100)])
        q.send(b"later", delay=3600)
        held = q.receive_many(40, lease=600)
        q.ack_many(held[:10])
        q.bury_many(held[10:20], "bad")
        server.kill()
        server.start()
        stats = q.stats()
        assert (stats.ready, stats.delayed, stats.leased, stats.dead) == (60, 1, 20, 10)
        found = [m.id for s in ("ready", "leased", "dead") for m in q.inspect(s, 0, 1000)]
        assert sorted(found) == sorted(set(ids) - {d.id for d in held[:10]})
        assert q.ack_many(held[20:]) == held[20:]
        assert [m.receives for m in q.inspect("dead", 0, 1)] == [1]
        last = q.stats()
        assert q.send(b"x") > f"{last.last_ms}-{last.last_seq}"


def test_the_check_itself_catches_a_server_that_forgets(tmp_path: Path) -> None:
    """The negative control: the same books against a server that keeps nothing."""
    with standalone_server(tmp_path, appendonly="no") as server:
        books = Books()
        with holdfast.connect(server.url, check="off") as hf:
            q = hf.queue("load")
            for i in range(50):
                q.send(b"%d" % i)
                books.store(b"%d" % i)
            for d in q.receive_many(10):
                books.see(d.body)
            server.kill()
            server.start()
            while deliveries := q.receive_many(100):
                for d in deliveries:
                    books.see(d.body)
        assert books.problems() == ["40 lost, for example [b'10', b'11', b'12']"]


def test_the_check_itself_catches_an_ack_that_was_undone(server: Server) -> None:
    """The other half: acks that do not last, as if they had never reached the disk."""
    with holdfast.connect(server.url, check="off") as hf, redis.Redis.from_url(server.url) as raw:
        q, books = hf.queue("load"), Books()
        q.send(b"x")
        books.store(b"x")
        [record] = raw.lrange("hf1:{load}:r0", 0, -1)
        for d in q.receive_many(1):
            books.see(d.body)
            q.ack(d)
            books.ack(d.body)
        # What the engine itself would do if the ack had been lost: the message is ready again.
        raw.rpush("hf1:{load}:r0", record)
        q.send(b"y")
        for d in q.receive_many(2):
            books.see(d.body)
        assert books.problems() == ["1 came back after their ack"]
