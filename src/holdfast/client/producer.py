"""Coalesces concurrent single sends: while one call is under way, the next batch gathers.

A lone sender waits for nobody: its message leaves at once. A thousand concurrent `await q.send()`
become a handful of calls. What may gather is bounded, by messages and by bytes; past that senders
wait. No timer is involved, so there is no delay to tune (rejected: a linger of some ms, which makes
every lone send slower).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from holdfast.engine.calls import Packed
from holdfast.errors import HoldfastError
from holdfast.message import MessageId

MAX_BATCH = 500
MAX_WAITING = 5_000
MAX_WAITING_BYTES = 16 * 1024 * 1024


class Producer:
    """`deliver` answers for each message by itself, or raises if none was sent."""

    def __init__(
        self,
        deliver: Callable[[Sequence[Packed]], Awaitable[Sequence[MessageId | HoldfastError]]],
        max_waiting: int = MAX_WAITING,
        max_waiting_bytes: int = MAX_WAITING_BYTES,
    ) -> None:
        self._deliver = deliver
        self._max_waiting = max_waiting
        self._max_bytes = max_waiting_bytes
        self._begin(None)

    def _begin(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """What has gathered on one event loop is not for another: that one has ended, or it is that of the
        parent of a fork, which sends it."""
        self._loop = loop
        self._waiting: deque[tuple[Packed, asyncio.Future[MessageId]]] = deque()
        self._bytes = 0
        self._room: deque[asyncio.Future[None]] = deque()
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """How many messages have gathered for the next call."""
        return len(self._waiting)

    def _full(self, size: int) -> bool:
        if len(self._waiting) >= self._max_waiting:
            return True
        # A message larger than the whole bound goes when nothing else waits.
        return bool(self._waiting) and self._bytes + size > self._max_bytes

    async def send(self, message: Packed) -> MessageId:
        """The id, once the message is stored. Cancelled, it may or may not have been sent."""
        loop, size = asyncio.get_running_loop(), len(message.envelope)
        if loop is not self._loop:
            self._begin(loop)
        while self._full(size):
            room: asyncio.Future[None] = loop.create_future()
            self._room.append(room)
            await room
        answer: asyncio.Future[MessageId] = loop.create_future()
        self._waiting.append((message, answer))
        self._bytes += size
        if self._task is None:
            self._task = loop.create_task(self._flush(), name="holdfast-producer")
        return await answer

    async def _flush(self) -> None:
        try:
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_BATCH))]
                self._bytes -= sum(len(message.envelope) for message, _ in batch)
                self._wake(len(batch))
                await self._send(batch)
        finally:
            self._task = None
            # Those woken above may have been cancelled since: nobody is left waiting for room.
            self._wake(len(self._room))

    def _wake(self, most: int) -> None:
        while self._room and most > 0:
            room = self._room.popleft()
            if not room.done():
                room.set_result(None)
                most -= 1

    async def _send(self, batch: list[tuple[Packed, asyncio.Future[MessageId]]]) -> None:
        try:
            answers = await self._deliver([message for message, _ in batch])
        except BaseException as error:
            for _, answer in batch:
                if isinstance(error, Exception):
                    _settle(answer, error)
                elif not answer.done():
                    answer.cancel()
            if not isinstance(error, Exception):
                raise
        else:
            for (_, answer), came in zip(batch, answers, strict=True):
                _settle(answer, came)


def _settle(answer: asyncio.Future[MessageId], came: MessageId | Exception) -> None:
    if answer.done():
        return
    if isinstance(came, Exception):
        answer.set_exception(came)
        # Somebody may have stopped waiting for it; that is no reason to complain.
        answer.exception()
    else:
        answer.set_result(came)
