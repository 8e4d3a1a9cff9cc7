"""What all parts of a queue stand on: its name, its shards, and the transport."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast.engine import calls
from holdfast.engine.keys import REGISTRY, QueueRef
from holdfast.errors import TryAgain
from holdfast.message import Codec

if TYPE_CHECKING:
    from holdfast.client._async.client import AsyncClient

# Queues about which a client remembers something.
_REMEMBER = 10_000


class AsyncShards:
    """A queue's shards, and how to address them."""

    def __init__(self, client: AsyncClient, name: str, codec: Codec[Any] | None = None) -> None:
        self.name = name
        self.codec = codec
        self._client = client
        self.transport = client.transport
        self._refs: list[QueueRef] = []
        self._turn = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    async def _shards(self) -> list[QueueRef]:
        # Only ever replaced as a whole; what another thread forgets meanwhile is good enough for this call.
        refs = self._refs
        if not refs:
            known = self._client.shards.get(self.name)
            if known is None:
                reply = await self.transport.run(calls.configure(QueueRef(self.name), {}))
                known = reply.settings.shards
            refs = self._refs = [QueueRef(self.name, shard) for shard in range(known)]
            self._remember(known)
        return refs

    def _set_shards(self, n: int) -> None:
        if n != len(self._refs):
            self._refs = [QueueRef(self.name, shard) for shard in range(n)]
            self._remember(n)

    def _remember(self, shards: int) -> None:
        if len(self._client.shards) > _REMEMBER:
            self._client.shards.clear()
        self._client.shards[self.name] = shards

    async def ref(self, shard: int) -> QueueRef:
        """One of its shards."""
        refs = await self._shards()
        return refs[shard] if shard < len(refs) else QueueRef(self.name, shard)

    async def shard_of(self, name: str) -> QueueRef:
        """Where what belongs to a message lies: its shard, by its id. Other names live in the first."""
        tail = name.rpartition("-")[2] if name.count("-") == 2 else ""
        return await self.ref(int(tail) if tail.isdigit() else 0)

    async def _register(self) -> None:
        listed = self._client.listed
        if self.name not in listed:
            await self.transport.command("SADD", REGISTRY, self.name, key=REGISTRY)
            if len(listed) > _REMEMBER:
                listed.clear()
            listed.add(self.name)

    async def list_again(self) -> None:
        """The first message since it was made: others may have deleted it, and taken it from the list. The
        message is stored, so nothing here is an error of its sender's; who sends next lists it."""
        self._client.listed.discard(self.name)
        with suppress(TryAgain):
            await self._register()

    def _pack(self, message: Any, unique: str | None = None) -> calls.Packed:
        """A message, an Outgoing or a body, checked and ready to be sent."""
        return calls.pack(message, self.codec, unique)

    def tend_call(self, ref: QueueRef, wait_ms: int) -> calls.Call[tuple[bool, int]]:
        """A look by one who waits here: whether there is something, and ms after which to look again."""
        return calls.tend(ref, wait_ms)

    async def _wake_home(self) -> None:
        """Waiters of a sharded queue block at its first shard; see lua/wake.lua."""
        refs = self._refs
        if len(refs) > 1:
            await self.transport.run(calls.wake(refs[0]))

    async def refresh(self) -> None:
        """Ask how many shards the queue has by now. Those who send or receive are told; those who
        only look, for long, must ask, and so must who wants to reach all of them."""
        reply = await self.transport.run(calls.configure((await self._shards())[0], {}))
        self._set_shards(reply.settings.shards)

    async def refs(self) -> list[QueueRef]:
        return list(await self._shards())
