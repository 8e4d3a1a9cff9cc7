"""One client's connection: requests in the order they came, answers in the same order.

Requests are read from the parser one at a time, when the one before is answered, so that what a client
has sent ahead rests as bytes and its size is known. Back-pressure goes both ways: while answers are
not read, no request is worked on, and while requests wait, no more are read from the socket. So one
client can make the server keep a read or two, the answer to one request, and no more; and all of it
counts in the meter.

Streams were not used: a coroutine per read costs as much as a whole PING.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from holdfast.client._async.delivery import AsyncDelivery
from holdfast.errors import HoldfastError, ServerBusy, TooLarge, Unauthenticated
from holdfast.server.access import Principal
from holdfast.server.broker import Session
from holdfast.server.resp.arguments import shown
from holdfast.server.resp.command import Command
from holdfast.server.resp.held import Held
from holdfast.server.resp.parser import Parser, ProtocolError
from holdfast.server.resp.writer import Encoded, Failure, Reply, encode, failure
from holdfast.server.taking import give_back
from holdfast.server.tls import common_name

if TYPE_CHECKING:
    from holdfast.server.resp.door import RespDoor

log = logging.getLogger("holdfast.server.resp")

# Bytes of requests that wait, and of answers, before the other side is made to wait.
_HIGH = 64 * 1024
# Requests that are run together have at most so many arguments in all.
_TOGETHER = 2_000

Work = tuple[Command, list[list[bytes]]]
"""A command, and the arguments of the requests that are to be run by it, one or several."""

_ids = itertools.count(1)


class Connection(asyncio.Protocol):
    def __init__(self, door: RespDoor) -> None:
        self.door = door
        self.id = next(_ids)
        self.name = ""
        self.library = ["", ""]
        self.protocol = 2
        self.user = ""
        self.held = Held()
        self.gone = False
        self.since = self.active = door.loop.time()
        self.last_command = "NULL"
        self.peer = "?"
        self._session: Session | None = None
        self._generation = door.gate.generation
        self._parser = Parser(door.broker.limits)
        self._transport = cast("asyncio.Transport", None)
        self._counted = False
        self._metered = 0
        self._in_hand = 0
        self.task: asyncio.Task[None] | None = None
        self._next: list[bytes] | None = None
        self._out: list[bytes] = []
        self._out_size = 0
        self._writable = True
        self._reading = True
        self._ending = False

    # ---- who -----------------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        if self._session is None:
            raise Failure("Authentication required.", "NOAUTH")
        return self._session

    def enter(self, who: Principal) -> None:
        self._session = self.door.broker.session(who)
        self.user = who.name
        self._generation = self.door.gate.generation

    def _look_again(self) -> None:
        """The tokens changed since this client entered: its own may be gone, or say something else."""
        if self._session is not None:
            try:
                self.enter(self.door.gate.still(self._session.who))
            except Unauthenticated:
                self._session, self.user = None, ""

    def leave(self) -> None:
        """As when the connection was made."""
        self._session = None
        self.name, self.protocol, self.user = "", 2, ""
        self.held = Held()
        if self.door.gate.open:
            self.enter(self.door.gate.enter(None))
        else:
            shown_name = common_name(self._transport.get_extra_info("peercert"))
            who = self.door.gate.enter_certificate(shown_name) if shown_name else None
            if who is not None:
                self.enter(who)

    # ---- the socket ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_HIGH)
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer)
        try:
            self.door.meter.connect()
        except ServerBusy as error:
            self._refuse(failure(error))
            return
        self._counted = True
        self.door.connections.add(self)
        self.leave()

    def connection_lost(self, error: Exception | None) -> None:
        self.gone = True
        self._out = []
        if self.task is not None:
            self.task.cancel()
        if self._counted:
            self.door.meter.disconnect()
            self.door.meter.give(self._metered)
            self._counted, self._metered = False, 0
        self.door.connections.discard(self)
        self.door.parted.set()

    def data_received(self, data: bytes) -> None:
        if self._ending and not self._counted:
            return
        self.active = self.door.loop.time()
        self._parser.feed(data)
        if self.task is None:
            self._go()
        self._weigh()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._writable = False
        self._weigh()

    def resume_writing(self) -> None:
        self._writable = True
        if self.task is None:
            self._go()
        self._weigh()

    def _weigh(self) -> None:
        """Tell the meter what this connection keeps, and read no more while that is much."""
        if self.gone or not self._counted:
            return
        waiting = self._parser.buffered
        busy = self.task is not None or not self._writable
        if self._reading and busy and waiting > _HIGH:
            self._reading = False
            self._transport.pause_reading()
        elif not self._reading and not self._ending and not (busy and waiting > _HIGH):
            self._reading = True
            self._transport.resume_reading()
        unread = 0 if self._writable else self._transport.get_write_buffer_size()
        total = waiting + self._in_hand + unread
        meter = self.door.meter
        if total <= self._metered or total < _HIGH:
            meter.give(self._metered - total)
        else:
            try:
                meter.take(total - self._metered)
            except ServerBusy as error:
                # Where the next request starts is known only to who reads all of this one.
                self._refuse(failure(error))
                return
        self._metered = total

    def _refuse(self, why: Failure) -> None:
        """Say why, and close: nothing further from this client can be understood or kept."""
        self._write(why)
        self._flush()
        self._ending = True
        self._parser = Parser(self.door.broker.limits)
        if self.task is not None:
            self.task.cancel()
        self._transport.close()

    def finish(self) -> None:
        """Answer what has come, then close."""
        self._ending = True
        if self._reading:
            self._reading = False
            self._transport.pause_reading()
        if self.task is None and self._writable:
            self.close()

    def part(self) -> None:
        """Close after the answer that is being made; what was sent behind its request is dropped."""
        self._ending = True
        self._next, self._parser = None, Parser(self.door.broker.limits)

    def close(self) -> None:
        """Close once everything written has gone out."""
        self._flush()
        self._ending = True
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    @property
    def idle(self) -> bool:
        return self.task is None

    # ---- requests ------------------------------------------------------------------------------

    def _go(self) -> None:
        work = self._advance()
        if work is not None:
            self.task = self.door.loop.create_task(self._work(work))
            # Whose client is gone may still have something to give back: the door waits for it.
            self.door.working.add(self.task)
            self.task.add_done_callback(self.door.working.discard)

    async def _work(self, work: Work | None) -> None:
        try:
            while work is not None:
                self._in_hand = sum(sum(map(len, arguments)) for arguments in work[1])
                self._weigh()
                for reply in await self._answers(*work):
                    self._write(reply)
                work = self._advance()
        finally:
            self.task = None
            self._in_hand = 0
        self._weigh()

    def _advance(self) -> Work | None:
        """Answers all requests that need no waiting; returns what comes then, if anything."""
        while self._writable and not self.gone:
            request = self._request()
            if request is None:
                self._flush()
                if self._ending and not self._transport.is_closing():
                    self._transport.close()
                return None
            try:
                command = self._command(request)
                if command.waits:
                    self._flush()
                    return command, self._alike(command, request)
                self._write(command.run(self, request[1:]))
            except Failure as error:
                self._write(error)
        return None

    def _request(self) -> list[bytes] | None:
        """The next one, also when it was looked at before its time."""
        if (request := self._next) is not None:
            self._next = None
            return request
        if self._transport.is_closing():
            return None
        try:
            return self._parser.next()
        except ProtocolError as error:
            self._refuse(Failure(f"Protocol error: {error}"))
        except TooLarge as error:
            self._refuse(failure(error))
        return None

    def _command(self, request: list[bytes]) -> Command:
        command = self.door.table.get(request[0].upper())
        if self._generation != self.door.gate.generation:
            self._look_again()
        if self._session is None and (command is None or not command.before_auth):
            raise Failure("Authentication required.", "NOAUTH")
        if command is None:
            begins = "".join(f"'{shown(arg)[1:-1]}' " for arg in request[1:9])
            raise Failure(
                f"unknown command '{shown(request[0])[1:-1]}', with args beginning with: {begins}"
            )
        self.last_command = command.name
        if not command.accepts(len(request) - 1):
            raise Failure(f"wrong number of arguments for '{command.name}' command")
        return command

    def _alike(self, command: Command, first: list[bytes]) -> list[list[bytes]]:
        """The arguments; and those of requests that follow, as long as they may be run together."""
        several = [first[1:]]
        if command.together is None or (same := command.alike(several[0])) is None:
            return several
        total = len(first)
        while (request := self._request()) is not None:
            arguments = request[1:]
            total += len(request)
            if (
                self.door.table.get(request[0].upper()) is not command
                or not command.accepts(len(arguments))
                or command.alike(arguments) != same
                or total > _TOGETHER
            ):
                self._next = request
                break
            several.append(arguments)
        return several

    async def _answers(self, command: Command, several: list[list[bytes]]) -> list[Reply]:
        if len(several) > 1 and command.together is not None:
            answers = await self.tried(command.together(self, several))
            return answers if isinstance(answers, list) else [answers] * len(several)
        return [await self.tried(command.run(self, several[0]))]

    async def tried(self, begun: Awaitable[Reply]) -> Reply:
        """The answer, or the error that is the answer."""
        try:
            return await begun
        except Failure as error:
            return error
        except HoldfastError as error:
            return failure(error)
        except Exception:
            # Without the arguments: they may be anything, secrets too.
            log.exception("%s failed on the connection from %s", self.last_command, self.peer)
            return Failure("internal error; the server's log has more")

    async def wait_for(
        self, take: Callable[[float], Awaitable[list[AsyncDelivery]]], wait: float
    ) -> list[AsyncDelivery]:
        """What `take` gets, given so many seconds; 0: until there is something. Less than 0: at once.

        Ends early, with nothing, when the door goes quiet; the broker gives back what was taken.
        """
        if wait < 0 or self.door.quieted.is_set():
            return await take(0)
        longest = self.door.broker.limits.wait_seconds
        give_up = self.door.loop.time() + wait
        quiet = self.door.loop.create_task(self.door.quieted.wait())
        try:
            while True:
                left = give_up - self.door.loop.time() if wait else longest + 1
                got = await self._until(quiet, take(max(min(left, longest), 0)))
                if got or quiet.done() or left <= longest:
                    return got
        finally:
            quiet.cancel()

    async def _until(
        self, end: asyncio.Future[Any], taking: Awaitable[list[AsyncDelivery]]
    ) -> list[AsyncDelivery]:
        """What was taken; nothing, if the end came first."""
        task = asyncio.ensure_future(taking)
        try:
            await asyncio.wait({task, end}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled() and task.exception() is None:
                await give_back(task.result())
            raise
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        return [] if task.cancelled() else task.result()

    # ---- answers -------------------------------------------------------------------------------

    def _write(self, reply: Reply) -> None:
        data = reply if type(reply) is Encoded else encode(reply, self.protocol)
        self._out.append(data)
        self._out_size += len(data)
        if self._out_size > _HIGH:
            self._flush()

    def _flush(self) -> None:
        if self._out and not self._transport.is_closing():
            self._transport.write(b"".join(self._out))
        self._out, self._out_size = [], 0
