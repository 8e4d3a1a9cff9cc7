"""What every call goes through: who is it, may it be now, and what becomes of it when it fails.

The `Desk` is shared by all calls of one door. It lets callers in, knows which of them merely wait (so
that a server that stops can send them away empty-handed), and finishes what must be finished after
a call is gone. Interceptors were turned down: a decorator on each method does the same, is typed,
and can be seen where the method is.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

import grpc

from holdfast.client._async.delivery import AsyncDelivery
from holdfast.errors import Unauthenticated, Unavailable
from holdfast.server.access import Principal
from holdfast.server.broker import Broker, Session, give_back
from holdfast.server.gate import Gate
from holdfast.server.grpc.status import refuse
from holdfast.server.grpc.windows import Windows
from holdfast.server.meter import Meter
from holdfast.settings import Seconds

Context = grpc.aio.ServicerContext[Any, Any]
Q = TypeVar("Q", bound="Sized")
A = TypeVar("A")
S = TypeVar("S", bound="Served")

_SCHEME = "bearer "
STOPPING = "this server is stopping; connect again, it or another one will answer"


class Sized(Protocol):
    def ByteSize(self) -> int: ...


class Desk:
    def __init__(self, broker: Broker, gate: Gate, meter: Meter) -> None:
        self.broker = broker
        self.gate = gate
        self.meter = meter
        self.windows = Windows()
        self.quieting = False
        self.busy = 0
        """Calls under way, streams included."""
        self._waiting: set[asyncio.Task[Any]] = set()
        self._aside: set[asyncio.Task[None]] = set()

    def who(self, context: Context) -> Principal:
        """Raises Unauthenticated for a wrong token, or for neither token nor known certificate."""
        token: str | None = None
        for key, value in context.invocation_metadata() or ():
            if key == "authorization":
                text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
                if not text.lower().startswith(_SCHEME):
                    raise Unauthenticated("authorization must be 'Bearer' and a token")
                token = text[len(_SCHEME) :].strip()
        if token is None:
            for name in context.auth_context().get("x509_common_name", ()):
                known = self.gate.enter_certificate(name.decode("utf-8", "replace"))
                if known is not None:
                    return known
        return self.gate.enter(token, peer=context.peer())

    def admit(self, context: Context, *, settles: bool) -> Call:
        """Once the server is told to stop, only those who settle what they have may still come in."""
        session = self.broker.session(self.who(context))
        if self.quieting and not settles:
            raise Unavailable(STOPPING)
        return Call(self, session, context)

    async def until_quiet(
        self, taking: Coroutine[Any, Any, list[AsyncDelivery]]
    ) -> list[AsyncDelivery]:
        """What was taken; nothing if the server is told to stop while this waits."""
        task = asyncio.ensure_future(taking)
        self._waiting.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            me = asyncio.current_task()
            if self.quieting and not (me and me.cancelling()):
                return []
            raise
        finally:
            self._waiting.discard(task)

    def quiet(self) -> None:
        self.quieting = True
        for task in self._waiting:
            task.cancel()
        self.windows.stir()

    def aside(self, work: Coroutine[Any, Any, None]) -> None:
        """To be finished although the call it belongs to is over."""
        task = asyncio.ensure_future(work)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    async def finish(self, seconds: float) -> None:
        if self._aside:
            await asyncio.wait(list(self._aside), timeout=seconds)


class Call:
    """One call: its session, and how long it may take."""

    def __init__(self, desk: Desk, session: Session, context: Context) -> None:
        self.desk = desk
        self.session = session
        self.context = context

    def wait(self, wait_ms: int) -> float:
        """Seconds to wait, shortened so that the answer is there before the deadline."""
        seconds = wait_ms / 1000
        left = self.context.time_remaining()
        if left is None or seconds <= 0:
            return seconds
        return min(seconds, max(left - min(0.1, left / 5), 0.001))

    async def take(
        self, taking: Callable[[Seconds], Coroutine[Any, Any, list[AsyncDelivery]]], wait_ms: int
    ) -> list[AsyncDelivery]:
        """What `taking` takes for this caller. If the caller is gone by then, it is given back."""
        seconds = self.wait(wait_ms)
        if seconds > 0:
            got = await self.desk.until_quiet(taking(seconds))
        else:
            got = await taking(seconds)
        if got:
            gone = functools.partial(self._unless_gone, got)
            self.context.add_done_callback(gone)  # type: ignore[arg-type] # the stubs say no argument
        return got

    def _unless_gone(self, got: list[AsyncDelivery], context: Context) -> None:
        # Also called at the end of a call whose answer went out: then nothing is to be done.
        if context.cancelled():
            self.desk.aside(give_back(got))


class Served(Protocol):
    desk: Desk


def unary(
    method: Callable[[S, Q, Call], Awaitable[A]], *, settles: bool = False
) -> Callable[[S, Q, Context], Awaitable[A]]:
    """A method that answers once."""

    @functools.wraps(method)
    async def answer(self: S, request: Q, context: Context) -> A:
        desk = self.desk
        desk.busy += 1
        try:
            call = desk.admit(context, settles=settles)
            with desk.meter.holding(request.ByteSize()):
                return await method(self, request, call)
        except Exception as error:
            await refuse(context, error)
        finally:
            desk.busy -= 1

    return answer


def settling(
    method: Callable[[S, Q, Call], Awaitable[A]],
) -> Callable[[S, Q, Context], Awaitable[A]]:
    """One that settles what the caller holds: it is let in while the server stops, too."""
    return unary(method, settles=True)


def stream(
    method: Callable[[S, Q, Call], Awaitable[None]],
) -> Callable[[S, Q, Context], Awaitable[None]]:
    """A method that writes its answers, one after the other."""
    return unary(method)


def two_way(
    method: Callable[[S, Q, Call], Awaitable[A]],
) -> Callable[[S, AsyncIterator[Q], Context], Awaitable[None]]:
    """A method that answers each request of a stream, in order, and reads on when it has."""

    @functools.wraps(method)
    async def answer(self: S, requests: AsyncIterator[Q], context: Context) -> None:
        desk = self.desk
        desk.busy += 1
        try:
            call = desk.admit(context, settles=False)
            async for request in requests:
                if desk.quieting:
                    raise Unavailable(STOPPING)
                with desk.meter.holding(request.ByteSize()):
                    await context.write(await method(self, request, call))
        except Exception as error:
            await refuse(context, error)
        finally:
            desk.busy -= 1

    return answer


async def until(condition: Callable[[], bool], seconds: float) -> None:
    """Returns when it is so, or when the time is over."""
    give_up = time.monotonic() + seconds
    while not condition() and time.monotonic() < give_up:
        await asyncio.sleep(0.01)
