"""A line from each long task to the driver: tasks tell how they get on, and learn when to stop.

Spark can only kill a task; a task that holds messages shall rather finish the one in hand and give the
others back. So each holds a connection to the driver and writes its counts to it, a line of JSON each;
when the connection ends, whether the driver hung up on purpose or died, the task stops. Spark's
executors can reach their driver anyway. Who connects must know a token first, which travels with the
task.

Rejected: Spark's accumulators, which arrive when a task has ended, and a key in the queue server, which
would outlive a driver that was killed.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import socket
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import msgspec
from pyspark.sql import SparkSession

log = logging.getLogger("holdfast.worker")

Counts = dict[str, dict[str, int]]
"""By queue: what happened, and how often."""
_HELLO_SECONDS = 10.0
_PROBLEM_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Address:
    """Travels to the tasks."""

    host: str
    port: int
    token: str


class Driver:
    """The driver's end. `with` it around the job."""

    def __init__(self, spark: SparkSession) -> None:
        conf = spark.sparkContext.getConf()
        host = conf.get("spark.driver.host") or "127.0.0.1"
        listen = conf.get("spark.driver.bindAddress") or host
        self._server = socket.create_server((listen, 0))
        self.address = Address(host, self._server.getsockname()[1], secrets.token_hex(16))
        self._lock = threading.Lock()
        self._lines: set[socket.socket] = set()
        self._totals: dict[str, Counter[str]] = {}
        self._closed = False
        self._over = threading.Event()
        threading.Thread(target=self._accept, name="lifeline", daemon=True).start()

    def totals(self) -> Counts:
        with self._lock:
            return {queue: dict(counts) for queue, counts in self._totals.items()}

    @property
    def tasks(self) -> int:
        """How many hold a line now."""
        with self._lock:
            return len(self._lines)

    def hang_up(self) -> None:
        """All tasks stop soon, and those that come later at once. What they still have to tell is heard."""
        with self._lock:
            self._closed = True
            for line in self._lines:
                _shut(line, socket.SHUT_WR)

    def close(self) -> None:
        self._over.set()
        self.hang_up()
        # Closing alone does not wake a thread that waits in accept().
        _shut(self._server, socket.SHUT_RDWR)
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _accept(self) -> None:
        while not self._over.is_set():
            line = None
            try:
                line, _ = self._server.accept()
                threading.Thread(target=self._listen, args=(line,), daemon=True).start()
            except Exception:  # too many open files, or threads: that may pass
                if line is not None:
                    line.close()
                if not self._over.is_set():
                    log.exception("a task cannot be heard; going on")
                    self._over.wait(_PROBLEM_SECONDS)

    def _listen(self, line: socket.socket) -> None:
        with line, line.makefile("rb") as reader:
            try:
                line.settimeout(_HELLO_SECONDS)
                if not hmac.compare_digest(
                    reader.readline(100).strip(), self.address.token.encode()
                ):
                    return
                line.settimeout(None)
                with self._lock:
                    self._lines.add(line)
                    if self._closed:
                        _shut(line, socket.SHUT_WR)
                for told in reader:
                    self._add(msgspec.json.decode(told, type=Counts))
            except (OSError, msgspec.DecodeError):
                return
            finally:
                with self._lock:
                    self._lines.discard(line)

    def _add(self, told: Counts) -> None:
        with self._lock:
            for queue, counts in told.items():
                self._totals.setdefault(queue, Counter()).update(counts)


class Task:
    """A task's end. `stop` is called once, from another thread, when the driver hangs up."""

    def __init__(self, address: Address, stop: Callable[[], None]) -> None:
        self._line = socket.create_connection((address.host, address.port), _HELLO_SECONDS)
        self._line.settimeout(None)
        self._line.sendall(address.token.encode() + b"\n")
        self._lock = threading.Lock()
        self._stop = stop
        self._waiter = threading.Thread(target=self._wait, name="lifeline", daemon=True)
        self._waiter.start()

    def tell(self, counts: Counts) -> None:
        """Add these to the driver's totals. A driver that is gone needs no counts."""
        try:
            with self._lock:
                self._line.sendall(msgspec.json.encode(counts) + b"\n")
        except OSError:
            pass

    def close(self) -> None:
        _shut(self._line, socket.SHUT_RDWR)
        self._waiter.join()
        self._line.close()

    def _wait(self) -> None:
        try:
            while self._line.recv(1):
                pass
        except OSError:
            pass
        self._stop()


def _shut(line: socket.socket, how: int) -> None:
    with suppress(OSError):
        line.shutdown(how)
