"""Where a data source reads or writes: a server, and a queue, topic or subscription on it.

A Place travels: Spark pickles it from the driver to its Python workers, on this machine or others. A
client does not; each worker process opens one per server when it first needs it and keeps it, since
Spark uses its workers again. The URL may hold a password: it is an option of the source, which Spark
keeps out of its plans and event log, and it is not in the repr.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cache

import holdfast


@cache
def _client(url: str | None, home: str | None, pid: int) -> holdfast.Client:
    # The pid keeps a forked worker from using its parent's connections.
    if url:
        return holdfast.connect(url, check="off")
    return holdfast.connect(home=home, check="off")


@dataclass(frozen=True, slots=True)
class Place:
    url: str | None = field(repr=False)
    home: str | None
    queue: str | None
    topic: str | None = None
    subscription: str | None = None
    peer: str = ""

    @property
    def name(self) -> str:
        """What the column `queue` says of messages from here."""
        if self.topic:
            return f"{self.topic}/{self.subscription}" if self.subscription else self.topic
        return self.queue or ""

    def client(self) -> holdfast.Client:
        """This process's client. Not for closing: others use it too."""
        return _client(self.url, self.home, os.getpid())

    def target(self) -> holdfast.Queue | holdfast.Subscription:
        """The queue or subscription to take messages from."""
        if self.topic and self.subscription:
            return self.client().topic(self.topic).subscription(self.subscription, peer=self.peer)
        assert self.queue
        return self.client().queue(self.queue)
