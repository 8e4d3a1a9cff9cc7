"""Valkey goes away behind the server: callers hear an error they may repeat on, then service again,
and nothing that was confirmed is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
import redis

import holdfast
from holdfast.errors import by_code
from holdfast.v1 import broker_pb2 as pb
from tests.server.serving import Serving, serving
from tests.servers import sentinel, standalone_server, wait_until


def _repeatable(error: redis.ResponseError) -> bool:
    return issubclass(by_code(str(error).partition(" ")[0]), holdfast.TryAgain)


@pytest.mark.slow
def test_both_doors_say_unavailable_soon_and_serve_again_when_valkey_is_back(
    tmp_path: Path, name: str
) -> None:
    with (
        standalone_server(tmp_path, "durable") as valkey,
        serving(tmp_path / "s", valkey.url, "--retry-for", "0.5") as server,
        server.redis() as client,
        server.queues() as queues,
    ):
        client.execute_command("MQ.PUSH", name, "before")
        valkey.kill()
        began = time.monotonic()
        with pytest.raises(redis.ResponseError) as resp:
            client.execute_command("MQ.PUSH", name, "meanwhile")
        assert str(resp.value).startswith("UNAVAILABLE ")
        with pytest.raises(grpc.RpcError) as rpc:
            queues.Stats(pb.StatsRequest(queue=name))
        assert rpc.value.code() == grpc.StatusCode.UNAVAILABLE
        assert time.monotonic() - began < 10
        valkey.start()
        client.execute_command("MQ.PUSH", name, "after")
        got = client.execute_command("MQ.POP", "10", name)
        assert [body for _, body in got] == [b"before", b"after"]
        assert queues.Stats(pb.StatsRequest(queue=name)).leased == 2


@pytest.mark.slow
def test_a_call_outlasts_a_short_absence_of_valkey(tmp_path: Path, name: str) -> None:
    with (
        standalone_server(tmp_path, "durable") as valkey,
        serving(tmp_path / "s", valkey.url, "--retry-for", "30") as server,
        server.redis() as client,
    ):
        client.execute_command("MQ.PUSH", name, "before")
        valkey.kill()
        answers: list[object] = []
        asking = threading.Thread(
            target=lambda: answers.append(client.execute_command("MQ.PUSH", name, "meanwhile"))
        )
        asking.start()
        valkey.start()
        asking.join(30)
        assert len(answers) == 1


class Load:
    """Senders and receivers through both doors, and the account of what they were told."""

    def __init__(self, server: Serving, queue: str) -> None:
        self._server = server
        self._queue = queue
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self.confirmed: dict[bytes, str] = {}
        """Body → id, of what the server said it has stored."""
        self.doubtful: set[bytes] = set()
        """Sent, and no good answer came."""
        self.delivered: dict[str, bytes] = {}
        """Id → body, of what a receiver really got: noted before it is acked."""
        self.acked = 0
        self.errors: list[str] = []
        self.wrong: list[BaseException] = []
        works = (self._resp_sender, self._grpc_sender, self._resp_receiver, self._grpc_receiver)
        self._threads = [threading.Thread(target=self._guarded, args=(w,)) for w in works]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self.wrong.append(error)

    def _tried(self, attempt: Callable[[], None]) -> bool:
        """False if it failed in a way that a client may repeat on; anything else is wrong."""
        try:
            attempt()
        except redis.ResponseError as error:
            if not _repeatable(error):
                raise
            self.errors.append(str(error))
        except grpc.RpcError as error:
            if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN):
                raise
            self.errors.append(str(error.details()))
        else:
            return True
        return False

    def _send(self, door: str, store: Callable[[list[bytes]], list[str]]) -> None:
        number = 0
        while not self._ended.is_set():
            bodies = [b"%s-%d" % (door.encode(), number + i) for i in range(10)]
            number += 10

            def attempt(bodies: list[bytes] = bodies) -> None:
                ids = store(bodies)
                with self._lock:
                    self.confirmed |= dict(zip(bodies, ids, strict=True))

            if not self._tried(attempt):
                self.doubtful |= set(bodies)

    def _resp_sender(self) -> None:
        with self._server.redis() as client:

            def store(bodies: list[bytes]) -> list[str]:
                ids = client.execute_command("MQ.PUSH", self._queue, *bodies)
                return [message_id.decode() for message_id in ids]

            self._send("resp", store)

    def _grpc_sender(self) -> None:
        with self._server.queues() as queues:

            def store(bodies: list[bytes]) -> list[str]:
                messages = [pb.OutgoingMessage(body=body) for body in bodies]
                sent = queues.Send(pb.SendRequest(queue=self._queue, messages=messages)).sent
                return [message.id for message in sent]

            self._send("grpc", store)

    def note(self, got: dict[str, bytes]) -> None:
        with self._lock:
            self.delivered |= got

    def _resp_receiver(self) -> None:
        with self._server.redis() as client:

            def attempt() -> None:
                pairs = (
                    client.execute_command("MQ.POP", "COUNT", 50, "BLOCK", 200, self._queue) or []
                )
                got = _pairs(pairs)
                self.note(got)
                if got:
                    self.acked += len(client.execute_command("MQ.ACK", self._queue, *got) or [])

            while not self._ended.is_set():
                self._tried(attempt)

    def _grpc_receiver(self) -> None:
        with self._server.queues() as queues:

            def attempt() -> None:
                request = pb.ReceiveRequest(queues=[self._queue], count=50, wait_ms=200)
                found = {d.receipt: d for d in queues.Receive(request).deliveries}
                self.note({d.id: d.body for d in found.values()})
                if found:
                    done = queues.Ack(pb.AckRequest(queue=self._queue, receipts=list(found)))
                    self.acked += len(done.receipts)

            while not self._ended.is_set():
                self._tried(attempt)


def _pairs(reply: list[object]) -> dict[str, bytes]:
    """Id → body, of MQ.POP's answer."""
    found: dict[str, bytes] = {}
    for entry in reply:
        assert isinstance(entry, list)
        *_, message_id, body = entry
        found[message_id.decode()] = body
    return found


def _under_load(
    server: Serving, url: str, name: str, upset: Callable[[], None], times: int
) -> None:
    """Each message that was confirmed is received, and only what was sent; by its id and body."""
    with holdfast.connect(url, check="off", retry_for=30) as hf:
        queue = hf.queue(name)
        # An ack or a receive whose answer is lost is mended by the end of its lease.
        queue.configure(lease=2, max_receives=None)
        load = Load(server, name)
        try:
            for _ in range(times):
                before = len(load.confirmed)
                wait_until(lambda b=before: len(load.confirmed) > b + 300 or load.wrong, 60, "load")  # type: ignore[misc]
                upset()
            before, acked = len(load.confirmed), load.acked
            wait_until(
                lambda: (
                    (len(load.confirmed) > before + 300 and load.acked > acked + 300) or load.wrong
                ),
                60,
                "service after the last outage",
            )
        finally:
            load.end()
        assert load.wrong == []
        while left := queue.receive_many(1000, wait=3):
            load.note({str(d.id): d.body for d in left})
            queue.ack_many(left)
        stats = queue.stats()
        assert (stats.ready, stats.leased, stats.delayed, stats.dead) == (0, 0, 0, 0)
        missing = {b: i for b, i in load.confirmed.items() if load.delivered.get(i) != b}
        assert missing == {}
        assert set(load.delivered.values()) <= load.confirmed.keys() | load.doubtful


@pytest.mark.slow
def test_nothing_confirmed_is_lost_when_valkey_is_killed_under_load(
    tmp_path: Path, name: str
) -> None:
    with (
        standalone_server(tmp_path, "durable") as valkey,
        serving(tmp_path / "s", valkey.url, "--retry-for", "2") as server,
    ):
        _under_load(server, valkey.url, name, valkey.restart, times=3)
        assert server.stop()[0] == 0


@pytest.mark.slow
def test_the_server_follows_a_failover_of_sentinels(tmp_path: Path, name: str) -> None:
    with sentinel(tmp_path) as watched:
        host, port = watched.address
        url = f"redis+sentinel://{host}:{port}/{watched.name}"
        with serving(tmp_path / "s", url, "--retry-for", "2") as server, server.redis() as client:
            before = client.execute_command("MQ.PUSH", name, "before")
            written = watched.primary.info("replication")["master_repl_offset"]
            wait_until(
                lambda: watched.replica.info("replication")["slave_repl_offset"] >= written,
                20,
                "the replica to have it",
            )
            watched.primary.kill()
            wait_until(watched.replica.is_primary, 60, "the failover")
            errors: list[redis.ResponseError] = []

            def served() -> bool:
                try:
                    return bool(client.execute_command("MQ.STATS", name))
                except redis.ResponseError as error:
                    errors.append(error)
                    return False

            wait_until(served, 60, "service after the failover")
            assert all(map(_repeatable, errors))
            [[got, body]] = client.execute_command("MQ.POP", "1", name)
            assert ([got], body) == (before, b"before")
