"""The same verbs through each door, so that one suite can ask whether they mean the same.

`Python` speaks through a holdfast client: straight to Valkey, or to the gRPC door. `Resp` speaks MQ.*
through redis-py to the RESP door, as any program in any language would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

import redis

from holdfast import Client, HoldfastError
from holdfast.client._sync.delivery import Delivery
from holdfast.client._sync.place import Place
from holdfast.filters import Filter
from holdfast.settings import AS_SET, LeaseOf

Action = Literal["retry", "release", "bury"]


@dataclass(frozen=True)
class Got:
    source: str
    id: str
    body: bytes
    receipt: str
    receives: int
    attributes: dict[str, str]
    group: str | None
    priority: int


@dataclass(frozen=True)
class Seat:
    topic: str
    consumer: str
    peer: str = ""


Where = str | Seat


class Door(Protocol):
    refusal: type[Exception]
    """What a refused call raises."""

    def send(self, queue: str, body: bytes, **said: Any) -> str: ...
    def send_many(self, queue: str, bodies: Sequence[bytes]) -> list[str]: ...
    def ensure(self, queue: str, unique: str, body: bytes) -> str: ...
    def receive(
        self, queue: str, count: int = 1, *, wait: float = 0, lease: float | LeaseOf | None = AS_SET
    ) -> list[Got]: ...
    def receive_dead(self, queue: str, count: int = 1) -> list[Got]: ...
    def recover(self, queue: str, count: int, elapsed: float) -> list[str]: ...
    def ack(self, where: Where, *receipts: str) -> list[str]: ...
    def nack(
        self, where: Where, *receipts: str, action: Action, delay: float = 0, text: str = ""
    ) -> list[str]: ...
    def extend(self, where: Where, *receipts: str, lease: float | None) -> list[str]: ...
    def ready(self, queue: str, start: int = 0, count: int = 10) -> list[str]: ...
    def state(self, queue: str, message_id: str) -> str | None: ...
    def remove(self, queue: str, message_id: str) -> bool: ...
    def reschedule(self, queue: str, message_id: str, delay: float) -> bool: ...
    def redrive(self, where: Where, count: int | None = None) -> list[str]: ...
    def purge(self, queue: str, *states: Any) -> int: ...
    def pause(self, queue: str) -> None: ...
    def resume(self, queue: str) -> None: ...
    def configure(self, queue: str, **settings: int) -> None: ...
    def stats(self, where: Where) -> dict[str, int]: ...
    def delete(self, queue: str) -> None: ...
    def queues(self) -> list[str]: ...
    def subscribe(
        self, seat: Seat, mode: Literal["broadcast", "shared"] = "broadcast", wanted: str = ""
    ) -> None: ...
    def unsubscribe(self, seat: Seat) -> bool: ...
    def publish(self, topic: str, body: bytes, **said: Any) -> str: ...
    def observe(
        self, consumer: str, count: int = 1, *, peer: str = "", wait: float = 0
    ) -> list[Got]: ...
    def topics(self) -> list[str]: ...


class Python:
    refusal: type[Exception] = HoldfastError

    def __init__(self, client: Client) -> None:
        self._client = client

    def _at(self, where: Where) -> Place:
        if isinstance(where, str):
            return self._client.queue(where)
        return self._client.topic(where.topic).subscription(where.consumer, peer=where.peer)

    def send(self, queue: str, body: bytes, **said: Any) -> str:
        return self._client.queue(queue).send(body, **said)

    def send_many(self, queue: str, bodies: Sequence[bytes]) -> list[str]:
        return list(self._client.queue(queue).send_many(list(bodies)))

    def ensure(self, queue: str, unique: str, body: bytes) -> str:
        return self._client.queue(queue).ensure(unique, body)

    def receive(
        self, queue: str, count: int = 1, *, wait: float = 0, lease: float | LeaseOf | None = AS_SET
    ) -> list[Got]:
        return _got(self._client.queue(queue).receive_many(count, wait=wait, lease=lease))

    def receive_dead(self, queue: str, count: int = 1) -> list[Got]:
        return _got(self._client.queue(queue).receive_dead(count))

    def recover(self, queue: str, count: int, elapsed: float) -> list[str]:
        return [d.id for d in self._client.queue(queue).recover(count, elapsed=elapsed)]

    def ack(self, where: Where, *receipts: str) -> list[str]:
        return self._at(where).ack_many(receipts)

    def nack(
        self, where: Where, *receipts: str, action: Action, delay: float = 0, text: str = ""
    ) -> list[str]:
        at = self._at(where)
        if action == "release":
            return at.release_many(receipts)
        if action == "bury":
            return at.bury_many(receipts, text)
        return at.nack_many(receipts, delay=delay, error=text)

    def extend(self, where: Where, *receipts: str, lease: float | None) -> list[str]:
        return self._at(where).extend_many(receipts, lease)

    def ready(self, queue: str, start: int = 0, count: int = 10) -> list[str]:
        return [m.id for m in self._client.queue(queue).inspect("ready", start, count)]

    def state(self, queue: str, message_id: str) -> str | None:
        found = self._client.queue(queue).get(message_id)
        return found.state if found else None

    def remove(self, queue: str, message_id: str) -> bool:
        return self._client.queue(queue).remove(message_id)

    def reschedule(self, queue: str, message_id: str, delay: float) -> bool:
        return self._client.queue(queue).reschedule(message_id, delay=delay)

    def redrive(self, where: Where, count: int | None = None) -> list[str]:
        return self._at(where).redrive(count)

    def purge(self, queue: str, *states: Any) -> int:
        return self._client.queue(queue).purge(*states)

    def pause(self, queue: str) -> None:
        self._client.queue(queue).pause()

    def resume(self, queue: str) -> None:
        self._client.queue(queue).resume()

    def configure(self, queue: str, **settings: int) -> None:
        self._client.queue(queue).configure(**settings)

    def stats(self, where: Where) -> dict[str, int]:
        return asdict(self._at(where).stats())

    def delete(self, queue: str) -> None:
        self._client.queue(queue).delete()

    def queues(self) -> list[str]:
        return self._client.queues()

    def subscribe(
        self, seat: Seat, mode: Literal["broadcast", "shared"] = "broadcast", wanted: str = ""
    ) -> None:
        self._client.topic(seat.topic).subscribe(
            seat.consumer,
            peer=seat.peer,
            mode=mode,
            filter=Filter.from_json(wanted) if wanted else None,
        )

    def unsubscribe(self, seat: Seat) -> bool:
        return self._client.topic(seat.topic).unsubscribe(seat.consumer, peer=seat.peer)

    def publish(self, topic: str, body: bytes, **said: Any) -> str:
        return self._client.topic(topic).publish(body, **said)

    def observe(
        self, consumer: str, count: int = 1, *, peer: str = "", wait: float = 0
    ) -> list[Got]:
        return _got(self._client.consumer(consumer, peer=peer).observe(count, wait=wait))

    def topics(self) -> list[str]:
        return self._client.topics()


def _got(deliveries: Sequence[Delivery]) -> list[Got]:
    return [
        Got(d.source, d.id, d.body, d.receipt, d.receives, d.attributes, d.group, d.priority)
        for d in deliveries
    ]


_OPTIONS = {
    "delay": "DELAY",
    "priority": "PRIORITY",
    "group": "GROUP",
    "dedup_id": "DEDUP",
    "ttl": "TTL",
}


class Resp:
    refusal: type[Exception] = redis.ResponseError

    def __init__(self, connection: redis.Redis) -> None:
        self._connection = connection

    def _do(self, *words: Any) -> Any:
        return self._connection.execute_command(*words)

    def _texts(self, *words: Any) -> list[str]:
        return [word.decode() for word in self._do(*words) or ()]

    def send(self, queue: str, body: bytes, **said: Any) -> str:
        return str(self._do("MQ.SEND", queue, *_said(said), body).decode())

    def send_many(self, queue: str, bodies: Sequence[bytes]) -> list[str]:
        return self._texts("MQ.PUSH", queue, *bodies)

    def ensure(self, queue: str, unique: str, body: bytes) -> str:
        return str(self._do("MQ.SEND", queue, "UNIQUE", unique, body).decode())

    def receive(
        self, queue: str, count: int = 1, *, wait: float = 0, lease: float | LeaseOf | None = AS_SET
    ) -> list[Got]:
        words: list[Any] = ["COUNT", count]
        if wait:
            words += ["BLOCK", _ms(wait)]
        if lease is not AS_SET:
            words += ["LEASE", _lease(lease)]
        return _rows(self._do("MQ.RECEIVE", *words, queue))

    def receive_dead(self, queue: str, count: int = 1) -> list[Got]:
        return _rows(self._do("MQ.RECEIVE", "COUNT", count, "DEAD", queue))

    def recover(self, queue: str, count: int, elapsed: float) -> list[str]:
        return [row[0].decode() for row in self._do("MQ.RECOVER", queue, count, _ms(elapsed)) or ()]

    def ack(self, where: Where, *receipts: str) -> list[str]:
        return self._texts("MQ.ACK", *_where(where), *receipts)

    def nack(
        self, where: Where, *receipts: str, action: Action, delay: float = 0, text: str = ""
    ) -> list[str]:
        options = [action.upper(), "DELAY", _ms(delay), "REASON", text or "-"]
        return self._texts("MQ.NACK", *_where(where), *options, *receipts)

    def extend(self, where: Where, *receipts: str, lease: float | None) -> list[str]:
        return self._texts("MQ.EXTEND", *_where(where), _lease(lease), *receipts)

    def ready(self, queue: str, start: int = 0, count: int = 10) -> list[str]:
        return [row[0].decode() for row in self._do("MQ.INSPECT", queue, start, count) or ()]

    def state(self, queue: str, message_id: str) -> str | None:
        found = self._do("MQ.GET", queue, message_id)
        return found[2].decode() if found else None

    def remove(self, queue: str, message_id: str) -> bool:
        return bool(self._do("MQ.REMOVE", queue, message_id))

    def reschedule(self, queue: str, message_id: str, delay: float) -> bool:
        return bool(self._do("MQ.RESCHEDULE", queue, message_id, "DELAY", _ms(delay)))

    def redrive(self, where: Where, count: int | None = None) -> list[str]:
        options = ("COUNT", count) if count is not None else ()
        return self._texts("MQ.REDRIVE", *_where(where), *options)

    def purge(self, queue: str, *states: Any) -> int:
        return int(self._do("MQ.PURGE", queue, *states))

    def pause(self, queue: str) -> None:
        self._do("MQ.PAUSE", queue)

    def resume(self, queue: str) -> None:
        self._do("MQ.RESUME", queue)

    def configure(self, queue: str, **settings: int) -> None:
        words: list[Any] = []
        for name, value in settings.items():
            words += [name, value]
        self._do("MQ.CONFIGURE", queue, *words)

    def stats(self, where: Where) -> dict[str, int]:
        flat = self._do("MQ.STATS", *_where(where))
        pairs = flat.items() if isinstance(flat, dict) else zip(flat[::2], flat[1::2], strict=True)
        return {name.decode(): value for name, value in pairs}

    def delete(self, queue: str) -> None:
        self._do("MQ.DELETE", queue)

    def queues(self) -> list[str]:
        return self._texts("MQ.QUEUES")

    def subscribe(
        self, seat: Seat, mode: Literal["broadcast", "shared"] = "broadcast", wanted: str = ""
    ) -> None:
        options: list[Any] = ["PEER", seat.peer] if seat.peer else []
        options += ["MODE", mode.upper()]
        options += ["FILTER", wanted] if wanted else []
        self._do("MQ.SUBSCRIBE", seat.topic, seat.consumer, *options)

    def unsubscribe(self, seat: Seat) -> bool:
        peer = ("PEER", seat.peer) if seat.peer else ()
        return bool(self._do("MQ.UNSUBSCRIBE", seat.topic, seat.consumer, *peer))

    def publish(self, topic: str, body: bytes, **said: Any) -> str:
        return str(self._do("MQ.PUBLISH", topic, *_said(said), body).decode())

    def observe(
        self, consumer: str, count: int = 1, *, peer: str = "", wait: float = 0
    ) -> list[Got]:
        words: list[Any] = ["PEER", peer] if peer else []
        words += ["COUNT", count]
        words += ["BLOCK", _ms(wait)] if wait else []
        return _rows(self._do("MQ.OBSERVE", consumer, *words))

    def topics(self) -> list[str]:
        return self._texts("MQ.TOPICS")


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _lease(seconds: float | LeaseOf | None) -> int | str:
    return _ms(seconds) if isinstance(seconds, int | float) else "NONE"


def _where(where: Where) -> list[str]:
    if isinstance(where, str):
        return [where]
    peer = ["PEER", where.peer] if where.peer else []
    return [where.topic, "FOR", where.consumer, *peer]


def _said(said: dict[str, Any]) -> list[Any]:
    words: list[Any] = []
    for name, value in said.items():
        if name == "attributes":
            for key, text in value.items():
                words += ["ATTR", key, text]
        else:
            words += [_OPTIONS[name], _ms(value) if name in ("delay", "ttl") else value]
    return words


def _rows(rows: Any) -> list[Got]:
    found = []
    for source, mid, body, receipt, receives, attributes, group, priority in rows or ():
        if not isinstance(attributes, dict):
            attributes = dict(zip(attributes[::2], attributes[1::2], strict=True))
        texts = {k.decode(): v.decode() for k, v in attributes.items()}
        found.append(
            Got(
                source.decode(),
                mid.decode(),
                body,
                receipt.decode(),
                receives,
                texts,
                group.decode() if group is not None else None,
                priority,
            )
        )
    return found
