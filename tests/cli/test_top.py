"""holdfast top: what it shows of real workers, how it fits into a terminal, how it ends."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from rich.console import Console

import holdfast
from holdfast.cli.top_frame import Frame, Looking, QueueSeen, WorkerSeen
from holdfast.cli.top_view import cut, picture, shares
from holdfast.engine.replies import Stats
from holdfast.worker.presence import Presence, Running, read_all
from tests.cli.conftest import Run, Start
from tests.servers import wait_until
from tests.working import new_app, working


@contextmanager
def _worker(app: holdfast.App, **plan: Any) -> Iterator[None]:
    """A worker in a thread, until the block is left."""
    over = threading.Event()

    async def until_over(worker: Any) -> None:
        await asyncio.to_thread(over.wait)

    thread = threading.Thread(
        target=lambda: asyncio.run(working(app, until_over, presence=True, **plan))
    )
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.fixture
def app(server: str) -> Iterator[holdfast.App]:
    with new_app(server) as made:
        yield made


def _seen(client: holdfast.Client, name: str) -> Presence | None:
    return next((found for found in read_all(client) if found.name == name), None)


@pytest.mark.slow
def test_without_workers_it_says_how_to_start_one(run: Run) -> None:
    result = run("top", "--once")
    assert result.status == 0
    assert "No worker is running. Start one: holdfast worker MODULE:APP" in result.out


@pytest.mark.slow
def test_once_shows_workers_what_they_run_and_queues(
    run: Run, app: holdfast.App, client: holdfast.Client
) -> None:
    go_on = threading.Event()

    @app.task
    def takes_long() -> None:
        go_on.wait(30)

    handle = takes_long.send()
    takes_long.send_in(3600)
    with _worker(app, name="shown", concurrency=9):
        try:
            wait_until(lambda: (w := _seen(client, "shown")) and w.running, 15, "the task")
            result = run("top", "--once")
        finally:
            go_on.set()
    assert result.status == 0
    [worker] = [line for line in result.lines if line.startswith("shown ")]
    assert worker.split()[:4] == ["shown", app.default_queue, "1/9", "0"]
    [running] = [line for line in result.lines if line.startswith("takes_long")]
    assert running.split()[:4] == ["takes_long", handle.id, app.default_queue, "1"]
    assert running.split()[-1] == "shown"
    [queue] = [line for line in result.lines if line.startswith(app.default_queue)]
    assert queue.split()[1:5] == ["0", "1", "1", "0"]


@pytest.mark.slow
def test_json_once_is_one_object_with_rates(
    run: Run, app: holdfast.App, client: holdfast.Client
) -> None:
    @app.task(retries=0)
    async def may_fail(n: int) -> None:
        if n % 2:
            raise ValueError("odd")

    stop = threading.Event()

    def keep_sending() -> None:
        while not stop.wait(0.01):
            may_fail.send_many([(0,), (1,)])

    sender = threading.Thread(target=keep_sending)
    with _worker(app, name="measured"):
        wait_until(lambda: _seen(client, "measured"), 15, "the worker")
        sender.start()
        try:
            found = run("top", "--once", "--json").object
        finally:
            stop.set()
            sender.join()
    [worker] = [w for w in found["workers"] if w["name"] == "measured"]
    assert worker["rates"]["tasks"] > worker["rates"]["failures"] > 0
    assert worker["concurrency"] == 16
    [queue] = [q for q in found["queues"] if q["queue"] == app.default_queue]
    assert queue["rates"]["in"] > 0
    assert queue["rates"]["out"] > 0
    assert found["totals"]["tasks"] >= worker["rates"]["tasks"]
    assert found["totals"]["dead"] >= queue["dead"] > 0


@pytest.mark.slow
def test_json_goes_on_with_one_object_after_another(start: Start) -> None:
    process = start("top", "--json")
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(2)]
    first, second = (msgspec.json.decode(line) for line in lines)
    assert first["at"] < second["at"]
    assert set(first) == {"at", "workers", "queues", "totals", "unreadable"}


# ---- on a terminal ------------------------------------------------------------------------


class Terminal:
    """`holdfast top` with a terminal of its own."""

    def __init__(self) -> None:
        self._mine, theirs = pty.openpty()
        os.set_inheritable(theirs, True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "holdfast.cli.main", "top"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env=os.environ | {"TERM": "xterm", "COLUMNS": "100", "LINES": "30"},
        )
        os.close(theirs)
        self.shown = b""

    def read(self) -> bytes:
        """All that it has shown so far."""
        while select.select([self._mine], [], [], 0)[0]:
            try:
                self.shown += os.read(self._mine, 65_536)
            except OSError:  # it has gone
                break
        return self.shown

    def until(self, text: bytes) -> None:
        wait_until(lambda: text in self.read(), 20, f"{text!r} on the screen")

    def press(self, keys: bytes) -> None:
        os.write(self._mine, keys)

    def ended(self) -> int:
        wait_until(lambda: self.read() is not None and self.process.poll() is not None, 20, "end")
        return self.process.returncode

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._mine)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


@pytest.mark.slow
def test_q_ends_it_and_gives_the_screen_back(terminal: Terminal) -> None:
    terminal.until(b"q or Ctrl-C ends it")
    assert b"\x1b[?1049h" in terminal.shown  # the alternate screen
    terminal.press(b"xq")
    assert terminal.ended() == 0
    assert b"\x1b[?1049l" in terminal.read()


@pytest.mark.slow
def test_it_shows_a_worker_that_comes_later(terminal: Terminal, app: holdfast.App) -> None:
    terminal.until(b"No worker is running")
    with _worker(app, name="came-later"):
        terminal.until(b"came-later")


# ---- how it looks -------------------------------------------------------------------------


def _presence(name: str = "host:1", **said: Any) -> Presence:
    usual: dict[str, Any] = {
        "name": name,
        "host": "host",
        "pid": 1,
        "app": "shop:app",
        "version": "1",
        "queues": {"emails": 3, "default": 1},
        "strict": False,
        "concurrency": 50,
        "started_at": time.time() - 90,
        "at": time.time(),
        "held": 3,
        "waiting": 1,
        "busy": 2,
        "stopping": False,
        "stalled": 0.0,
        "running": [],
        "counts": {},
        "cpu": 0.42,
        "rss": 42_500_000,
    }
    return Presence(**(usual | said))


def _drawn(frame: Frame, width: int, height: int | None = None) -> list[str]:
    console = Console(width=width, height=height or 1000, color_system=None)
    with console.capture() as captured:
        console.print(picture(frame, "redis://db:6379", width, height, "hint"))
    return captured.get().splitlines()


def _busy_frame(workers: int = 2, running: int = 3, queues: int = 4) -> Frame:
    runs = [Running("send_welcome", f"1599352749159-{i}", "emails", 1, i) for i in range(running)]
    return Frame(
        workers=tuple(
            WorkerSeen(_presence(f"a-rather-long-host-name:{i}", running=runs, busy=running), 3.0)
            for i in range(workers)
        ),
        queues=tuple(QueueSeen(f"queue{i:03}", Stats(ready=i % 2, now=1)) for i in range(queues)),
    )


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_no_line_is_longer_than_the_terminal_and_numbers_are_whole(width: int) -> None:
    lines = _drawn(_busy_frame(), width)
    assert max(map(len, lines)) <= width
    [head] = [line for line in lines if line.startswith("worker")]
    assert {"busy", "tasks/s", "failures/s", "cpu"} <= set(head.split())
    assert ("waiting" in head) == (width >= 100)
    names = [line.split()[0] for line in lines if "3/50" in line]
    assert len(set(names)) == 2, "the end of a name tells workers apart"
    assert sum("42%" in line for line in lines) == 2
    assert sum("42.5 MB" in line for line in lines) == (2 if width >= 80 else 0)
    assert sum("1.5 min" in line for line in lines) == (2 if width >= 100 else 0)


@pytest.mark.parametrize("height", [20, 24, 50])
def test_what_does_not_fit_is_counted(height: int) -> None:
    lines = _drawn(_busy_frame(workers=30, running=20, queues=300), 100, height)
    assert len(lines) <= height
    assert lines[-1] == "hint"
    more = [int(line.split()[1].replace(",", "")) for line in lines if line.startswith("…")]
    shown = sum(line.startswith("queue") and "ready" not in line for line in lines)
    assert len(more) == 3
    assert more[2] + shown == 300


def test_queues_that_hold_something_come_first_where_not_all_fit() -> None:
    lines = _drawn(_busy_frame(workers=1, running=0, queues=300), 100, 24)
    shown = [line.split() for line in lines if line.startswith("queue0")]
    assert shown
    assert all(ready == "1" for _, ready, *_ in shown)


def test_a_worker_that_is_blocked_or_stops_is_marked() -> None:
    frame = Frame(
        workers=(
            WorkerSeen(_presence("stuck", stalled=12.0)),
            WorkerSeen(_presence("leaving", stopping=True)),
        )
    )
    lines = _drawn(frame, 120)
    assert lines[1] == "stuck: its event loop has been blocked for 12 s"
    assert any(line.startswith("leaving (stopping)") for line in lines)


def test_nothing_that_others_named_reaches_the_terminal_as_it_is() -> None:
    evil = "a\x1b[2J[bold]b"
    run = Running(evil, "1-1", evil, 1, 1.0)
    frame = Frame(
        workers=(WorkerSeen(_presence(evil, queues={evil: 1}, running=[run], stalled=9.0)),),
        queues=(QueueSeen(evil, Stats(now=1)),),
    )
    drawn = "\n".join(_drawn(frame, 200))
    assert "\x1b[2J" not in drawn
    assert "[bold]" in drawn


def test_rows_are_shared_so_that_small_tables_stay_whole() -> None:
    assert shares([3, 100, 4], 20) == [3, 13, 4]
    assert shares([1, 1, 1], 20) == [1, 1, 1]
    assert shares([100, 100, 100], 30) == [10, 10, 10]
    assert cut([1, 2, 3], 3) == ([1, 2, 3], 0)
    assert cut([1, 2, 3, 4], 3) == ([1, 2], 2)


# ---- rates --------------------------------------------------------------------------------


def test_a_rate_is_taken_between_two_writings_however_often_they_are_seen(
    client: holdfast.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [
        _presence(at=100.0, started_at=1, counts={"t": {"succeeded": 10}}),
        _presence(at=102.0, started_at=1, counts={"t": {"succeeded": 14, "retried": 2}}),
        _presence(at=102.0, started_at=1, counts={"t": {"succeeded": 14, "retried": 2}}),
        # Begun anew under the old name.
        _presence(at=103.0, started_at=102.5, counts={"t": {"succeeded": 500}}),
    ]
    monkeypatch.setattr("holdfast.cli.top_frame.read_all", lambda _: [said.pop(0)])
    looking = Looking(client)
    rates = [(w.tasks, w.failures) for _ in range(4) for w in looking.look().workers]
    assert rates == [(0, 0), (3, 1), (3, 1), (0, 0)]


def test_what_is_sent_comes_in_and_only_what_is_acked_goes_out(
    client: holdfast.Client, queue: holdfast.Queue
) -> None:
    looking = Looking(client)

    def rates() -> tuple[bool, bool]:
        """The server's clock has moved since the look before: rates are per time passed."""
        before = queue.stats().now
        wait_until(lambda: queue.stats().now > before)
        [found] = [q for q in looking.look().queues if q.name == queue.name]
        return found.arriving > 0, found.leaving > 0

    queue.send_many([b"1", b"2"])
    assert rates() == (False, False)  # nothing to compare with
    queue.send(b"3")
    assert rates() == (True, False)
    queue.receive().bury("bad")  # type: ignore[union-attr]
    assert rates() == (False, False)
    queue.receive().ack()  # type: ignore[union-attr]
    assert rates() == (False, True)
