"""Clients for an app under test: what they send is seen, and every queue they touch keeps the kit's time.

They are subclasses, not stand-ins: the calls are those of the real clients, to a real server. All ways to
send come together in `send_packed` here, also the single sends that the async client would gather: a task
that runs inside of a send may send itself, and must not wait for its own turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from holdfast import names
from holdfast.client._async.client import AsyncClient
from holdfast.client._async.queue import AsyncQueue
from holdfast.client._sync.client import Client
from holdfast.client._sync.queue import Queue
from holdfast.client.sender import CallName
from holdfast.engine.calls import Packed
from holdfast.message import Codec, MessageId, Outgoing


class Watch(Protocol):
    def adopt(self, queue: str) -> None:
        """Something is about to use this queue."""

    def sent_(self, queue: str, messages: Sequence[Packed], ids: Sequence[MessageId]) -> None:
        """These are in the queue now."""

    def drain(self, queue: str, ids: Sequence[MessageId]) -> None:
        """Run them before the send returns, if so wished."""

    async def drain_async(self, queue: str, ids: Sequence[MessageId]) -> None: ...


class WatchedClient(Client):
    def __init__(self, url: str, watch: Watch) -> None:
        super().__init__(url, check="off")
        self._watch = watch

    def queue(self, name: str, *, codec: Codec[Any] | None = None) -> Queue:
        self._watch.adopt(names.check(name, "a queue's name"))
        return WatchedQueue(self, name, codec, watch=self._watch)


class WatchedQueue(Queue):
    def __init__(
        self, client: Client, name: str, codec: Codec[Any] | None, *, watch: Watch
    ) -> None:
        super().__init__(client, name, codec)
        self._watch = watch

    def send_many(
        self, messages: Iterable[Any], *, name: CallName | None = None
    ) -> list[MessageId]:
        packed = [self._pack(message) for message in messages]
        return self.send_packed(packed, name) if packed else []

    def send_packed(
        self, messages: Sequence[Packed], name: CallName | None = None
    ) -> list[MessageId]:
        ids = super().send_packed(messages, name)
        self._watch.sent_(self.name, messages, ids)
        self._watch.drain(self.name, ids)
        return ids


class AsyncWatchedClient(AsyncClient):
    def __init__(self, url: str, watch: Watch) -> None:
        super().__init__(url, check="off")
        self._watch = watch

    def queue(self, name: str, *, codec: Codec[Any] | None = None) -> AsyncQueue:
        self._watch.adopt(names.check(name, "a queue's name"))
        return AsyncWatchedQueue(self, name, codec, watch=self._watch)


class AsyncWatchedQueue(AsyncQueue):
    def __init__(
        self, client: AsyncClient, name: str, codec: Codec[Any] | None, *, watch: Watch
    ) -> None:
        super().__init__(client, name, codec)
        self._watch = watch

    async def send(self, body: Any, **said: Any) -> MessageId:
        return (await self.send_packed([self._pack(Outgoing(body, **said))]))[0]

    async def send_many(
        self, messages: Iterable[Any], *, name: CallName | None = None
    ) -> list[MessageId]:
        packed = [self._pack(message) for message in messages]
        return await self.send_packed(packed, name) if packed else []

    async def send_packed(
        self, messages: Sequence[Packed], name: CallName | None = None
    ) -> list[MessageId]:
        ids = await super().send_packed(messages, name)
        self._watch.sent_(self.name, messages, ids)
        await self._watch.drain_async(self.name, ids)
        return ids
