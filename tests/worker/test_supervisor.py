"""`holdfast worker`: signals, crashes and limits, with real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import holdfast
from holdfast.worker import orders, supervisor
from tests.conftest import Servers
from tests.servers import wait_until
from tests.worker.supervised import APP, SOURCE, Start, alive, crews


@pytest.fixture
def url(all_servers: Servers) -> str:
    found = all_servers.url("standalone")
    assert found is not None
    return found


@pytest.fixture
def queue(url: str) -> Iterator[holdfast.Queue]:
    with holdfast.connect(url, check="off") as client:
        found = client.queue("crew")
        found.purge("ready", "delayed", "leased", "dead")
        yield found


@pytest.fixture
def start(tmp_path: Path, url: str, queue: holdfast.Queue) -> Iterator[Start]:
    (tmp_path / "shop.py").write_text(APP)
    with crews(tmp_path, url) as found:
        yield found


@pytest.fixture
def send(queue: holdfast.Queue) -> Callable[..., str]:
    """A task, as any client sends one."""

    def send(task: str, **arguments: Any) -> str:
        return queue.send({"task": task, "args": arguments})

    return send


@pytest.fixture
def began(tmp_path: Path) -> Callable[[int], list[int]]:
    """Waits until so many handlers have begun; the pids they run in."""

    def wait(count: int) -> list[int]:
        file = tmp_path / "began"
        wait_until(
            lambda: file.exists() and len(file.read_text().split()) >= count,
            30,
            f"{count} handlers",
        )
        return [int(word) for word in file.read_text().split()]

    return wait


Send = Callable[..., str]
Began = Callable[[int], list[int]]


# ---- told to stop -------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("task", ["wait_for", "wait_apart"])
@pytest.mark.slow
def test_the_first_signal_lets_what_runs_finish(
    start: Start,
    send: Send,
    began: Began,
    tmp_path: Path,
    number: signal.Signals,
    task: str,
    queue: holdfast.Queue,
) -> None:
    send(task, name="go")
    crew = start()
    began(1)
    crew.signal(number)
    [left] = crew.wait_for("leaving")
    assert left["why"] == "told"
    send("brief", n=1)
    (tmp_path / "go").touch()
    assert crew.end() == 0
    assert crew.summary[task] == _row(done=1)
    assert queue.stats().ready == 1, "what came later is left for others"


def _row(**counts: int) -> dict[str, int]:
    return {"done": 0, "failed": 0, "retried": 0, "dead": 0, "other": 0} | counts


@pytest.mark.slow
def test_at_the_deadline_what_runs_is_given_back_and_no_attempt_is_counted(
    start: Start, send: Send, began: Began, queue: holdfast.Queue
) -> None:
    send("wait_for", name="never")
    crew = start("--deadline", "200ms")
    began(1)
    crew.signal()
    assert crew.end() == 0
    [back] = queue.inspect("ready")
    assert back.receives == 0
    assert "history" not in back.json()


@pytest.mark.slow
def test_the_second_signal_gives_back_at_once(
    start: Start, send: Send, began: Began, queue: holdfast.Queue
) -> None:
    send("wait_for", name="never")
    crew = start("--deadline", "1h")
    began(1)
    crew.signal()
    crew.wait_for("stopping")
    crew.signal()
    assert crew.end() == 0
    assert [event["now"] for event in crew.of("stopping")] == [False, True]
    [back] = queue.inspect("ready")
    assert back.receives == 0


@pytest.mark.slow
def test_a_signal_to_all_processes_at_once_counts_as_one(
    start: Start, send: Send, began: Began, tmp_path: Path
) -> None:
    """As service managers send it."""
    send("wait_for", name="go")
    send("wait_apart", name="go")
    crew = start()
    began(2)
    for process in psutil.Process(crew.process.pid).children(recursive=True):
        process.send_signal(signal.SIGTERM)
    crew.signal()
    crew.wait_for("stopping")
    with pytest.raises(AssertionError, match="not within"):
        wait_until(lambda: "given back" in crew.said, 2, "taken for a second signal")
    (tmp_path / "go").touch()
    assert crew.end() == 0
    assert crew.summary == {"wait_apart": _row(done=1), "wait_for": _row(done=1)}


@pytest.mark.slow
def test_a_signal_before_anything_has_started_ends_it_cleanly(start: Start, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("import time\ntime.sleep(0.5)\n" + APP)
    crew = start()
    wait_until(lambda: psutil.Process(crew.process.pid).children(), 20, "a child")
    crew.signal()
    assert crew.end() == 0
    assert crew.of("started") == []


@pytest.mark.slow
def test_every_process_has_its_share_and_ends(start: Start, send: Send, began: Began) -> None:
    for _ in range(2):
        send("wait_for", name="never")
    crew = start("--processes", "2", "--concurrency", "1", "--deadline", "0s")
    assert len(set(began(2))) == 2
    pids = crew.pids
    crew.signal()
    assert crew.end() == 0
    assert [pid for pid in pids if alive(pid)] == []


# ---- killed -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_killed_worker_process_is_replaced_and_its_task_done_again(
    start: Start, send: Send, began: Began, tmp_path: Path, queue: holdfast.Queue
) -> None:
    send("wait_for", name="go")
    crew = start("--lease", "2s")
    [pid] = began(1)
    os.kill(pid, signal.SIGKILL)
    [ended] = crew.wait_for("ended")
    assert (ended["pid"], ended["status"], ended["expected"]) == (pid, -9, False)
    assert began(2)[1] != pid
    (tmp_path / "go").touch()
    wait_until(lambda: queue.stats().acked, 20, "the task")
    crew.signal()
    assert crew.end() == 0
    assert crew.summary == {"wait_for": _row(done=1)}


@pytest.mark.slow
def test_what_a_killed_worker_process_had_done_is_in_the_totals(
    start: Start, send: Send, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for n in range(10):
        send("brief", n=n)
    pids: list[int] = []

    def hear(news: supervisor.News) -> None:
        if isinstance(news, orders.Started):
            pids.append(news.pid)
            if len(pids) == 2:
                os.kill(os.getpid(), signal.SIGTERM)
        if isinstance(news, orders.Progress) and news.counts == {"brief": {"succeeded": 10}}:
            os.kill(pids[0], signal.SIGKILL)

    async def run() -> orders.Counts:
        return await supervisor.Supervisor(config, 1, hear).run()

    config = orders.Config(target="shop:app", url=url, log_level="error")
    assert asyncio.run(run()) == {"brief": {"succeeded": 10}}
    assert len(pids) == 2


@pytest.mark.slow
def test_without_their_supervisor_worker_processes_finish_and_end(
    start: Start, send: Send, began: Began, tmp_path: Path, queue: holdfast.Queue
) -> None:
    send("wait_for", name="go")
    send("wait_apart", name="go")
    crew = start("--processes", "2")
    crew.wait_for("started", 2)
    pids = {*crew.pids, *began(2)}
    assert len(pids) == 3
    crew.signal(signal.SIGKILL)
    wait_until(lambda: "the supervisor is gone" in crew.said, 20, "the news")
    assert sum(alive(pid) for pid in pids) >= 2, "they work on"
    (tmp_path / "go").touch()
    wait_until(lambda: not any(alive(pid) for pid in pids), 20, "their end")
    assert queue.stats().acked >= 2


@pytest.mark.slow
def test_a_killed_worker_process_takes_its_own_processes_along(
    start: Start, send: Send, began: Began
) -> None:
    send("wait_apart", name="never")
    crew = start()
    crew.wait_for("started")
    [worker], [apart] = crew.pids, began(1)
    assert worker != apart
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: not alive(apart), 20, "the end of the process")


@pytest.mark.slow
def test_work_goes_on_when_nobody_reads_its_output_any_more(
    tmp_path: Path, start: Start, send: Send, queue: holdfast.Queue, url: str
) -> None:
    before = queue.stats().acked
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast.cli.main", "worker", "shop:app"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(SOURCE), "HOLDFAST_URL": url},
        stdout=write,
        stderr=subprocess.DEVNULL,
    )
    try:
        os.close(write)
        assert os.read(read, 1000).startswith(b"shop:app on ")
        os.close(read)
        [child] = psutil.Process(process.pid).children()
        child.kill()  # the replacement is news
        wait_until(
            lambda: child not in (now := psutil.Process(process.pid).children()) and now,
            30,
            "the replacement",
        )
        send("brief", n=1)
        wait_until(lambda: queue.stats().acked > before, 30, "the task")
    finally:
        process.terminate()
        process.wait(30)


# ---- limits -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_process_is_replaced_after_so_many_tasks_and_nothing_is_lost(
    start: Start, queue: holdfast.Queue
) -> None:
    queue.send_many([{"task": "brief", "args": {"n": n}} for n in range(60)])
    crew = start("--max-tasks", "20", "--once", "--concurrency", "1")
    assert crew.end() == 0
    assert crew.summary["brief"]["done"] == 60
    assert len({event["pid"] for event in crew.of("started")}) >= 3
    assert [event["why"] for event in crew.of("leaving")].count("max_tasks") >= 2
    assert all(event["expected"] for event in crew.of("ended"))


@pytest.mark.slow
def test_who_asks_for_too_much_memory_fails_and_the_others_go_on(
    start: Start, send: Send, queue: holdfast.Queue
) -> None:
    send("hungry", megabytes=2000)
    send("hungry", megabytes=10)
    crew = start("--memory-limit", "500M", "--once", "--idle", "500ms")
    assert crew.end() == 0
    assert crew.summary == {"hungry": _row(done=1, failed=1, dead=1)}
    assert len(crew.of("started")) == 1
    [dead] = queue.inspect("dead")
    assert dead.death is not None
    assert "MemoryError" in dead.death.reason


@pytest.mark.slow
def test_a_process_that_has_filled_up_is_replaced(
    start: Start, send: Send, queue: holdfast.Queue
) -> None:
    crew = start("--memory-limit", "300M")
    crew.wait_for("started")
    send("leaky", megabytes=270)
    crew.wait_for("started", 2)
    assert [event["why"] for event in crew.of("leaving")] == ["memory"]
    crew.signal()
    assert crew.end() == 0
    assert crew.summary == {"leaky": _row(done=1)}


@pytest.mark.slow
def test_a_memory_limit_that_the_app_itself_is_past_is_refused(start: Start) -> None:
    crew = start("--memory-limit", "16M")
    assert crew.end() == 64
    assert "before it has done anything" in crew.said


@pytest.mark.slow
def test_each_process_serves_its_metrics_on_a_port_of_its_own(start: Start, send: Send) -> None:
    port = _two_free_ports()
    crew = start("--processes", "2", "--metrics-port", str(port))
    crew.wait_for("started", 2)
    for each in (port, port + 1):
        with urllib.request.urlopen(f"http://127.0.0.1:{each}/metrics", timeout=10) as page:
            assert b"holdfast_tasks" in page.read()
    os.kill(crew.pids[0], signal.SIGKILL)
    crew.wait_for("started", 3)
    crew.signal()
    assert crew.end() == 0


def _two_free_ports() -> int:
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
            try:
                two.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


# ---- what hangs ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("task", ["stuck", "blocking"])
def test_a_process_that_hangs_past_its_tasks_timeouts_is_replaced(
    start: Start, send: Send, began: Began, task: str, queue: holdfast.Queue
) -> None:
    send(task)
    crew = start("--concurrency", "1", "--lease", "2s")
    [pid] = began(1)
    send("whoami")
    [ended] = crew.wait_for("ended", timeout=40)
    assert (ended["pid"], ended["status"]) == (pid, 75)
    [left] = crew.of("leaving")
    assert left["why"] == "broken"
    assert "timeout" in left["text"]
    wait_until(lambda: queue.stats().acked or len(began(1)) > 1, 20, "the next process at work")
    crew.signal()
    crew.signal()
    crew.end()


# ---- cannot start -------------------------------------------------------------------------


@pytest.mark.slow
def test_it_gives_up_when_processes_die_before_they_have_started(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    crew = start()
    assert crew.end() == 1
    assert [event["status"] for event in crew.of("ended")] == [-signal.SIGSEGV] * 3
    assert "signal SIGSEGV before it had started, 3 times in a row" in crew.said


@pytest.mark.slow
def test_without_a_server_it_gives_up_and_says_so(start: Start, tmp_path: Path) -> None:
    crew = start(HOLDFAST_URL=f"unix://{tmp_path}/nobody.sock")
    assert crew.end() == 75
    assert crew.said.count('"error":{"code":"UNAVAILABLE"') == 1


@pytest.mark.slow
def test_a_password_is_in_no_command_line(start: Start, url: str) -> None:
    crew = start(HOLDFAST_URL=url.replace("unix://", "unix://:secret-word@"))
    wait_until(
        lambda: crew.process.poll() is not None or psutil.Process(crew.process.pid).children(),
        20,
        "a child",
    )
    for process in psutil.Process(crew.process.pid).children(recursive=True):
        assert "secret-word" not in " ".join(process.cmdline())
    crew.signal()
    crew.end()
    assert "secret-word" not in crew.said + str(crew.events)
