"""A function that can be run elsewhere: called as it is, or sent."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Coroutine, Iterable
from datetime import datetime
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from holdfast import names
from holdfast.engine import calls
from holdfast.engine.calls import Packed
from holdfast.errors import InvalidArgument
from holdfast.message import MessageId, Outgoing
from holdfast.settings import Seconds
from holdfast.tasks import body as bodies
from holdfast.tasks import middleware
from holdfast.tasks.arguments import Arguments
from holdfast.tasks.flows import Job
from holdfast.tasks.handle import Handle, of_flow
from holdfast.tasks.options import PLAIN, Definition, Sending

if TYPE_CHECKING:
    from holdfast.tasks.app import App

P = ParamSpec("P")
R = TypeVar("R")
Call = tuple[Any, ...] | dict[str, Any] | Job[Any]


class Task(Generic[P, R]):
    """Get one by `@app.task`. Calling it calls the function; `.send(…)` has a worker do so."""

    def __init__(
        self, app: App, function: Callable[..., Any], name: str, definition: Definition
    ) -> None:
        self.app = app
        self.function = function
        self.name = names.check(name, "a task's name")
        self.definition = definition
        self.arguments = Arguments(function, name)
        self.__name__ = name
        self.is_async = inspect.iscoroutinefunction(function)
        if definition.run == "loop" and not self.is_async:
            raise InvalidArgument(
                f"task {name!r} is no coroutine function: it cannot run on the loop"
            )
        if self.is_async and definition.run in ("thread", "process"):
            raise InvalidArgument(f"task {name!r} is a coroutine function: it runs on the loop")
        self._opening = bodies.opening(name)
        d = definition
        # The common case: nothing about a call has to be worked out but its arguments.
        self._plain = not (d.priority or d.group or d.unique or d.unique_for_ms)
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)  # type: ignore[no-any-return]

    # ---- sending --------------------------------------------------------------------------

    def send(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Have it run by a worker; once this returns, it is held until it has run.

        Raises InvalidArgument, before anything is sent, where the function would not take the arguments.
        """
        return self._send(PLAIN, args, kwargs)

    def send_at(self, at: datetime, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """The same, not before that time (with a time zone)."""
        return self._send(Sending(due=at), args, kwargs)

    def send_in(self, seconds: Seconds, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """The same, not before so many seconds have passed."""
        return self._send(Sending(delay=seconds), args, kwargs)

    def send_many(self, many: Iterable[Call]) -> list[Handle[R]]:
        """Send many in one round trip: each a tuple of arguments, a dict of them by name, or `task.job(…)`.
        All are checked before any is sent."""
        queue, messages, bodies_only = self._prepare_many(many)
        if bodies_only is not None:
            ids = self.app.desk().send_bodies(queue, bodies_only)
        else:
            ids = self.app.desk().send_packed(queue, messages) if messages else []
        return self._handles(queue, ids)

    async def send_async(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """As send, for coroutines; concurrent ones travel together."""
        return await self._send_async(PLAIN, args, kwargs)

    async def send_at_async(self, at: datetime, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        return await self._send_async(Sending(due=at), args, kwargs)

    async def send_in_async(self, seconds: Seconds, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        return await self._send_async(Sending(delay=seconds), args, kwargs)

    async def send_many_async(self, many: Iterable[Call]) -> list[Handle[R]]:
        queue, messages, bodies_only = self._prepare_many(many)
        if bodies_only is not None:
            ids = await self.app.desk_async().send_bodies(queue, bodies_only)
        else:
            ids = await self.app.desk_async().send_packed(queue, messages) if messages else []
        return self._handles(queue, ids)

    def job(self, *args: Any, **kwargs: Any) -> Job[R]:
        """The task with its arguments, to be sent later or to be part of a chain or group. In a chain, leave
        out the first argument: it is what the step before returned."""
        return Job(self, args, kwargs)

    def using(
        self,
        *,
        delay: Seconds | None = None,
        due: datetime | None = None,
        priority: int | None = None,
        group: str | None = None,
        ttl: Seconds | None = None,
        queue: str | None = None,
    ) -> Using[P, R]:
        """Say more about a call: `task.using(priority=9).send(42)`."""
        return self.using_(Sending(delay, due, priority, group, ttl, queue))

    def using_(self, sending: Sending) -> Using[P, R]:
        return Using(self, sending)

    # ---- how ------------------------------------------------------------------------------

    def _send(self, said: Sending, args: Any, kwargs: Any) -> Handle[R]:
        desk, queue = self.app.desk(), said.queue or self.definition.queue
        if said is PLAIN and self._plain and not self.app.stack.listens("sending"):
            body = self._opening + self.arguments.bind(args, kwargs) + b"}"
            message_id = desk.send(queue, body)
        else:
            [message_id] = desk.send_packed(queue, [self.pack(said, args, kwargs)])
        return self._handle(queue, message_id)

    async def _send_async(self, said: Sending, args: Any, kwargs: Any) -> Handle[R]:
        desk, queue = self.app.desk_async(), said.queue or self.definition.queue
        if said is PLAIN and self._plain and not self.app.stack.listens("sending"):
            body = self._opening + self.arguments.bind(args, kwargs) + b"}"
            message_id = await desk.send(queue, body)
        else:
            [message_id] = await desk.send_packed(queue, [self.pack(said, args, kwargs)])
        return self._handle(queue, message_id)

    def _prepare_many(self, many: Iterable[Call]) -> tuple[str, list[Packed], list[bytes] | None]:
        """Where to, and either messages or, in the common case, bodies alone."""
        calls_ = [self._arguments_of(call) for call in many]
        simple = self._plain and not self.app.stack.listens("sending")
        if simple and all(said is PLAIN for said, _, _ in calls_):
            bind, opening = self.arguments.bind, self._opening
            ready = [opening + bind(args, kwargs) + b"}" for _, args, kwargs in calls_]
            return self.definition.queue, [], ready
        queues = {said.queue or self.definition.queue for said, _, _ in calls_}
        if len(queues) > 1:
            raise InvalidArgument(f"send_many sends to one queue, these go to {sorted(queues)}")
        packed = [self.pack(said, args, kwargs) for said, args, kwargs in calls_]
        return queues.pop() if queues else self.definition.queue, packed, None

    def _arguments_of(self, call: Call) -> tuple[Sending, tuple[Any, ...], dict[str, Any]]:
        if isinstance(call, tuple):
            return PLAIN, call, {}
        if isinstance(call, dict):
            return PLAIN, (), call
        if isinstance(call, Job):
            if call.task is not self:
                raise InvalidArgument(f"{call!r} is not a job of {self.name!r}")
            return call.sending, call.args, call.kwargs
        raise InvalidArgument(
            f"send_many takes tuples, dicts and jobs, not {type(call).__name__}; for one argument give (it,)"
        )

    def pack(
        self, said: Sending, args: Any, kwargs: Any, attributes: dict[str, str] | None = None
    ) -> Packed:
        """The message of a call, for those who send it in another way."""
        d = self.definition
        data = self.arguments.bind(args, kwargs)
        attributes = {} if attributes is None else attributes
        queue = said.queue or d.queue
        self.app.stack.tell("sending", middleware.Sending(self.name, queue, attributes))
        group = said.group
        if group is None and d.group is not None:
            group = d.group(*args, **kwargs)
        name = self._unique_name(data, args, kwargs) if d.unique or d.unique_for_ms else None
        outgoing = Outgoing(
            self._opening + data + b"}",
            delay=said.delay,
            due=said.due,
            priority=d.priority if said.priority is None else said.priority,
            attributes=attributes or None,
            group=group,
            dedup_id=name if d.unique_for_ms else None,
            ttl=said.ttl,
            dedup_window=d.unique_for_ms / 1000 if d.unique_for_ms else None,
        )
        return calls.pack(outgoing, unique=name if d.unique else None)

    def _unique_name(self, data: bytes, args: Any, kwargs: Any) -> str:
        """By the key, if the task has a function for that; else by all arguments."""
        if self.definition.unique_key is None:
            return f"{self.name}:{hashlib.blake2b(data, digest_size=16).hexdigest()}"
        # None would be one name for all that have none.
        key = self.definition.unique_key(*args, **kwargs)
        return f"{self.name}:{names.check(key, f'the unique_key of task {self.name!r}')}"

    def handle(
        self, task_id: str, queue: str | None = None, *, duplicate: bool = False
    ) -> Handle[R]:
        """A handle of what was sent, by its id; `queue` if it was sent to another than the task's own."""
        if of_flow(task_id):
            return self.app.handle(self, task_id, queue)
        d = self.definition
        return Handle(
            self.app,
            self.name,
            queue or d.queue,
            task_id,
            self.arguments.result,
            d.result_ttl_ms,
            duplicate,
        )

    def _handle(self, queue: str, sent: MessageId) -> Handle[R]:
        made = self.handle(str(sent), queue, duplicate=sent.duplicate)
        if self.app.after_send is not None:
            self.app.after_send(queue)
        return made

    def _handles(self, queue: str, ids: Iterable[MessageId]) -> list[Handle[R]]:
        made = [self.handle(str(i), queue, duplicate=i.duplicate) for i in ids]
        if self.app.after_send is not None:
            self.app.after_send(queue)
        return made

    def __repr__(self) -> str:
        return f"<Task {self.name!r} in {self.definition.queue!r}>"


class AsyncTask(Task[P, R]):
    """A coroutine function."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:  # type: ignore[override]
        return self.function(*args, **kwargs)  # type: ignore[no-any-return]


class Using(Generic[P, R]):
    """A task with more said about its next calls."""

    def __init__(self, task: Task[P, R], sending: Sending) -> None:
        self._task = task
        self._sending = sending

    def send(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        return self._task._send(self._sending, args, kwargs)

    async def send_async(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        return await self._task._send_async(self._sending, args, kwargs)

    def job(self, *args: Any, **kwargs: Any) -> Job[R]:
        return Job(self._task, args, kwargs, self._sending)
