"""What a supervisor and its worker processes say to each other, over the line between them.

The config comes first; it goes this way and not by the command line, since a URL may hold a password. Orders
can be repeated without harm, unlike signals: when a whole service is stopped, each of its processes is
signalled, and a worker must not take its parent's word for a second signal.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Word = Literal["quiet", "now"]
Why = Literal["told", "idle", "max_tasks", "memory", "broken"]
Counts = dict[str, dict[str, int]]
"""By task: what happened, and how often."""


class Config(msgspec.Struct, kw_only=True):
    """How worker processes work. `queues`: None: all of the app's. `memory_limit`: bytes, 0: none.
    `max_tasks`: 0: no limit. `number`: of the process, from 0."""

    target: str
    url: str | None = None
    queues: list[tuple[str, int]] | None = None
    strict: bool = False
    concurrency: int = 16
    cpu_processes: int = 0
    lease: float | None = None
    deadline: float = 30.0
    idle: float | None = None
    scheduler: bool = True
    name: str = ""
    memory_limit: int = 0
    max_tasks: int = 0
    metrics_port: int = 0
    log_level: str = "info"
    json: bool = False
    number: int = 0

    def __repr__(self) -> str:
        return f"<Config of {self.target}>"  # the URL may hold a password


class Order(msgspec.Struct):
    word: Word


class Started(msgspec.Struct, tag="started"):
    """It takes tasks from now on. `server`: without its password."""

    name: str
    pid: int
    target: str
    tasks: dict[str, str]
    queues: list[tuple[str, int]]
    strict: bool
    concurrency: int
    server: str


class Progress(msgspec.Struct, tag="progress"):
    """What it has done since it started."""

    counts: Counts


class Leaving(msgspec.Struct, tag="leaving"):
    """It takes no more tasks, and ends when those it has are done."""

    why: Why
    text: str = ""


class Failed(msgspec.Struct, tag="failed"):
    """It cannot work. `code`: of the error's class; `trace`: of the app's code, where that is at fault."""

    code: str
    text: str
    trace: str = ""


Told = Started | Progress | Leaving | Failed
told = msgspec.msgpack.Decoder(Told)
config = msgspec.msgpack.Decoder(Config)
order = msgspec.msgpack.Decoder(Order)
