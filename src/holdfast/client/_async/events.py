"""What happens on a queue, as it happens: a subscription to its channel.

The engine publishes only while somebody listens; listening is renewed here, and lapses by itself
when this process dies. Lost connections are renewed; what happened meanwhile is in the journal, if
that is on, and nowhere else.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Self

from redis.exceptions import ConnectionError as RedisConnectionError

from holdfast import forks
from holdfast.client.address import PATIENCE
from holdfast.client.io_async import Connection, Lock, abandon, read_within, sleep, stop_iteration
from holdfast.engine import calls, notes
from holdfast.engine.keys import QueueRef
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.client._async.queue import AsyncQueue

log = logging.getLogger("holdfast")

_LISTEN = 60.0
_PATIENCE = 0.5
# Before connecting again, seconds.
_AGAIN = 0.02


class AsyncEvents:
    """Iterate over it, or `get` one at a time. Ends when closed, soon if somebody waits elsewhere."""

    def __init__(self, queue: AsyncQueue, kinds: frozenset[str]) -> None:
        self._queue = queue
        self._kinds = kinds
        self._found: deque[notes.Event] = deque()
        self._refs: dict[bytes, QueueRef] = {}
        self._connections: dict[str, Connection] = {}
        self._renew = self._heard = 0.0
        self._open = False
        # Connections are used by one at a time: whoever closes lets who reads look away first.
        self._reading = Lock()
        forks.watch(self)

    def forked(self) -> None:
        """In the child of a fork: subscribe anew. What the parent's connections bring is the parent's."""
        inherited, self._connections = self._connections, {}
        self._found, self._reading, self._renew = deque(), Lock(), 0.0
        for own in inherited.values():
            abandon(own)

    async def __aenter__(self) -> Self:
        self._open = True
        for ref in await self._queue.refs():
            self._refs[ref.below("events").encode()] = ref
        await self._renewed()
        await self._subscribe()
        return self

    async def _subscribe(self) -> None:
        """One connection per node, for all shards that live there."""
        channels = {channel: ref.key for channel, ref in self._refs.items()}
        self._connections, came = await self._queue.transport.subscribe(channels)
        self._heard = time.monotonic()
        for message in came:
            self._take(message)

    async def _renewed(self) -> None:
        if time.monotonic() < self._renew:
            return
        for ref in self._refs.values():
            await self._queue.transport.run(calls.listen(ref, _LISTEN))
        self._renew = time.monotonic() + _LISTEN / 3

    async def get(self, timeout: float | None = None) -> notes.Event | None:
        """The next event, or None if none came in `timeout` seconds (None: wait for ever)."""
        give_up = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _PATIENCE if give_up is None else min(give_up - time.monotonic(), _PATIENCE)
            async with self._reading:
                if not self._found and self._open:
                    await self._look(left)
                if self._found:
                    return self._found.popleft()
                if not self._open or (give_up is not None and time.monotonic() >= give_up):
                    return None

    async def _look(self, seconds: float) -> None:
        try:
            if not self._connections:
                await self._subscribe()
            await self._renewed()
            for own in self._connections.values():
                await self._read(own, max(seconds / len(self._connections), 0.001))
            if time.monotonic() - self._heard > 2 * PATIENCE:
                for node in self._connections:
                    await self._queue.transport.doubt(node)
        except HoldfastError:
            raise
        except Exception as error:
            # A lost connection, a slot that has moved, or a message that is none of ours.
            log.debug("listening to %r: %r; again", self._queue.name, error)
            await sleep(_AGAIN)
            await self._reconnect()

    async def _reconnect(self) -> None:
        for own in self._connections.values():
            await own.disconnect()
        self._connections.clear()
        self._renew = 0.0
        await self._renewed()
        await self._subscribe()

    async def _read(self, own: Connection, seconds: float) -> None:
        try:
            self._take(await read_within(own, seconds))
        except TimeoutError:
            return

    def _take(self, message: list[bytes]) -> None:
        self._heard = time.monotonic()
        kind, channel, note = message
        if kind == b"sunsubscribe":
            raise RedisConnectionError("the slot has moved to another node")
        if kind == b"smessage":
            for event in notes.expand(note, self._queue.name, self._refs[channel].shard):
                if not self._kinds or event.kind in self._kinds:
                    self._found.append(event)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> notes.Event:
        event = await self.get()
        if event is None:
            raise stop_iteration
        return event

    async def close(self) -> None:
        self._open = False
        async with self._reading:
            for own in self._connections.values():
                await own.disconnect()
            self._connections.clear()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
