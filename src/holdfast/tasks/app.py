"""An app: tasks that belong together, and the server they go through."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from holdfast import forks, names
from holdfast.client import safety
from holdfast.client._async.client import AsyncClient
from holdfast.client._async.connecting import connect_async
from holdfast.client._sync.client import Client
from holdfast.client._sync.connecting import connect
from holdfast.client.remote_address import is_remote
from holdfast.errors import InvalidArgument, Unsupported
from holdfast.settings import Seconds, milliseconds
from holdfast.tasks._async.desk import AsyncDesk
from holdfast.tasks._sync.desk import Desk
from holdfast.tasks.arguments import Shape
from holdfast.tasks.cron import Cron, Missed
from holdfast.tasks.flows import Part, plan
from holdfast.tasks.handle import Handle, of_flow
from holdfast.tasks.limits import Limit
from holdfast.tasks.middleware import Middleware, Stack, check_moment
from holdfast.tasks.options import RESULT_TTL, Definition, Run, Unique, define
from holdfast.tasks.retries import Retries
from holdfast.tasks.task import AsyncTask, Task

P = ParamSpec("P")
R = TypeVar("R")


class Decorator(Protocol):
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


class App:
    """Tasks, and where they are sent. Connects when first needed; cheap to make at import.

    `url`: as for `holdfast.connect`: a Valkey or Redis; HOLDFAST_URL if not given; else the embedded
    server (`home`, `durability`). `queue`, `retries`, `result_ttl`: what tasks get that do not say.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        queue: str = "default",
        retries: int | Retries = 3,
        result_ttl: Seconds | None = RESULT_TTL,
        middleware: Sequence[Middleware] = (),
        timeout: float = 10.0,
        retry_for: float = 30.0,
        replicas: int = 0,
        check: safety.Check = "warn",
        home: str | os.PathLike[str] | None = None,
        durability: str | None = None,
    ) -> None:
        self.default_queue = names.check(queue, "a queue's name")
        """Where tasks go that do not say, and where the ends of flows are kept."""
        self._retries = retries
        self._result_ttl = result_ttl
        self._url = url
        self._options: dict[str, Any] = {
            "timeout": timeout,
            "retry_for": retry_for,
            "replicas": replicas,
            "check": check,
            "home": home,
            "durability": durability,
        }
        # A module that a handler imports may define tasks while other threads look through them.
        self._defining = threading.Lock()
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.crons: dict[str, Cron] = {}
        self.limits: dict[str, tuple[Limit, ...]] = {}
        self.settings: dict[str, dict[str, Any]] = {}
        self.stack = Stack(middleware)
        self.after_send: Callable[[str], None] | None = None
        """For tests: called with the queue's name after each send."""
        # What makes its clients; tests put their own here.
        self.connecting: Callable[..., Client] = connect
        self.connecting_async: Callable[..., AsyncClient] = connect_async
        self._lock = threading.Lock()
        self._desk: Desk | None = None
        self._desks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncDesk] = (
            weakref.WeakKeyDictionary()
        )
        forks.watch(self)

    def forked(self) -> None:
        """In the child of a fork: nobody here holds a lock. The clients see to themselves."""
        self._defining, self._lock = threading.Lock(), threading.Lock()

    # ---- defining -------------------------------------------------------------------------

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self,
        *,
        name: str | None = None,
        queue: str | None = None,
        priority: int = 0,
        retries: int | Retries | None = None,
        timeout: Seconds | None = None,
        result_ttl: Seconds | None = ...,
        run: Run = "auto",
        group: Callable[..., str] | None = None,
        unique: Unique | None = None,
        unique_for: Seconds | None = None,
        unique_key: Callable[..., str] | None = None,
        limits: Sequence[Limit] = (),
    ) -> Decorator: ...
    def task(self, function: Any = None, /, **options: Any) -> Any:  # type: ignore[misc]
        """Make a task of a function.

        `name`: the function's own if not given. `priority`: 0 to 9, higher first. `retries`: a number, or
        `Retries`. `timeout`: seconds for one attempt. `result_ttl`: how long the result is kept; None: it is
        not. `run`: coroutine functions run on the loop, others in a thread, or with "process" in a process
        of their own, for work that keeps a core busy. `group`: from the arguments to a name; tasks of one
        group run one at a time, in order. `unique`: send no second one while the same is "queued", or until
        it has been run ("running"); `unique_for`: for so many seconds; the same: the same arguments, or
        `unique_key`. `limits`: Rate and Concurrency, over all workers.
        """
        name = options.pop("name", None)
        usual = {
            "queue": self.default_queue,
            "retries": self._retries,
            "result_ttl": self._result_ttl,
        }
        for option, value in usual.items():
            # None says something of a result_ttl, and nothing of the others.
            if option not in options or (options[option] is None and option != "result_ttl"):
                options[option] = value
        definition = define(**options)
        if function is not None:
            return self._add(function, name, definition)
        return lambda function: self._add(function, name, definition)

    def _add(self, function: Any, name: str | None, definition: Definition) -> Task[Any, Any]:
        if not callable(function) or isinstance(function, type | Task):
            raise InvalidArgument(f"{function!r} is no function; @app.task goes over a function")
        name = name or function.__name__
        kind = AsyncTask if asyncio.iscoroutinefunction(function) else Task
        made: Task[Any, Any] = kind(self, function, name, definition)
        with self._defining:
            found = self.tasks.setdefault(name, made)
        if found is not made:
            raise InvalidArgument(
                f"there is a task {name!r} already, in {found.function.__module__}; give one of them another "
                "name: @app.task(name=…)"
            )
        return made

    def cron(
        self,
        expression: str,
        *,
        tz: str = "UTC",
        name: str | None = None,
        missed: Missed = "skip",
        **options: Any,
    ) -> Callable[[Any], Task[Any, Any]]:
        """Run a task whenever the time matches, once per tick however many workers there are.

        Over a function, with the options of `task`, or over a task. `expression`: cron's five fields; six
        with seconds first; or @hourly, @daily, @weekly, @monthly, @yearly. `tz`: whose clock. `missed`:
        what to do about a tick at which no worker was there, nor within ten seconds after it: "skip" it, or
        "run" the last one late.
        """

        def add(function: Any) -> Task[Any, Any]:
            task = function if isinstance(function, Task) else self.task(**options)(function)
            entry = Cron(name or task.name, task, expression, tz, missed)
            if task.definition.unique_for_ms:
                raise InvalidArgument(
                    f"schedule {entry.name!r}: a tick is told from others by its time, and unique_for would "
                    "not be kept; leave it out, or say unique='queued' or unique='running'"
                )
            if entry.name in self.crons:
                raise InvalidArgument(
                    f"there is a schedule {entry.name!r} already; give one a name=…"
                )
            self.crons[entry.name] = entry
            return task

        return add

    def queue(self, name: str, *, limits: Sequence[Limit] = (), **settings: Any) -> None:
        """Say something about a queue: limits on all that is run from it, and settings (lease, aging, shards
        …) that workers apply when they start."""
        names.check(name, "a queue's name")
        for limit in limits:
            if not isinstance(limit, Limit) or limit.key is not None:
                raise InvalidArgument("a queue's limits are Rate and Concurrency, without keys")
        self.limits[name] = tuple(limits)
        self.settings[name] = dict(settings)

    def on(self, moment: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Have a function called at a moment: see `holdfast.Middleware` for what there is."""
        check_moment(moment)

        def add(listener: Callable[..., Any]) -> Callable[..., Any]:
            self.stack.on(moment, listener)
            return listener

        return add

    def add(self, middleware: Middleware) -> None:
        self.stack.add(middleware)

    @property
    def queues(self) -> list[str]:
        """All queues that this app's tasks go to."""
        with self._defining:
            return sorted({task.definition.queue for task in self.tasks.values()})

    # ---- sending --------------------------------------------------------------------------

    def start(self, part: Part[R]) -> Handle[R]:
        """Start a flow; see `chain` and `group`."""
        flow, items = plan(part, self.default_queue, self._flow_ttl_ms)
        self.desk().begin(flow, items)
        return self._started(flow.id)

    async def start_async(self, part: Part[R]) -> Handle[R]:
        flow, items = plan(part, self.default_queue, self._flow_ttl_ms)
        await self.desk_async().begin(flow, items)
        return self._started(flow.id)

    @property
    def _flow_ttl_ms(self) -> int:
        return 0 if self._result_ttl is None else milliseconds(self._result_ttl, "result_ttl")

    def _started(self, flow_id: str) -> Handle[Any]:
        if self.after_send is not None:
            self.after_send("")
        return self._flow_handle(flow_id)

    def _flow_handle(self, flow_id: str, queue: str | None = None) -> Handle[Any]:
        home, ttl_ms = queue or self.default_queue, self._flow_ttl_ms
        return Handle(self, "flow", home, flow_id, shape=Shape(Any), ttl_ms=ttl_ms)

    def handle(self, task: str | Task[Any, R], id: str, queue: str | None = None) -> Handle[R]:
        """A handle of a task that was sent, or of a flow that was started, by its id; `queue` if it was sent
        to another than its own. For a flow, `task` is "flow", or any of its tasks."""
        if of_flow(id):
            return self._flow_handle(id, queue)
        found = task if isinstance(task, Task) else self.tasks.get(task)
        if found is None:
            raise InvalidArgument(f"this app has no task {task!r}")
        return found.handle(id, queue)

    # ---- connecting -----------------------------------------------------------------------

    def desk(self) -> Desk:
        """Where this process's calls go; made at the first of them."""
        found = self._desk
        if found is not None:
            return found
        with self._lock:
            if self._desk is None:
                self._check_url()
                self._desk = Desk(self.connecting(self._url, **self._options), self.stack)
            return self._desk

    def desk_async(self) -> AsyncDesk:
        """The same for the running event loop: each has its own connections."""
        loop = asyncio.get_running_loop()
        found = self._desks.get(loop)
        if found is None:
            self._check_url()
            client = self.connecting_async(self._url, **self._options)
            found = self._desks[loop] = AsyncDesk(client, self.stack)
        return found

    @property
    def connection(self) -> dict[str, Any]:
        """Where it connects to, as plain data: `connect_to(**connection)` in another process does the same.
        A password is in there, if there is one."""
        home = self._options["home"]
        return self._options | {"url": self._url, "home": None if home is None else str(home)}

    def connect_to(self, url: str | None, **options: Any) -> None:
        """Use another server from now on. For tests and for workers that are told so on the command line."""
        with self._lock:
            desk, self._desk = self._desk, None
            self._desks = weakref.WeakKeyDictionary()
            self._url = url
            self._options |= options
        if desk is not None:
            desk.close()

    def _check_url(self) -> None:
        url = self._url or os.environ.get("HOLDFAST_URL")
        if url is not None and is_remote(url):
            raise Unsupported(
                "an app needs a Valkey or Redis itself (redis://…), not a Holdfast server (grpc://…): "
                "results and flows are not part of the gRPC contract; others send tasks as JSON messages"
            )

    def close(self) -> None:
        """Close this process's connections; the next call opens new ones."""
        with self._lock:
            desk, self._desk = self._desk, None
        if desk is not None:
            desk.close()

    async def close_async(self) -> None:
        """The same for the running loop."""
        desk = self._desks.pop(asyncio.get_running_loop(), None)
        if desk is not None:
            await desk.close()

    def __repr__(self) -> str:
        return f"<App of {len(self.tasks)} tasks>"
