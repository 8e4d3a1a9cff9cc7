"""One process for CPU-bound tasks, as its worker sees it: asked, answering, gone.

Its end is noticed by its exit and not by the line: what a handler has started may hold the line open.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress

import msgspec

from holdfast.tasks.outcomes import WorkerProcessDied
from holdfast.worker.crossing import Hello, Ready
from holdfast.worker.line import Child

_ready = msgspec.msgpack.Decoder(Ready)
# How long an idle process has to end when asked to.
_END = 2.0


class Process(Child):
    """`gone` is called when it has ended, for whatever reason. `fit`: it can be given another attempt."""

    def __init__(self, gone: Callable[[Process], None]) -> None:
        super().__init__(self._hear)
        self._gone = gone
        self._reply: asyncio.Future[bytes] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._killed = False
        self.fit = False

    async def prepare(self, hello: Hello) -> None:
        """Raises WorkerProcessDied if it cannot work."""
        await self.start("holdfast.worker.child")
        self._watch = asyncio.get_running_loop().create_task(self._await_end())
        if self._killed:  # before it was there
            self.kill()
        ready = _ready.decode(await self.ask(hello))
        if ready.problem:
            raise WorkerProcessDied(f"it could not start: {ready.problem}")
        self.fit = True

    async def ask(self, message: object) -> bytes:
        """Its answer. Raises WorkerProcessDied, and says how."""
        if self.status is not None:
            raise WorkerProcessDied(_death(self.status))
        self._reply = asyncio.get_running_loop().create_future()
        self.fit = False
        self.send(message)
        try:
            said = await self._reply
        finally:
            self._reply = None
        self.fit = not self._killed and self.status is None
        return said

    def _hear(self, data: bytes) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(data)

    async def _await_end(self) -> None:
        status = await self.ended()
        self.fit = False
        self.hang_up()
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(WorkerProcessDied(_death(status)))
        self._gone(self)

    def kill(self) -> None:
        self._killed, self.fit = True, False
        super().kill()

    async def end(self) -> None:
        """In order if it is idle, at once if not."""
        if self.fit:
            self.fit = False
            self.send(None)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.ended(), _END)
        self.kill()
        if self._watch is not None:
            await self._watch


def _death(status: int) -> str:
    if status >= 0:
        return f"the process that ran it ended with exit status {status} before the task did"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else str(-status)
    hint = " (out of memory?)" if name == "SIGKILL" else ""
    return f"the process that ran it was ended by {name}{hint} before the task was done"
