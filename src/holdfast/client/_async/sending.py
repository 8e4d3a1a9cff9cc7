"""Sending: single messages, many at once, and those that must be there only once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from zlib import crc32

from holdfast.client._async.shards import AsyncShards
from holdfast.client.io_async import Producer
from holdfast.client.sender import CallName
from holdfast.engine import calls, replies
from holdfast.engine.calls import Packed
from holdfast.engine.keys import QueueRef
from holdfast.errors import FixTheCall, HoldfastError, Resharded
from holdfast.message import Codec, MessageId, Outgoing
from holdfast.settings import Seconds

if TYPE_CHECKING:
    from holdfast.client._async.client import AsyncClient


_NOTHING_SAID = (None,) * 6


class AsyncSending(AsyncShards):
    def __init__(self, client: AsyncClient, name: str, codec: Codec[Any] | None = None) -> None:
        super().__init__(client, name, codec)
        self._producer = Producer(self._send_each)

    async def send(
        self,
        body: Any,
        *,
        delay: Seconds | None = None,
        due: datetime | None = None,
        priority: int = 0,
        attributes: dict[str, str] | None = None,
        group: str | None = None,
        dedup_id: str | None = None,
        ttl: Seconds | None = None,
    ) -> MessageId:
        """Store a message; once this returns, it is held until somebody acks it.

        Safe to repeat by itself: if the answer is lost on the way, Holdfast asks again without
        sending twice. Raises InvalidArgument before anything is sent, QueueFull if the queue is at
        its max_length, Unavailable if the server stays away.
        """
        plain = (delay, due, attributes, group, dedup_id, ttl) == _NOTHING_SAID
        if plain and type(body) is bytes and type(priority) is int and priority == 0:
            return await self._producer.send(self._pack_plain(body))
        message = Outgoing(body, delay, due, priority, attributes, group, dedup_id, ttl)
        return await self._producer.send(self._pack(message))

    async def send_many(
        self, messages: Iterable[Any], *, name: CallName | None = None
    ) -> list[MessageId]:
        """Store many messages in one round trip; bodies, or `Outgoing` for those with more to say.

        All of them are checked before any is sent. Ids come back in order. Atomic per shard. `name`
        is for those who send on behalf of others, and repeat on their behalf.
        """
        listed = messages if isinstance(messages, list) else list(messages)
        if not listed:
            return []
        refs = await self._shards()
        if len(refs) == 1 and all(type(m) is bytes for m in listed):
            await self._register()
            return await self._send_to(0, partial(calls.send_plain, refs[0], listed), name)
        return await self.send_packed([self._pack(m) for m in listed], name)

    async def ensure(
        self,
        unique: str,
        body: Any,
        *,
        delay: Seconds | None = None,
        due: datetime | None = None,
        priority: int = 0,
        attributes: dict[str, str] | None = None,
        group: str | None = None,
        ttl: Seconds | None = None,
    ) -> MessageId:
        """Send, unless a message with this unique name is ready, delayed or leased already.

        Then the id is that one's, and `.duplicate` is True. A dead letter frees the name.
        """
        message = Outgoing(body, delay, due, priority, attributes, group, None, ttl)
        return await self._ensure(unique, self._pack(message, unique))

    def _pack_plain(self, body: bytes) -> Packed:
        return calls.pack_plain(body)

    async def _ensure(self, unique: str, message: Packed) -> MessageId:
        return (await self.send_packed([message]))[0]

    async def _send_each(self, messages: Sequence[Packed]) -> Sequence[MessageId | HoldfastError]:
        """Messages of several callers, which travel together: each gets its own answer."""
        if len(messages) == 1:
            return await self.send_packed(messages)
        refs = await self._shards()
        await self._register()
        return await self._send_each_to(refs, messages)

    async def _send_each_to(
        self, refs: list[QueueRef], messages: Sequence[Packed]
    ) -> Sequence[MessageId | HoldfastError]:
        answers: dict[int, MessageId | HoldfastError] = {}
        for shard, places in self._by_shard_to_send(messages, len(refs)).items():
            part = [messages[i] for i in places]
            answers |= zip(places, await self._send_part(refs[shard], part), strict=True)
        return [answers[i] for i in range(len(messages))]

    async def _send_part(
        self, ref: QueueRef, part: Sequence[Packed]
    ) -> Sequence[MessageId | HoldfastError]:
        try:
            sent = await self._client.run_named(partial(calls.send_each, ref, part))
        except Resharded as error:
            return await self._send_each_to(self._resharded(error), part)
        except FixTheCall as error:
            # Nothing was stored, and one of them is to blame. Alone, each finds out whether it is the one.
            if len(part) == 1:
                return [error]
            return [answer for m in part for answer in await self._send_part(ref, [m])]
        except HoldfastError as error:
            return [error] * len(part)
        if ref.shard and sent.somebody_waits:
            await self._wake_home()
        self._set_shards(sent.shards)
        return sent.answers

    def _by_shard_to_send(
        self, messages: Sequence[Packed], shards: int, name: CallName | None = None
    ) -> dict[int, list[int]]:
        """Which messages go to which shard, by their positions."""
        by_shard: dict[int, list[int]] = {}
        self._turn += 1
        # A repetition must come to the shard that knows it.
        turn = self._turn if name is None else crc32(f"{name.sender} {name.number}".encode())
        for i, m in enumerate(messages):
            shard = crc32(m.home.encode()) if m.home else turn
            by_shard.setdefault(shard % shards, []).append(i)
        return by_shard

    async def send_packed(
        self, messages: Sequence[Packed], name: CallName | None = None
    ) -> list[MessageId]:
        """As send_many, for messages that are checked and packed already."""
        refs = await self._shards()
        await self._register()
        if len(refs) == 1:
            sent = await self._client.run_named(_builder(refs[0], messages), name)
            if sent.shards > 1:
                self._set_shards(sent.shards)
            if sent.first:
                await self.list_again()
            return sent.ids
        return await self._send_packed_to(refs, messages, name)

    async def _send_packed_to(
        self, refs: list[QueueRef], messages: Sequence[Packed], name: CallName | None
    ) -> list[MessageId]:
        ids: dict[int, MessageId] = {}
        for shard, places in self._by_shard_to_send(messages, len(refs), name).items():
            part = [messages[i] for i in places]
            try:
                placed = await self._send_to(shard, _builder(refs[shard], part), name)
            except Resharded as error:
                placed = await self._send_packed_to(self._resharded(error), part, name)
            ids |= zip(places, placed, strict=True)
        return [ids[i] for i in range(len(messages))]

    def _resharded(self, error: Resharded) -> list[QueueRef]:
        """Where to send what a shard refused that is none any more. Each that refuses tells of fewer, and the
        first one never refuses."""
        self._set_shards(error.shards)
        return [QueueRef(self.name, shard) for shard in range(error.shards)]

    async def _send_to(
        self,
        shard: int,
        build: Callable[[str, int], calls.Call[replies.Sent]],
        name: CallName | None = None,
    ) -> list[MessageId]:
        sent = await self._client.run_named(build, name)
        if shard and sent.somebody_waits:
            await self._wake_home()
        if sent.first:
            await self.list_again()
        self._set_shards(sent.shards)
        return sent.ids


def _builder(
    ref: QueueRef, messages: Sequence[Packed]
) -> Callable[[str, int], calls.Call[replies.Sent]]:
    first = messages[0]
    # The second byte tells what else is in it: a unique name, of which a short answer could say nothing.
    if len(messages) == 1 and not first.when and not first.dedup_id and first.envelope[1] <= 1:
        return partial(calls.send_one, ref, first.envelope)
    return partial(calls.send, ref, messages)
