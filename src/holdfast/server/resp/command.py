"""What a command is: one entry of the table that dispatch, arity errors, COMMAND and help are made of.

Adding a command? A handler, an entry in its file's COMMANDS, a row in docs/redis-commands.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.server.resp.writer import Reply

if TYPE_CHECKING:
    from holdfast.server.resp.connection import Connection

Handler = Callable[["Connection", list[bytes]], Reply]
"""Gets the arguments behind the command's name; answers, or is a coroutine function that will."""
Together = Callable[["Connection", list[list[bytes]]], Awaitable[list[Reply]]]
"""Several calls of one command, in one go; as many answers, in order."""


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    usage: str
    """The arguments, as people read them."""
    least: int
    most: int | None
    """How many arguments there must and may be, without the name; None: any number."""
    run: Handler
    summary: str
    group: str = "queue"
    flags: tuple[str, ...] = ()
    keys: tuple[int, int, int] = (0, 0, 0)
    """First, last and step, as Redis counts them: 1 is the first argument, -1 the last."""
    before_auth: bool = False
    together: Together | None = None
    """If there is one: how consecutive calls that are alike become one."""
    alike: Callable[[list[bytes]], Hashable | None] = lambda arguments: arguments[0]
    """What the arguments of calls that may be run together have in common; None: they may not."""

    waits: bool = field(init=False)
    """Whether it has to wait for something, the queues' server at least."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "waits", inspect.iscoroutinefunction(self.run))

    @property
    def arity(self) -> int:
        """As Redis tells it: the name counts, and a negative number is a minimum."""
        return self.least + 1 if self.least == self.most else -(self.least + 1)

    def accepts(self, count: int) -> bool:
        return count >= self.least and (self.most is None or count <= self.most)
