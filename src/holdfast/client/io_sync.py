"""What the synchronous client stands on: the same names as in `io_async.py`."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from holdfast.client.address import Address
from holdfast.client.wire import forget_unsent
from holdfast.engine.calls import Packed
from holdfast.errors import HoldfastError
from holdfast.message import MessageId

__all__ = [
    "Background",
    "Connection",
    "Lock",
    "Producer",
    "abandon",
    "aside",
    "cancelled",
    "connection",
    "heeding",
    "last_words",
    "read_for",
    "read_within",
    "send",
    "side_by_side",
    "sleep",
    "stop_iteration",
]

T = TypeVar("T")

log = logging.getLogger("holdfast")

sleep = time.sleep
# A generator may be closed by the garbage collector while its own consumer is being closed.
Lock = threading.RLock
stop_iteration = StopIteration

# What is larger may not fit into the buffers of a connection, bytes.
LARGE = 65_536


class _Abrupt:
    """As in `io_async`: what was not sent when it is closed never will be."""

    def disconnect(self: Any, *args: Any, **options: Any) -> None:
        if self._sock is not None:
            forget_unsent(self._sock)
        super().disconnect(*args, **options)  # type: ignore[misc]


class _Tcp(_Abrupt, Connection):
    pass


class _Tls(_Abrupt, SSLConnection):
    pass


class _Unix(_Abrupt, UnixDomainSocketConnection):
    pass


_KINDS: dict[str, Any] = {"unix": _Unix, "tls": _Tls, "tcp": _Tcp}


def connection(address: Address, host: str, port: int, timeout: float) -> Connection:
    """A connection, not yet open, that never retries by itself: the transport decides that."""
    options = address.options(host, port, timeout)
    return _KINDS[address.kind](retry=Retry(NoBackoff(), 0), **options)  # type: ignore[no-any-return]


def abandon(used: Connection) -> None:
    """In the child of a fork: close our copy of the parent's socket. The other end is not told, for redis-py
    shuts down only what this process has opened."""
    used.disconnect()


def aside(work: Callable[[], None]) -> None:
    """Something that may block for a while: so may we."""
    work()


def heeding(answer: T) -> T:
    """Nobody cancels a thread."""
    return answer


def send(used: Connection, data: list[bytes], timeout: float) -> None:
    """Send what is packed already. More than fits into buffers may take as long as an exchange may."""
    line = used._get_socket() if len(data[0]) > LARGE else None
    if line is None:
        used.send_packed_command(data, check_health=False)
        return
    line.settimeout(timeout)
    try:
        used.send_packed_command(data, check_health=False)
    finally:
        if line.fileno() >= 0:
            line.settimeout(used.socket_timeout)


def side_by_side(
    works: Sequence[Callable[[], T]], enough: Callable[[list[T]], bool], soon: float
) -> tuple[list[T], list[Exception]]:
    """Do all of these at once. What has come of them, and what went wrong, as soon as it is enough, or
    all are done, or `soon` seconds have passed and there is anything. What is late ends by itself."""
    got: list[T] = []
    problems: list[Exception] = []
    done: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def do(work: Callable[[], T]) -> None:
        try:
            result = work()
        except Exception as error:
            problem = error
            done.put(lambda: problems.append(problem))
        else:
            done.put(lambda: got.append(result))

    if len(works) == 1:
        do(works[0])
    else:
        for work in works:
            threading.Thread(target=do, args=(work,), name="holdfast-asks", daemon=True).start()
    deadline = time.monotonic() + soon
    for _ in works:
        try:
            done.get(timeout=max(deadline - time.monotonic(), 0) if got else None)()
        except Empty:
            break
        if enough(got):
            break
    return got, problems


class cancelled(BaseException):  # noqa: N801
    """Never raised."""


def last_words(work: object) -> None:
    """Never needed."""


def read_for(used: Connection, seconds: float) -> None:
    """From now on an answer that has not come for so long is a TimeoutError."""
    used.socket_timeout = used._parser._socket_timeout = seconds
    line = used._get_socket()
    if line is not None:
        line.settimeout(seconds)


def read_within(used: Connection, seconds: float) -> Any:
    """The next answer, or TimeoutError; the connection stays usable either way."""
    try:
        return used.read_response(disable_decoding=True, timeout=seconds, disconnect_on_error=False)
    except RedisTimeoutError as error:
        raise TimeoutError(str(error)) from error


class Background:
    """Something that goes on until it is told to stop: `work` gets this object, and should look at
    `stopped` often."""

    def __init__(self, work: Callable[[Background], None], name: str) -> None:
        self._stop = threading.Event()
        self._work, self._name = work, name
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work(self)
        except Exception:
            log.exception("%s has ended, and should not have", self._name)

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def pause(self, seconds: float) -> None:
        """Sleep, or until told to stop."""
        self._stop.wait(seconds)

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join()


class Producer:
    """Single sends, one call each: a thread that waits for its answer has nothing to coalesce."""

    def __init__(
        self, deliver: Callable[[Sequence[Packed]], Sequence[MessageId | HoldfastError]]
    ) -> None:
        self._deliver = deliver

    def send(self, message: Packed) -> MessageId:
        [answer] = self._deliver([message])
        if isinstance(answer, HoldfastError):
            raise answer
        return answer
