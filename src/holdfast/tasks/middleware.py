"""What can be added around sending and running tasks: one class with a method per moment.

    class Audit(holdfast.Middleware):
        def failed(self, context, error): ...

    app = holdfast.App(middleware=[Audit()])

    @app.on("buried")                       # or one function for one moment
    def page_somebody(context, error): ...

Moments are told in the order in which the middleware was given. One that raises is logged and goes unheard;
it cannot fail a task. `wrap` is different: it runs around the handler, where the handler runs (coroutine,
thread or process), and what it raises counts as the handler's own.

| moment | told | when |
|---|---|---|
| `sending(sending)` | sender | before a message leaves; may add to `sending.attributes` |
| `started(context)` | worker | before the handler runs |
| `succeeded(context, value)` | worker | after it returned, before the ack |
| `failed(context, error)` | worker | after each attempt that raised, the last one too |
| `retried(context, error, delay)` | worker | it will be tried again in `delay` seconds |
| `buried(context, error)` | worker | it is a dead letter now; `error` may be text |
| `snoozed(context, delay)` | worker | it asked to come back later |
| `discarded(context, why)`, `cancelled(context)` | worker | it will not be done |
| `lost(context)` | worker | the lease is lost; what this attempt does no longer counts |
| `worker_started(worker)`, `worker_stopped(worker)` | worker | once per process |
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

from holdfast.errors import InvalidArgument
from holdfast.tasks.context import Context

log = logging.getLogger("holdfast")


class Sending:
    """A message on its way out. `attributes` may be added to."""

    __slots__ = ("attributes", "queue", "task")

    def __init__(self, task: str, queue: str, attributes: dict[str, str]) -> None:
        self.task = task
        self.queue = queue
        self.attributes = attributes


class Middleware:
    """Override what you need."""

    def wrap(self, context: Context) -> AbstractContextManager[Any]:
        return nullcontext()

    def sending(self, sending: Sending) -> None: ...
    def started(self, context: Context) -> None: ...
    def succeeded(self, context: Context, value: Any) -> None: ...
    def failed(self, context: Context, error: BaseException) -> None: ...
    def retried(self, context: Context, error: BaseException, delay: float) -> None: ...
    def buried(self, context: Context, error: BaseException | str) -> None: ...
    def snoozed(self, context: Context, delay: float) -> None: ...
    def discarded(self, context: Context, why: str) -> None: ...
    def cancelled(self, context: Context) -> None: ...
    def lost(self, context: Context) -> None: ...
    def worker_started(self, worker: Any) -> None: ...
    def worker_stopped(self, worker: Any) -> None: ...


MOMENTS = tuple(name for name in vars(Middleware) if not name.startswith("_") and name != "wrap")


def check_moment(name: str) -> None:
    if name not in MOMENTS:
        raise InvalidArgument(f"there is no moment {name!r}; there are: {', '.join(MOMENTS)}")


class Stack:
    """All middleware of an app. A moment that nobody listens to costs one look into a dict."""

    def __init__(self, middleware: Sequence[Middleware] = ()) -> None:
        self._listeners: dict[str, list[Callable[..., Any]]] = {}
        self._wraps: list[Callable[[Context], AbstractContextManager[Any]]] = []
        for each in middleware:
            self.add(each)

    def add(self, middleware: Middleware) -> None:
        if not isinstance(middleware, Middleware):
            raise InvalidArgument(f"{middleware!r} is no holdfast.Middleware")
        for moment in MOMENTS:
            if getattr(type(middleware), moment) is not getattr(Middleware, moment):
                self._listeners.setdefault(moment, []).append(getattr(middleware, moment))
        if type(middleware).wrap is not Middleware.wrap:
            self._wraps.append(middleware.wrap)

    def on(self, moment: str, listener: Callable[..., Any]) -> None:
        check_moment(moment)
        self._listeners.setdefault(moment, []).append(listener)

    def off(self, moment: str, listener: Callable[..., Any]) -> None:
        """It is not told any more."""
        listeners = self._listeners[moment]
        listeners.remove(listener)
        if not listeners:
            del self._listeners[moment]

    def listens(self, moment: str) -> bool:
        return moment in self._listeners

    def tell(self, moment: str, *what: Any) -> None:
        for listener in self._listeners.get(moment, ()):
            try:
                listener(*what)
            except Exception:
                log.exception("middleware raised at %r; going on", moment)

    @property
    def wraps(self) -> bool:
        return bool(self._wraps)

    def around(self, context: Context) -> AbstractContextManager[Any]:
        """All wraps, the first one outermost."""
        if not self._wraps:
            return nullcontext()
        stack = ExitStack()
        try:
            for wrap in self._wraps:
                stack.enter_context(wrap(context))
        except BaseException:
            stack.close()
            raise
        return stack
