"""Running functions that are not coroutines: in threads, as many as the worker may run at a time.

Threads are made when needed and stay. One that hangs past its task's timeout is first asked (an exception is
raised in it, which Python delivers at its next bytecode); if it does not heed that, for example because it
waits in C, its task is given up and another thread takes its place. Python cannot end a thread.
"""

from __future__ import annotations

import ctypes
import queue
import threading
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from holdfast.worker.piece import Piece

Outcome = tuple[Piece, Any, BaseException | None]


class Threads:
    """`work` runs a piece and returns its value. `done` is called from a thread when outcomes are there, once
    until they are taken."""

    def __init__(self, most: int, work: Callable[[Piece], Any], done: Callable[[], None]) -> None:
        self._most = most
        self._work = work
        self._done = done
        self._waiting: queue.SimpleQueue[Piece | None] = queue.SimpleQueue()
        self._outcomes: deque[Outcome] = deque()
        self._told = False
        self._lock = threading.Lock()
        # Pieces that were submitted, and neither ended nor given up: each needs a thread.
        self._open: set[Piece] = set()
        self._threads: set[threading.Thread] = set()
        self._stuck: set[int] = set()
        self._busy: dict[Piece, int] = {}

    @property
    def stuck(self) -> int:
        """Threads that have been given up and have not come back."""
        return len(self._stuck)

    def submit(self, piece: Piece) -> None:
        with self._lock:
            self._open.add(piece)
            self._grow()
        self._waiting.put(piece)

    def _grow(self) -> None:
        """Make a thread, if one is needed and there may be one more."""
        if len(self._threads) - len(self._stuck) < min(len(self._open), self._most):
            thread = threading.Thread(target=self._run, name="holdfast-task", daemon=True)
            self._threads.add(thread)
            thread.start()

    def take(self) -> list[Outcome]:
        """What has ended since the last time."""
        self._told = False
        found = []
        while self._outcomes:
            found.append(self._outcomes.popleft())
        return found

    def take_back(self) -> list[Piece]:
        """Those that no thread has begun with."""
        found: list[Piece] = []
        while True:
            try:
                piece = self._waiting.get_nowait()
            except queue.Empty:
                return found
            if piece is not None:
                found.append(piece)
                with self._lock:
                    self._open.discard(piece)

    def interrupt(self, piece: Piece, kind: type[BaseException]) -> bool:
        """Raise in the thread that runs it, soon. False: none does."""
        with self._lock:
            ident = self._busy.get(piece)
            if ident is None:
                return False
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(ident), ctypes.py_object(kind)
            )
            return True

    def give_up(self, piece: Piece) -> None:
        """Its thread is not counted on any more."""
        with self._lock:
            if (ident := self._busy.get(piece)) is not None:
                self._stuck.add(ident)
                self._open.discard(piece)
                # Something may wait for the place it took.
                self._grow()

    def close(self) -> None:
        with self._lock:
            alive = len(self._threads)
        for _ in range(alive):
            self._waiting.put(None)

    def _run(self) -> None:
        me = threading.get_ident()
        while True:
            piece = self._waiting.get()
            if piece is None:
                break
            value: Any = None
            error: BaseException | None = None
            try:
                # From here on it may be interrupted.
                with self._lock:
                    self._busy[piece] = me
                value = copy_context().run(self._work, piece)
            except BaseException as raised:
                # SystemExit too: it is the task that ends, not the worker.
                error = raised
            try:
                self._leave(piece)
            except BaseException:  # an interruption that came too late
                self._leave(piece)
            self._outcomes.append((piece, value, error))
            if not self._told:
                self._told = True
                self._done()
            # No need of the lock: a thread is given up only while it is busy.
            if me in self._stuck:
                break
        with self._lock:
            self._stuck.discard(me)
            self._threads.discard(threading.current_thread())

    def _leave(self, piece: Piece) -> None:
        """Its handler has ended, and nobody interrupts its thread any more. May be said twice."""
        with self._lock:
            self._open.discard(piece)
            self._busy.pop(piece, None)
