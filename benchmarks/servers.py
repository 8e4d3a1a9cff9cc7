"""Real servers to measure on: the binary that the embedded server runs, one per measurement.

Both sides of every comparison talk to the same process over the same kind of connection (a unix
socket, as the embedded server has) in the same durability mode. The append-only file is never
rewritten while we measure: a rewrite forks, and would hit whichever side happens to be running.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import redis

from holdfast.embedded import binary, log, server

MODES = {
    "fast": "append-only file, fsync each second",
    "durable": "append-only file, fsync before each answer",
}


@dataclass(frozen=True)
class Server:
    mode: str
    socket: Path
    port: int = 0
    """On loopback; 0 if it has none."""

    @property
    def url(self) -> str:
        return "unix://" + quote(str(self.socket))

    def connect(self) -> redis.Redis:
        """redis-py as its users have it: thread-safe, over its pool, with hiredis.

        Holdfast's client is thread-safe and pooled as well. `single_connection_client=True` saves
        redis-py about a quarter of a short call and gives both up.
        """
        return redis.Redis(unix_socket_path=str(self.socket), protocol=2)

    def connect_tcp(self) -> redis.Redis:
        """The same over TCP, to compare with doors that have no unix socket."""
        return redis.Redis(port=self.port, protocol=2)

    def info(self, section: str) -> dict[str, Any]:
        with self.connect() as client:
            found: dict[str, Any] = client.info(section)
            return found


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@contextmanager
def running(mode: str, *, tcp: bool = False) -> Iterator[Server]:
    """A server of its own, in a folder of its own; both are gone afterwards."""
    port = _free_port() if tcp else 0
    with TemporaryDirectory(prefix="hf-bench-") as name:
        folder = Path(name)
        where, said = folder / "valkey.sock", folder / "valkey.log"
        settings = server.options(folder, mode) | {
            "port": port,
            "bind": "127.0.0.1",
            "unixsocket": where,
            "unixsocketperm": "700",
            "auto-aof-rewrite-percentage": 0,
        }
        process = server.spawn(binary(), settings, said)
        try:
            give_up = time.monotonic() + 20
            while server.ping(where) != "ready":
                if process.poll() is not None or time.monotonic() > give_up:
                    raise RuntimeError(f"the server did not start:\n{log.last_lines(said, 0)}")
                time.sleep(0.01)
            yield Server(mode, where, port)
        finally:
            server.stop(process)
