"""Flows: one after the other, side by side, and all of these, then that.

    chain(load.job(url), parse.job(), store.job())
    group([resize.job(i) for i in ids]).then(publish.job())

Each step gets what the one before it returned as its first argument; after a group that is the list of all
results, in the order of the parts. `.alone()` makes a step that does not take it.

A flow has no coordinator: each message carries what follows it (`body.next`), and the worker that has done a
step sends the next one before it acks. A worker that dies in between does it again, and the dedup id of the
step makes that the same message. The parts of a group meet at a gate, a hash in the server, where the last
one to come finds all results and what is to follow. A step that becomes a dead letter ends the flow as
failed; when it is redriven, the flow goes on from there.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from holdfast.errors import InvalidArgument
from holdfast.settings import milliseconds
from holdfast.tasks.body import All, Flow, Item, Step
from holdfast.tasks.options import PLAIN, Sending

if TYPE_CHECKING:
    from holdfast.tasks.app import App
    from holdfast.tasks.handle import Handle
    from holdfast.tasks.task import Task

R = TypeVar("R")
N = TypeVar("N")


class Part(Generic[R]):
    """Something that can be sent, and be part of something larger."""

    def then(self, following: Part[N]) -> Chain[N]:
        """This, then that."""
        return Chain([self, following])

    def app(self) -> App:
        raise NotImplementedError

    def send(self) -> Handle[R]:
        """Start it. The handle is that of the whole flow: its result is that of the last step."""
        return self.app().start(self)

    async def send_async(self) -> Handle[R]:
        return await self.app().start_async(self)


class Job(Part[R]):
    """A task with its arguments, not yet sent. Get one from `task.job(…)`."""

    def __init__(
        self,
        task: Task[Any, R],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        sending: Sending = PLAIN,
        *,
        takes: bool = True,
    ) -> None:
        self.task = task
        self.args = args
        self.kwargs = kwargs
        self.sending = sending
        self.takes = takes

    def alone(self) -> Job[R]:
        """The same, but it does not take what the step before it returned."""
        return Job(self.task, self.args, self.kwargs, self.sending, takes=False)

    def app(self) -> App:
        return self.task.app

    def send(self) -> Handle[R]:
        return self.task.using_(self.sending).send(*self.args, **self.kwargs)

    async def send_async(self) -> Handle[R]:
        return await self.task.using_(self.sending).send_async(*self.args, **self.kwargs)

    def __repr__(self) -> str:
        return f"<Job {self.task.name}>"


class Chain(Part[R]):
    """One after the other."""

    def __init__(self, parts: Iterable[Part[Any]]) -> None:
        self.parts = list(parts)
        if not self.parts:
            raise InvalidArgument("a chain needs at least one job")
        _check(self.parts, "chain")

    def then(self, following: Part[N]) -> Chain[N]:
        return Chain([*self.parts, following])

    def app(self) -> App:
        return self.parts[0].app()


class Group(Part[list[Any]]):
    """Side by side; its result is the list of theirs."""

    def __init__(self, parts: Iterable[Part[Any]], app: App | None = None) -> None:
        self.parts = list(parts)
        self._app = app
        _check(self.parts, "group")

    def app(self) -> App:
        if self.parts:
            return self.parts[0].app()
        raise InvalidArgument("a group that starts a flow needs at least one job")


def _check(parts: list[Part[Any]], what: str) -> None:
    for part in parts:
        if not isinstance(part, Part):
            raise InvalidArgument(
                f"a {what} is made of jobs, chains and groups, not {type(part).__name__}; "
                "task.job(…) makes a job"
            )


def chain(*parts: Part[Any]) -> Chain[Any]:
    """One after the other; each gets what the one before it returned."""
    return Chain(parts)


def group(parts: Iterable[Part[Any]]) -> Group:
    """Side by side; `.then(…)` for what follows when all are done."""
    return Group(parts)


def plan(part: Part[Any], home: str, ttl_ms: int) -> tuple[Flow, list[Item]]:
    """A flow as data. Raises InvalidArgument where a step cannot be called so; nothing was sent then."""
    flow = Flow(secrets.token_hex(8), home, ttl_ms)
    numbers = (f"{flow.id}/{n}" for n in range(1, 1 << 31))
    return flow, _items(part, first=True, numbers=numbers)


def _items(part: Part[Any], *, first: bool, numbers: Iterator[str]) -> list[Item]:
    if isinstance(part, Job):
        return [_step(part, first=first, key=next(numbers))]
    if isinstance(part, Chain):
        items: list[Item] = []
        for each in part.parts:
            items += _items(each, first=first, numbers=numbers)
            first = False
        return items
    if isinstance(part, Group):
        gate = next(numbers)
        return [All(gate, [_items(each, first=first, numbers=numbers) for each in part.parts])]
    raise InvalidArgument(f"{part!r} cannot be part of a flow")


def _step(job: Job[Any], *, first: bool, key: str) -> Step:
    takes = job.takes and not first
    task, said = job.task, job.sending
    bind = task.arguments.bind_after if takes else task.arguments.bind
    if said.due is not None or said.ttl is not None:
        raise InvalidArgument("a step of a flow can have a delay, but neither a due time nor a ttl")
    group = said.group
    if group is None and task.definition.group is not None and not takes:
        group = task.definition.group(*job.args, **job.kwargs)
    return Step(
        task=task.name,
        queue=said.queue or task.definition.queue,
        key=key,
        args=msgspec.Raw(bind(job.args, job.kwargs)),
        into=task.arguments.taker if takes else "",
        priority=task.definition.priority if said.priority is None else said.priority,
        group=group or "",
        delay_ms=0 if said.delay is None else milliseconds(said.delay, "delay"),
    )
