"""A task that was sent, in the hands of who sent it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.errors import InvalidArgument, ResultTimeout
from holdfast.settings import Seconds, milliseconds
from holdfast.tasks import body as bodies
from holdfast.tasks.arguments import Shape
from holdfast.tasks.results import Status, decode, from_state, value_of

if TYPE_CHECKING:
    from holdfast.message import Message
    from holdfast.tasks.app import App

R = TypeVar("R")


class Handle(Generic[R]):
    """Wait for the result, ask how far it is, or cancel it. Every method has a twin for coroutines.

    A handle is only a name: `app.handle(task, id)` makes another one, in whichever process.
    """

    __slots__ = ("_app", "_shape", "_ttl_ms", "duplicate", "id", "queue", "task")

    def __init__(
        self,
        app: App,
        task: str,
        queue: str,
        id: str,
        shape: Shape,
        ttl_ms: int,
        duplicate: bool = False,
    ) -> None:
        self._app = app
        self._shape = shape
        self._ttl_ms = ttl_ms
        self.task = task
        self.queue = queue
        self.id = id
        self.duplicate = duplicate
        """True if nothing was sent, because the same task was there already: this is its handle."""

    def result(self, timeout: Seconds | None = None) -> R:
        """What the task returned, as soon as it has; of the type that it is annotated with.

        Raises TaskFailed if it became a dead letter, TaskCancelled if it was cancelled or discarded itself,
        ResultTimeout if it has not ended in time (`timeout` None: wait as long as it takes).
        """
        wait = self._patience(timeout)
        found = self._app.desk().wait(self.queue, self.id, wait)
        if found is None:
            raise self._too_late(wait, self.status())
        return self._read(found)

    async def result_async(self, timeout: Seconds | None = None) -> R:
        wait = self._patience(timeout)
        found = await self._app.desk_async().wait(self.queue, self.id, wait)
        if found is None:
            raise self._too_late(wait, await self.status_async())
        return self._read(found)

    def status(self) -> Status:
        """queued, delayed, running, retrying; succeeded, failed, cancelled, discarded; or unknown: it ended,
        and its result is no longer kept, or it never was."""
        desk = self._app.desk()
        found = desk.kept(self.queue, self.id)
        if found is not None:
            return decode(found).status
        if of_flow(self.id):
            return "running" if desk.under_way(self.id) else "unknown"
        return _said(desk.message(self.queue, self.id))

    async def status_async(self) -> Status:
        desk = self._app.desk_async()
        found = await desk.kept(self.queue, self.id)
        if found is not None:
            return decode(found).status
        if of_flow(self.id):
            return "running" if await desk.under_way(self.id) else "unknown"
        return _said(await desk.message(self.queue, self.id))

    def cancel(self) -> bool:
        """Queued or delayed, it will not run; running, its handler is told: a coroutine is cancelled, a
        process ended, and a function in a thread sees `holdfast.current().cancelled`. False: too late."""
        self._check_single()
        return self._app.desk().cancel(self.queue, self.id, self._ttl_ms)

    async def cancel_async(self) -> bool:
        self._check_single()
        return await self._app.desk_async().cancel(self.queue, self.id, self._ttl_ms)

    def _check_single(self) -> None:
        if of_flow(self.id):
            raise InvalidArgument("a flow cannot be cancelled as a whole; cancel its tasks")

    def _patience(self, timeout: Seconds | None) -> float | None:
        if not self._ttl_ms:
            raise InvalidArgument(
                f"task {self.task!r} keeps no results (result_ttl=None); give it a result_ttl to wait for one"
            )
        return None if timeout is None else milliseconds(timeout, "timeout") / 1000

    def _too_late(self, waited: float | None, status: Status) -> ResultTimeout:
        return ResultTimeout(
            f"{self.task} {self.id} has not ended in {waited:g} s: it is {status}; wait longer, or see "
            f"that a worker serves {self.queue!r}"
        )

    def _read(self, found: bytes) -> R:
        value: Any = self._shape.decode(value_of(decode(found), self.task, self.id))
        return value  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<Handle {self.task} {self.id} in {self.queue!r}>"


def of_flow(id: str) -> bool:
    """Is it a flow's id? A message's has a dash in it."""
    return "-" not in id


def _said(found: Message | None) -> Status:
    if found is None:
        return "unknown"
    return from_state(found.state, found.receives, bodies.decode(found.body).history)
