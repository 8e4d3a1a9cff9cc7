"""A thousand tasks, and everything that can go wrong: nothing is lost, everything is counted.

The books are those of the handlers (who began and ended what, when) and those of the server (its counters).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.proxy import proxied
from tests.servers import Server, standalone_server, wait_until
from tests.worker.crash.stage import LEASE, TASKS, Stage, body, stage

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with standalone_server(tmp_path, "durable") as running:
        yield running


@pytest.fixture
def here(server: Server, tmp_path: Path) -> Iterator[Stage]:
    with stage(server.url, tmp_path) as made:
        yield made


def send(here: Stage, task: str = "step", bad: dict[int, str] | None = None) -> None:
    bad = bad or {}
    here.q.send_many([body(task, n, bad.get(n, "")) for n in range(TASKS)])


def test_a_worker_is_killed_at_thirty_percent(here: Stage) -> None:
    other = here.start("--concurrency", "4")
    doomed = here.start("--concurrency", "16", "--name", "doomed")
    here.wait_for_workers(2)
    send(here)
    here.wait_for(0.3)
    here.kill(doomed)
    killed = time.time()
    # What it had in hand, also what it had only taken ahead.
    held = {m.json()["args"]["n"] for m in here.q.inspect("leased", 0, 10_000)}
    assert held
    here.wait_for_all()
    begun = here.check()
    again = {run.n: run for run in here.runs("begin") if run.attempt == 2}
    # Those that the living worker held then were not begun again.
    assert again
    assert set(again) <= held
    lost = {run.n for run in here.runs("begin") if run.worker.startswith("doomed")} - {
        run.n for run in here.runs("end") if run.worker.startswith("doomed")
    }
    assert lost <= set(again), "what was running comes back"
    late = [run for run in again.values() if run.at > killed + LEASE + 2]
    assert not late, f"redelivered too late: {late[:3]}"
    assert sum(begun.values()) == TASKS + sum(n - 1 for n in begun.values())
    assert other.poll() is None


def test_the_server_is_killed_and_comes_back(here: Stage, server: Server) -> None:
    here.start()
    send(here)
    here.wait_for(0.3)
    server.kill()
    server.start()
    here.wait_for_all()
    here.check()


def test_the_network_between_worker_and_server_is_cut(here: Stage) -> None:
    with proxied(here.url) as proxy:
        far = here.start("--name", "far", url=proxy.url)
        send(here)
        here.wait_for(0.3)
        proxy.break_off()
        cut = time.time()
        near = here.start("--name", "near")
        wait_until(lambda: here.q.stats().total == 0, 60, "the near one to do the rest")
        assert time.time() > cut + LEASE * 0.5, "what the far one held had to wait for its lease"
        proxy.mend()
        here.wait_for_all()
        # The far one's late acks count for nothing: each task was acked once.
        begun = here.check()
        assert {run.worker.split("-")[0] for run in here.runs("begin")} >= {"far", "near"}
        assert max(begun.values()) <= 3
        assert near.poll() is None
        here.kill(far)  # without its proxy it would wait for the server


def test_the_clock_steps_forward_and_back(here: Stage) -> None:
    here.start()
    send(here)
    here.wait_for(0.3)
    here.q.set_clock(here.q.stats().now + 3_600_000)
    here.wait_for(0.5)
    here.q.set_clock(here.q.stats().now - 7_200_000)
    here.wait_for(0.7)
    here.q.set_clock(None)
    here.wait_for_all()
    here.check()


@pytest.mark.parametrize(
    ("task", "how"),
    [
        *((task, how) for how in ("exit", "base", "hang") for task in ("step", "stride")),
        # A process without memory is lost to functions and coroutines alike.
        pytest.param("step", "memory", marks=pytest.mark.torture),
        ("stride", "memory"),
    ],
)
def test_handlers_misbehave(here: Stage, task: str, how: str) -> None:
    # Whoever takes all memory takes its process with it, and the next one has to start.
    bad = dict.fromkeys(range(0, TASKS, 500 if how == "memory" else 100), how)
    # Little more than Python and the app take. Threads of one process share it, and who asked for some while
    # all is taken would fail too: then there is nobody else.
    here.start("--concurrency", "1" if how == "memory" else "20", "--memory-limit", "400M")
    send(here, task, bad)
    here.wait_for_all()
    begun = here.check()
    # The misbehaving ones were begun twice, all others once: no one was harmed by its neighbours.
    assert begun == Counter({n: 1 + (n in bad) for n in range(TASKS)})


@pytest.mark.parametrize(("task", "how"), [("step", "die"), ("stride", "die"), ("stride", "block")])
def test_handlers_take_their_worker_with_them(here: Stage, task: str, how: str) -> None:
    bad = dict.fromkeys(range(200, TASKS, 400), how)
    here.start("--processes", "2", "--concurrency", "8")
    send(here, task, bad)
    here.wait_for_all()
    begun = here.check()
    assert all(begun[n] >= 2 for n in bad)
    # Neighbours of those that died ran again too; not for ever, and not all of them.
    assert sum(count > 1 for count in begun.values()) < TASKS / 2
