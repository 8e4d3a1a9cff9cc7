"""One server and the connections to it: redis-py's own Connection objects, used directly."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakSet

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from holdfast.client.address import PATIENCE, Address
from holdfast.client.io_async import (
    Connection,
    Lock,
    abandon,
    connection,
    heeding,
    read_for,
    read_within,
    send,
)
from holdfast.client.wire import packed, packed_one
from holdfast.engine.calls import Argument

MAX_IDLE = 64

# Who waits for something to happen asks so often whether the node is still the one, seconds.
_LISTEN = 1.0

_NO_CONNECTION = (RedisConnectionError, RedisTimeoutError)


class Superseded(RedisConnectionError):
    """The node says nothing, and another one has taken over."""


class Unreached(RedisConnectionError):
    """There is no connection to the node: nothing was sent."""


class Garbled(RedisConnectionError):
    """What came is no answer in the protocol: who knows what it was an answer to."""


def _garbled(error: BaseException) -> bool:
    """An error in the middle of an exchange that is no lost connection."""
    known = RedisConnectionError | RedisTimeoutError | OSError | ResponseError
    return isinstance(error, Exception) and not isinstance(error, known)


class AsyncNode:
    """One server and the idle connections to it.

    `doubt` is called while an answer does not come, about once a second, with the node and whether it may
    be silent for a reason; it raises Superseded if there is no use in waiting longer.
    """

    def __init__(
        self,
        address: Address,
        host: str,
        port: int,
        timeout: float,
        doubt: Callable[[AsyncNode, bool], Any] | None = None,
    ) -> None:
        self.address = address
        self.host = host
        self.port = port
        self.timeout = timeout
        self._doubt = doubt
        self.prepared = False
        self.retired = False
        """Its client is closed: what is still under way keeps no connection."""
        self.lock = Lock()
        self._idle: list[Connection] = []
        # Those in use, too: a child of a fork must let go of them all.
        self._all: WeakSet[Connection] = WeakSet()

    def __str__(self) -> str:
        return self.address.path or f"{self.host}:{self.port}"

    async def acquire(self, fresh: bool = False) -> Connection:
        """An idle connection, or a new one; `fresh`: in any case a new one."""
        if not fresh and (idle := self._take_idle()) is not None:
            return idle
        made = connection(self.address, self.host, self.port, self.timeout)
        self._all.add(made)
        try:
            await heeding(made.connect())
            await read_for(made, min(self.timeout, PATIENCE))
        except BaseException as error:
            await made.disconnect()
            if type(error) in _NO_CONNECTION or isinstance(error, OSError):
                raise Unreached(str(error)) from error
            if _garbled(error):
                raise Garbled(f"{type(error).__name__}: {error}") from error
            raise
        return made

    async def release(self, used: Connection) -> None:
        if len(self._idle) < MAX_IDLE:
            self._idle.append(used)
            if self.retired:  # looked at last: another thread may be closing
                await self.close()
        else:
            await used.disconnect()

    def forked(self) -> None:
        """In the child of a fork: none of these connections is ours, and nobody here holds the lock."""
        inherited, self._all, self._idle = list(self._all), WeakSet(), []
        self.lock = Lock()
        for used in inherited:
            abandon(used)

    async def close(self) -> None:
        while (idle := self._take_idle()) is not None:
            await idle.disconnect()

    def _take_idle(self) -> Connection | None:
        try:
            return self._idle.pop()  # in one step: another thread may take the last one
        except IndexError:
            return None

    async def exchange(
        self, commands: Sequence[tuple[Argument, ...]], *, fresh: bool = False
    ) -> list[Any]:
        """Send commands in one go and read all answers; an error answer is returned, not raised."""
        data = packed(commands)
        used = await self.acquire(fresh)
        try:
            await send(used, data, self.timeout)
            answers = [await self._answer(used) for _ in commands]
        except BaseException as error:
            await used.disconnect()
            if _garbled(error):
                raise Garbled(f"{type(error).__name__}: {error}") from error
            raise
        await self.release(used)
        return answers

    async def exchange_after(
        self,
        markers: Sequence[str],
        seconds: float,
        commands: Sequence[tuple[Argument, ...]],
        last: tuple[Argument, ...] | None = None,
    ) -> list[Any]:
        """Block until a marker is there or the time is over, then the same. `last`: a command that may
        block too, so that it is sent when nobody wants to unblock this connection any more."""
        blocking = ("BLPOP", *markers, f"{seconds + 1:.3f}")
        return (await self._block(blocking, seconds, commands, last))[1]

    async def wait_in_list(self, key: str, seconds: float) -> Any:
        """The first element of a list as soon as it has one, or None; the element stays, and so does
        the list's time to live: it is moved to where it was."""
        blocking = ("BLMOVE", key, key, "LEFT", "LEFT", f"{seconds + 1:.3f}")
        answer, _ = await self._block(blocking, seconds, ())
        if isinstance(answer, ResponseError):
            raise answer
        return answer

    async def _block(
        self,
        blocking: tuple[Argument, ...],
        seconds: float,
        commands: Sequence[tuple[Argument, ...]],
        last: tuple[Argument, ...] | None = None,
    ) -> tuple[Any, list[Any]]:
        """One pipeline: the server goes on with the commands in the moment the blocking one is done.
        The end of the time is ours to watch, since the server looks at its own time-outs only ten
        times a second; a second connection then unblocks the first."""
        data = packed([("CLIENT", "ID"), blocking, *commands])
        used = await self.acquire()
        try:
            await send(used, data, self.timeout)
            me = await self._answer(used)
            first: Any
            try:
                first = await self._read_within(used, seconds)
            except TimeoutError:
                await self.exchange([("CLIENT", "UNBLOCK", me)])
                first = await self._answer(used)
            except ResponseError as error:
                # The commands behind it get the same refusal, and theirs is the one that counts.
                first = error
            answers = [await self._answer(used) for _ in commands]
            if last is not None:
                await send(used, packed_one(last), self.timeout)
                answers.append(await self._answer(used))
        except BaseException as error:
            # Closed, the server forgets the commands that wait behind the blocking one.
            await used.disconnect()
            if _garbled(error):
                raise Garbled(f"{type(error).__name__}: {error}") from error
            raise
        await self.release(used)
        return first, answers

    async def subscribe(self, used: Connection, channel: bytes) -> list[Any]:
        """Listen to a channel over a connection of the caller's own. What came before the answer."""
        came: list[Any] = []
        try:
            await send(used, packed_one(("SSUBSCRIBE", channel)), self.timeout)
            while (answer := await self._answer(used))[0] != b"ssubscribe":
                came.append(answer)
        except BaseException as error:
            await used.disconnect()
            if _garbled(error):
                raise Garbled(f"{type(error).__name__}: {error}") from error
            raise
        return came

    async def _answer(self, used: Connection) -> Any:
        try:
            try:
                return await used.read_response(disable_decoding=True, disconnect_on_error=False)
            except RedisTimeoutError:
                return await self._read_on(used)
        except ResponseError as error:
            return error

    async def _read_on(self, used: Connection) -> Any:
        """An answer that has not come for a while: it may be late, or the node is gone without a word."""
        give_up = time.monotonic() + self.timeout - min(self.timeout, PATIENCE)
        while time.monotonic() < give_up:
            if self._doubt is not None:
                await self._doubt(self, False)
            try:
                return await used.read_response(disable_decoding=True, disconnect_on_error=False)
            except RedisTimeoutError:
                continue
        raise RedisTimeoutError(f"{self} has not answered for {self.timeout:g} s")

    async def _read_within(self, used: Connection, seconds: float) -> Any:
        """What a blocking command answers, or TimeoutError. It may well say nothing for so long; but who
        waits at a node that is gone would wait in vain."""
        give_up = time.monotonic() + seconds
        while True:
            left = give_up - time.monotonic()
            try:
                return await read_within(used, max(min(left, _LISTEN), 0.001))
            except TimeoutError:
                if left <= _LISTEN:
                    raise
            if self._doubt is not None:
                await self._doubt(self, True)

    async def command(self, *command: Argument, fresh: bool = False) -> Any:
        """As exchange, for one command, which is what most are; an error answer is raised."""
        data = packed_one(command)
        used = await self.acquire(fresh)
        try:
            await send(used, data, self.timeout)
            try:
                answer = await used.read_response(disable_decoding=True, disconnect_on_error=False)
            except RedisTimeoutError:
                answer = await self._read_on(used)
        except ResponseError:
            await self.release(used)
            raise
        except BaseException as error:
            await used.disconnect()
            if _garbled(error):
                raise Garbled(f"{type(error).__name__}: {error}") from error
            raise
        await self.release(used)
        return answer
