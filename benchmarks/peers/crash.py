"""Does a task survive kill -9 of the worker that runs it? Tried, not believed.

A worker at work gets a task that never ends, and begins it; that worker and all its processes are killed;
another one is started. Whoever acknowledges after the work has the task still, and runs it again when
its time-out is over. For this each program sets the shortest time-out that its peer lets one set
(PEERS_CRASH), about five seconds. A task that is not run again in time may still lie in the server: so
its data is searched for the task's argument, in every encoding that these peers use.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import redis

from benchmarks.peers.programs.tally import STUCK
from benchmarks.peers.sides import Side
from benchmarks.peers.stage import NotMeasured, stage
from benchmarks.servers import running

PATIENCE = 30.0
"""Seconds to wait for the second run."""

Fate = Literal["runs again", "kept", "lost"]

_FORMS = (str(STUCK).encode(), struct.pack("<i", STUCK), struct.pack(">i", STUCK))
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{16,}={0,2}")


@dataclass(frozen=True)
class Crash:
    fate: Fate
    seconds: float | None = None
    """From the start of the next worker until it ran the task."""

    @property
    def survives(self) -> bool:
        return self.fate != "lost"

    def __str__(self) -> str:
        return f"yes, after {self.seconds:.0f} s" if self.fate == "runs again" else self.fate


def try_crash(side: Side, patience: float) -> Crash:
    """`patience`: seconds to wait for the second run; 0 to look into the server only."""
    with running("fast", tcp=True) as server, stage(side, server) as on:
        on.start(PEERS_CRASH="1", PEERS_TOTAL="1")
        on.send("feed", 1, PEERS_CRASH="1")
        on.hear("last", 30)  # it works, and whatever it does at its start is done
        on.send("stuck", PEERS_CRASH="1")
        on.hear("stuck", 30)
        on.kill()
        with server.connect() as client:
            stored = holds_the_task(client)
        if patience:
            on.start(PEERS_CRASH="1")
            started = time.monotonic()
            try:
                on.hear("stuck", patience)
            except NotMeasured:
                with server.connect() as client:
                    stored = holds_the_task(client)
            else:
                return Crash("runs again", round(time.monotonic() - started, 1))
        return Crash("kept" if stored else "lost")


def holds_the_task(client: redis.Redis) -> bool:
    return any(
        form in shape for value in _values(client) for shape in _shapes(value) for form in _FORMS
    )


def _values(client: Any) -> Iterator[bytes]:
    """Every string in every key."""
    for key in client.scan_iter():
        kind = client.type(key)
        if kind == b"string":
            yield client.get(key) or b""
        elif kind == b"list":
            yield from client.lrange(key, 0, -1)
        elif kind == b"hash":
            yield from client.hvals(key)
        elif kind == b"set":
            yield from client.smembers(key)
        elif kind == b"zset":
            yield from client.zrange(key, 0, -1)
        elif kind == b"stream":
            pending = {entry["message_id"] for entry in _pending(client, key)}
            for number, fields in client.xrange(key):
                if number in pending:  # others are done, and only stay because nobody deletes them
                    yield from fields.values()


def _pending(client: Any, key: bytes) -> Iterator[dict[str, Any]]:
    for group in client.xinfo_groups(key):
        yield from client.xpending_range(key, group["name"], "-", "+", 100)


def _shapes(value: bytes) -> Iterator[bytes]:
    """As it is, and what is packed in it."""
    yield value
    with suppress(zlib.error):
        yield zlib.decompress(value)
    for found in _BASE64.finditer(value):
        with suppress(binascii.Error):
            yield base64.b64decode(found.group(), validate=True)
