"""Threads: as many as there is work for, no more than the worker may run at a time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from holdfast.tasks.outcomes import TaskTimeout
from holdfast.worker.piece import Piece
from holdfast.worker.threads import Threads
from tests.servers import wait_until

DEADLINE = 10.0


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    """Threads take turns after every few bytecodes, so that each order comes to pass."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Work:
    """Pieces that are numbers here: threads hand them over unread."""

    def __init__(self, most: int, run: Any) -> None:
        self.outcomes: list[tuple[Any, Any, BaseException | None]] = []
        self._come = threading.Condition()
        self.threads = Threads(most, run, self._done)

    def _done(self) -> None:
        with self._come:
            self.outcomes += self.threads.take()
            self._come.notify_all()

    def submit(self, n: int) -> Piece:
        piece = cast("Piece", n)
        self.threads.submit(piece)
        return piece

    def wait_for(self, count: int) -> None:
        with self._come:
            assert self._come.wait_for(lambda: len(self.outcomes) >= count, DEADLINE), self.outcomes


@pytest.mark.slow
def test_nobody_waits_behind_a_busy_thread_while_there_is_room() -> None:
    # Each piece waits for its partner: two in a row on one thread would never end.
    for _ in range(300):
        meet = threading.Barrier(2, timeout=DEADLINE)
        work = Work(2, lambda _, meet=meet: meet.wait())
        for n in range(2):
            work.submit(n)
        work.wait_for(2)
        assert [error for *_, error in work.outcomes] == [None, None]
        work.threads.close()


def test_partners_meet_again_and_again_on_the_same_threads() -> None:
    meet = threading.Barrier(2, timeout=DEADLINE)
    seen: set[int] = set()

    def run(_: Piece) -> None:
        seen.add(threading.get_ident())
        meet.wait()

    work = Work(2, run)
    for pair in range(200):
        work.submit(2 * pair)
        work.submit(2 * pair + 1)
        work.wait_for(2 * pair + 2)
    work.threads.close()
    assert len(seen) == 2


def test_there_are_never_more_than_the_worker_may_run() -> None:
    lock, running, most = threading.Lock(), [0], [0]

    def run(_: Piece) -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        threading.Event().wait(0.001)
        with lock:
            running[0] -= 1

    work = Work(3, run)
    for n in range(100):
        work.submit(n)
    work.wait_for(100)
    work.threads.close()
    assert most[0] == 3


def test_one_that_is_given_up_makes_room_for_who_waits() -> None:
    held = threading.Event()
    begun = threading.Event()

    def run(piece: Piece) -> Any:
        if cast("int", piece) == 0:
            begun.set()
            held.wait(DEADLINE)
        return piece

    work = Work(1, run)
    stuck = work.submit(0)
    assert begun.wait(DEADLINE)
    work.submit(1)
    work.threads.give_up(stuck)
    work.wait_for(1)
    assert work.threads.stuck == 1
    assert work.outcomes[0][0] == 1
    held.set()
    work.wait_for(2)
    work.submit(2)
    work.wait_for(3)
    work.threads.close()


def test_what_no_thread_has_begun_with_can_be_taken_back() -> None:
    held, begun = threading.Event(), threading.Event()

    def run(_: Piece) -> None:
        begun.set()
        held.wait(DEADLINE)

    work = Work(1, run)
    for n in range(4):
        work.submit(n)
    assert begun.wait(DEADLINE)
    assert cast("list[int]", work.threads.take_back()) == [1, 2, 3]
    held.set()
    work.wait_for(1)
    work.submit(9)
    work.wait_for(2)
    work.threads.close()


def test_closing_while_threads_end_does_not_disturb_it() -> None:
    meet = threading.Barrier(3, timeout=DEADLINE)
    work = Work(3, lambda _: meet.wait())

    class Emptying(set[threading.Thread]):
        """Whoever walks through it finds that a thread has left before the second step."""

        def __iter__(self) -> Iterator[threading.Thread]:
            for at, thread in enumerate(super().__iter__()):
                if at:
                    wait_until(lambda: len(self) < 3, what="a thread that ends")
                yield thread

    for n in range(3):
        work.submit(n)
    work.wait_for(3)
    work.threads._threads = alive = Emptying(work.threads._threads)
    work.threads.close()
    wait_until(lambda: not alive, what="the end of all threads")


def test_an_interruption_that_comes_when_the_handler_has_ended_loses_nothing() -> None:
    class Late(dict[Piece, int]):
        """The interruption is delivered where the thread says that it is no longer busy."""

        def pop(self, piece: Piece, *default: Any) -> Any:
            found = super().pop(piece, *default)
            if not came:
                came.append(piece)
                raise TaskTimeout
            return found

    came: list[Any] = []
    work = Work(1, lambda piece: piece)
    work.threads._busy = Late()
    work.submit(1)
    work.submit(2)
    work.wait_for(2)
    assert [(piece, value, error) for piece, value, error in work.outcomes] == [
        (1, 1, None),
        (2, 2, None),
    ]
    assert came == [1]
    # Neither of the two is counted as something that needs a thread.
    assert not work.threads._open
    work.threads.close()


def test_an_interruption_that_comes_before_the_handler_begins_ends_the_piece_and_not_the_thread() -> (
    None
):
    class Early(dict[Piece, int]):
        def __setitem__(self, piece: Piece, thread: int) -> None:
            super().__setitem__(piece, thread)
            if cast("int", piece) == 1:
                raise TaskTimeout

    work = Work(1, lambda piece: piece)
    work.threads._busy = Early()
    work.submit(1)
    work.submit(2)
    work.wait_for(2)
    assert [type(error) for *_, error in work.outcomes] == [TaskTimeout, type(None)]
    work.threads.close()
