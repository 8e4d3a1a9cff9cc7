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
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import grpc

from holdfast.client._async.delivery import AsyncDelivery
from holdfast.errors import Unauthenticated, Unavailable
from holdfast.server.access import Principal
from holdfast.server.broker import Broker, Session
from holdfast.server.gate import Gate
from holdfast.server.grpc.status import refuse
from holdfast.server.grpc.windows import Windows
from holdfast.server.meter import Meter
from holdfast.server.taking import give_back
from holdfast.settings import Seconds

Context = grpc.aio.ServicerContext[Any, Any]
Q = TypeVar("Q", bound="Sized")
A = TypeVar("A")
S = TypeVar("S", bound="Served")

_SCHEME = "bearer "
# What every gRPC client takes unless told otherwise is 4 MB.
_ANSWER_BYTES = 3_500_000
# For what goes with a body: ids, attributes.
_ROUND_IT = 200
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
            # The caller went away in the moment in which there was something for it.
            if task.done() and not task.cancelled() and task.exception() is None:
                self.aside(give_back(task.result()))
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
        self._taken: list[AsyncDelivery] = []

    def look_again(self) -> None:
        """For calls that last: the tokens may have changed. Raises Unauthenticated."""
        who = self.desk.gate.still(self.session.who)
        if who is not self.session.who:
            self.session = self.desk.broker.session(who)

    def wait(self, wait_ms: int) -> float:
        """Seconds to wait, shortened so that the answer is there before the deadline."""
        seconds = wait_ms / 1000
        left = self.context.time_remaining()
        if left is None or seconds <= 0:
            return seconds
        return min(seconds, max(left - min(0.5, left / 5), 0.001))

    async def take(
        self,
        taking: Callable[[Seconds], Coroutine[Any, Any, list[AsyncDelivery]]],
        wait_ms: int,
        *,
        settled: bool = False,
    ) -> list[AsyncDelivery]:
        """What `taking` takes for this caller, as much of it as fits into an answer; the rest, and
        all of it if the call fails after this, is given back. `settled`: there is no giving back."""
        seconds = self.wait(wait_ms)
        if seconds > 0:
            got = await self.desk.until_quiet(taking(seconds))
        else:
            got = await taking(seconds)
        if settled or not got:
            return got
        fit = _fitting(got)
        if rest := got[fit:]:
            self.desk.aside(give_back(rest))
        self._taken = got[:fit]
        return self._taken

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Inside, what was taken is given back if the answer is never made. Once it is on its way
        nobody can tell whether it arrives: the lease decides."""
        try:
            yield
        except BaseException:
            if self._taken:
                self.desk.aside(give_back(self._taken))
            raise


def _fitting(got: Sequence[AsyncDelivery]) -> int:
    """How many fit; one always does. gRPC does not tell us that a client has turned down an answer
    for its size, and the messages would be away until their lease ends."""
    size = 0
    for n, delivery in enumerate(got):
        size += delivery.size + _ROUND_IT
        if size > _ANSWER_BYTES and n:
            return n
    return len(got)


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
            with desk.meter.holding(request.ByteSize()), call.answering():
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
