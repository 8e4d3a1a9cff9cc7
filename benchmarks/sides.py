"""The three sides of the main comparison, behind one interface: send, receive, ack.

Each is used as its documentation says to use it for speed. Every side hands out the bodies as
bytes: what it costs to get at them is part of its price.
"""

from __future__ import annotations

from typing import Any, Protocol

import holdfast
from benchmarks.servers import Server

QUEUE = "bench"


class Side(Protocol):
    def send(self, bodies: list[bytes]) -> None: ...

    def receive(self, count: int) -> tuple[Any, list[bytes]]:
        """What is to be acked, and the bodies."""

    def ack(self, held: Any) -> None: ...

    def close(self) -> None: ...


class RawLists:
    """RPUSH and LPOP: the fastest queue there is. A consumer that dies loses what it popped."""

    def __init__(self, server: Server, key: str = "raw:list") -> None:
        self._client = server.connect()
        self._key = key

    def send(self, bodies: list[bytes]) -> None:
        self._client.rpush(self._key, *bodies)

    def receive(self, count: int) -> tuple[Any, list[bytes]]:
        got: Any
        if count == 1:
            got = self._client.lpop(self._key)
            return None, [got]
        got = self._client.lpop(self._key, count)
        return None, got

    def ack(self, held: Any) -> None:
        pass

    def close(self) -> None:
        self._client.close()


class RawStreams:
    """XADD, XREADGROUP, XACK and XDEL: what Valkey itself offers for at-least-once."""

    def __init__(self, server: Server, key: str = "raw:stream") -> None:
        self._client = server.connect()
        self._key = key
        self._streams: Any = {key: ">"}
        self._client.xgroup_create(key, "group", mkstream=True)

    def send(self, bodies: list[bytes]) -> None:
        if len(bodies) == 1:
            self._client.xadd(self._key, {"b": bodies[0]})
            return
        with self._client.pipeline(transaction=False) as pipeline:
            for body in bodies:
                pipeline.xadd(self._key, {"b": body})
            pipeline.execute()

    def receive(self, count: int) -> tuple[Any, list[bytes]]:
        answer: Any = self._client.xreadgroup("group", "consumer", self._streams, count)
        entries = answer[0][1]
        return [entry_id for entry_id, _ in entries], [fields[b"b"] for _, fields in entries]

    def ack(self, held: Any) -> None:
        with self._client.pipeline(transaction=False) as pipeline:
            pipeline.xack(self._key, "group", *held)
            pipeline.xdel(self._key, *held)
            pipeline.execute()

    def close(self) -> None:
        self._client.close()


class Holdfast:
    """The synchronous client, with all its promises: lease, fence, checksum, repeatable sends."""

    def __init__(self, server: Server, queue: str = QUEUE) -> None:
        self._client = holdfast.connect(server.url)
        self.queue = self._client.queue(queue)

    def send(self, bodies: list[bytes]) -> None:
        if len(bodies) == 1:
            self.queue.send(bodies[0])
        else:
            self.queue.send_many(bodies)

    def receive(self, count: int) -> tuple[Any, list[bytes]]:
        if count == 1:
            one = self.queue.receive()
            assert one is not None
            return [one], [one.body]
        got = self.queue.receive_many(count)
        return got, [delivery.body for delivery in got]

    def ack(self, held: Any) -> None:
        if len(self.queue.ack_many(held)) != len(held):
            raise RuntimeError("a lease was lost while measuring")

    def close(self) -> None:
        self._client.close()
