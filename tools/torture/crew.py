"""Everybody who sends and takes, as threads that write down what they do and what befell them.

`stop`: producers end. `done`: takers end. An error of ours is noted, and whoever met it goes on; any other
error is foreign, also if it comes up in a thread of the client's own or only in its log.
"""

from __future__ import annotations

import logging
import random
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import holdfast
from holdfast import HoldfastError
from tools.torture.history import History
from tools.torture.node import wait_until

# A call may take as long as its time-out and its retries, a failover, and what it waits for.
PATIENCE = 60.0
LEASE = 3.0


@dataclass(frozen=True)
class Options:
    """How clients connect."""

    url: str
    replicas: int = 0
    timeout: float = 10.0
    retry_for: float = 30.0


@dataclass
class Crew:
    """`seed`: what all chance is drawn from, by each from a source of its own, so that nobody changes what
    another draws. `offset`: tells how far the servers' clock is ahead of ours."""

    options: Options
    history: History
    seed: str
    offset: Callable[[], float] = lambda: 0.0
    stop: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._threads: dict[str, tuple[bool, threading.Thread]] = {}
        self._busy: dict[str, tuple[float, str]] = {}
        self._stored: dict[str, int] = {}
        self._clients: list[holdfast.Client] = []
        self._rnd = self.chance("connect")
        _watch_threads_and_logs(self.strange)

    # ---- those who take part --------------------------------------------------------------

    def connect(self) -> holdfast.Client:
        """A client of its own, that asks the nodes of a cluster in an order of its own."""
        options = self.options
        url = options.url
        if url.startswith("redis://"):
            hosts = url.removeprefix("redis://").split(",")
            self._rnd.shuffle(hosts)
            url = "redis://" + ",".join(hosts)
        client = holdfast.connect(
            url,
            replicas=options.replicas,
            timeout=options.timeout,
            retry_for=options.retry_for,
            check="off",
        )
        self._clients.append(client)
        return client

    def chance(self, who: str) -> random.Random:
        return random.Random(f"{self.seed} {who}")

    def produce(self, who: str, work: Callable[[], None]) -> None:
        self._stored[who] = 0
        self._start(who, work, produces=True)

    def take(self, who: str, work: Callable[[], None]) -> None:
        self._start(who, work, produces=False)

    def _start(self, who: str, work: Callable[[], None], *, produces: bool) -> None:
        def run() -> None:
            try:
                work()
            except Exception as error:
                self.strange(who, error)

        thread = threading.Thread(target=run, name=who, daemon=True)
        self._threads[who] = (produces, thread)
        thread.start()

    # ---- what they write down -------------------------------------------------------------

    def attempt(self, who: str, call: Callable[[], Any]) -> tuple[bool, Any]:
        """Whether it came back with an answer, and the answer; or the error."""
        self._busy[who] = (time.monotonic(), getattr(call, "__name__", "call"))
        try:
            return True, call()
        except HoldfastError as error:
            self.failed(who, error)
            return False, error
        except Exception as error:
            self.strange(who, error)
            return False, error
        finally:
            since, what = self._busy.pop(who)
            if (took := time.monotonic() - since) > PATIENCE:
                self.history.note("hung", who=who, text=f"{what} took {took:.0f} s")

    def failed(self, who: str, error: HoldfastError) -> None:
        self.history.note("error", who=who, text=type(error).__name__)

    def strange(self, who: str, error: BaseException) -> None:
        """The first line says what and where; the rest is for who has to mend it."""
        [*_, last] = traceback.extract_tb(error.__traceback__) or [None]
        where = f" at {last.filename}:{last.lineno}" if last else ""
        told = "".join(traceback.format_exception(error))
        what = f"{type(error).__name__}: {error}"
        self.history.note("foreign", who=who, text=f"{what}{where}\n{told[-3000:]}")

    def stored(self, who: str, count: int = 1) -> None:
        self._stored[who] += count

    def left(self, until: datetime | None) -> float | None:
        """Seconds until a lease ends, by the servers' clock."""
        if until is None:
            return None
        now = datetime.now(UTC) + timedelta(seconds=self.offset())
        return (until - now).total_seconds()

    # ---- what the nemesis wants to know ---------------------------------------------------

    def flow(self, count: int, seconds: float = PATIENCE) -> None:
        """Returns when every producer has stored so many more; notes who has not."""
        before = dict(self._stored)

        def behind() -> list[str]:
            return [who for who, n in before.items() if self._stored[who] < n + count]

        try:
            wait_until(lambda: not behind(), seconds, "the flow of messages")
        except TimeoutError:
            for who in behind():
                self.history.note("hung", who=who, text=f"stored nothing for {seconds:g} s")

    def end_producers(self) -> None:
        self.history.note("calm")
        self.stop.set()
        self._join(produces=True)

    def end_takers(self) -> None:
        self.done.set()
        self._join(produces=False)
        for client in self._clients:
            self.attempt("close", client.close)

    def _join(self, *, produces: bool) -> None:
        deadline = time.monotonic() + PATIENCE
        for who, (kind, thread) in self._threads.items():
            if kind is produces:
                thread.join(max(deadline - time.monotonic(), 0.1))
                if thread.is_alive():
                    since, what = self._busy.get(who, (time.monotonic(), "its own loop"))
                    took = time.monotonic() - since
                    self.history.note("hung", who=who, text=f"in {what} for {took:.0f} s")


def _watch_threads_and_logs(strange: Callable[[str, BaseException], None]) -> None:
    """Errors that nobody is told about, except the log."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else None
            if error is not None and not isinstance(error, HoldfastError):
                strange(f"log of {record.threadName}", error)

    log = logging.getLogger("holdfast")
    log.addHandler(Handler())
    log.propagate = False

    def in_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None:
            strange(f"thread {args.thread.name if args.thread else '?'}", args.exc_value)

    threading.excepthook = in_thread
