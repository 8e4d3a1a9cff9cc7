"""Tasks in processes of their own: what comes back, how they end, and how they are ended."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

import holdfast
from holdfast.errors import TaskCancelled, TaskFailed
from holdfast.worker.worker import Worker
from tests.conftest import Servers
from tests.servers import wait_until
from tests.worker import busy
from tests.working import new_app, work, working

HISTORY = "history"


@pytest.fixture
def queue(all_servers: Servers) -> Iterator[holdfast.Queue]:
    """Where the busy app's tasks go."""
    busy.app.connect_to(all_servers.url("standalone"))
    found = busy.app.desk().queue("busy")
    found.purge("ready", "delayed", "leased", "dead")
    yield found
    busy.app.close()


pytestmark = pytest.mark.usefixtures("queue")


def run(**plan: Any) -> Worker:
    """Until there is nothing more to do; one process unless the test wants several."""
    return work(busy.app, **{"processes": 1, "idle": 0.3} | plan)


async def until(condition: Callable[[], Any], what: str) -> Any:
    return await asyncio.to_thread(wait_until, condition, 20, what)


def pids(folder: Path) -> list[int]:
    file = folder / "pids"
    return [int(word) for word in file.read_text().split()] if file.exists() else []


def gone(numbers: list[int]) -> bool:
    return not any(psutil.pid_exists(n) and _alive(n) for n in numbers)


def _alive(number: int) -> bool:
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


# ---- what comes back ----------------------------------------------------------------------


@pytest.mark.slow
def test_arguments_and_result_are_of_their_types_and_made_in_another_process() -> None:
    at = datetime(2030, 1, 31, 9, tzinfo=UTC)
    handle = busy.report.send(at, b"\0\xff")
    run()
    found = handle.result(timeout=0)
    assert (found.at, found.data) == (at, b"\0\xff")
    assert found.pid != os.getpid()


@pytest.mark.slow
def test_a_process_is_kept_and_used_again() -> None:
    handles = busy.whoami.send_many([()] * 5)
    run()
    assert len({handle.result(timeout=0) for handle in handles}) == 1


@pytest.mark.slow
def test_processes_end_with_their_worker() -> None:
    handle = busy.whoami.send()
    run()
    assert gone([handle.result(timeout=0)])


@pytest.mark.slow
def test_a_handler_knows_its_attempt_and_middleware_is_around_it() -> None:
    handle = busy.told.send()
    run(name="w1")
    assert handle.result(timeout=0) == {
        "id": handle.id,
        "task": "told",
        "queue": "busy",
        "attempt": 1,
        "worker": "w1",
        "about": "",
        "wrapped": "told",
    }


@pytest.mark.slow
def test_attributes_of_the_message_reach_the_handler(queue: holdfast.Queue) -> None:
    queue.send(b'{"task":"told","args":{}}', attributes={"about": "tea"})
    [message] = queue.inspect("ready")
    run()
    handle = busy.app.handle(busy.told, message.id)
    assert handle.result(timeout=0)["about"] == "tea"


@pytest.mark.slow
def test_a_step_of_a_flow_runs_in_a_process_and_is_followed_by_the_next() -> None:
    parts = holdfast.group([busy.double.job(n) for n in (1, 2, 3)])
    handle = holdfast.chain(busy.double.job(5), busy.double.job()).send()
    group = parts.send()
    run(processes=2)
    assert handle.result(timeout=5) == 20
    assert group.result(timeout=5) == [2, 4, 6]


@pytest.mark.slow
def test_a_handler_can_send_tasks_from_its_process() -> None:
    handle = busy.passes_on.send(4)
    run()
    assert busy.app.handle(busy.double, handle.result(timeout=0)).result(timeout=0) == 8


@pytest.mark.slow
def test_middleware_in_the_worker_hears_values_and_errors() -> None:
    heard: list[Any] = []
    app = busy.app
    before = {moment: list(all_) for moment, all_ in app.stack._listeners.items()}
    app.on("succeeded")(lambda context, value: heard.append((context.task, value)))
    app.on("failed")(lambda context, error: heard.append((type(error).__name__, str(error))))
    try:
        busy.double.send(21)
        busy.careless.send()
        busy.at_first.send("raise")
        busy.at_first.send("Retry")
        run()
    finally:
        app.stack._listeners = before
    assert sorted(heard, key=str) == [
        ("ValueError", "at first"),
        ("at_first", 2),
        ("at_first", 2),
        ("careless", "no number"),
        ("double", 42),
    ]


# ---- how they end -------------------------------------------------------------------------

DEATHS = {
    "os._exit": "WorkerProcessDied: the process that ran it ended with exit status 3",
    "kill -9": "WorkerProcessDied: the process that ran it was ended by SIGKILL (out of memory?)",
    "segfault": "WorkerProcessDied: the process that ran it was ended by SIGSEGV",
}


@pytest.mark.parametrize("how", DEATHS)
@pytest.mark.slow
def test_a_process_that_dies_fails_its_attempt_which_is_tried_again(
    how: str, queue: holdfast.Queue
) -> None:
    handle = busy.at_first.send(how)
    heard: list[str] = []

    async def during(worker: Worker) -> None:
        await until(lambda: worker.counts.total("succeeded") == 1, "the second attempt")
        heard.append(str(worker.counts.by_task["at_first"]))

    async def main() -> None:
        await working(busy.app, during, processes=1)

    asyncio.run(main())
    assert handle.result(timeout=0) == 2
    assert heard == ["{'retried': 1, 'succeeded': 1}"]


@pytest.mark.parametrize("how", ["sys.exit", "KeyboardInterrupt", "raise"])
@pytest.mark.slow
def test_whatever_a_handler_raises_its_process_goes_on(how: str) -> None:
    before = busy.whoami.send()
    handle = busy.at_first.send(how)
    after = busy.whoami.send()
    run(concurrency=1)
    assert handle.result(timeout=0) == 2
    assert before.result(timeout=0) == after.result(timeout=0)


@pytest.mark.parametrize("how", DEATHS)
@pytest.mark.slow
def test_the_dead_letter_says_how_the_process_ended(how: str, queue: holdfast.Queue) -> None:
    busy.at_first.send(how)
    policy = busy.at_first.definition
    object.__setattr__(policy, "retries", holdfast.Retries(0))
    try:
        run()
    finally:
        object.__setattr__(policy, "retries", busy.FIRST_TIME)
    [dead] = queue.inspect("dead")
    assert dead.death is not None
    assert DEATHS[how] in dead.death.reason
    assert DEATHS[how] in dead.json()["history"][0]["error"]


@pytest.mark.slow
def test_the_policy_for_the_class_of_an_exception_is_the_one_that_counts(
    queue: holdfast.Queue,
) -> None:
    busy.hopeless.send()
    worker = run()
    assert worker.counts.by_task["hopeless"] == {"buried": 1}
    [dead] = queue.inspect("dead")
    assert dead.death is not None
    assert "KeyError: 'no such customer'" in dead.death.reason
    assert "busy.py" in dead.death.error
    assert "child.py" not in dead.death.error


@pytest.mark.slow
def test_outcomes_can_be_raised_in_a_process(queue: holdfast.Queue) -> None:
    busy.says.send("snooze")
    busy.says.send("discard")
    worker = run()
    assert worker.counts.by_task["says"] == {"snoozed": 1, "discarded": 1}
    assert queue.stats().delayed == 1


# ---- how they are ended -------------------------------------------------------------------


@pytest.mark.slow
def test_at_the_timeout_the_process_is_killed_with_all_it_started(tmp_path: Path) -> None:
    handle = busy.too_long.send(str(tmp_path))
    after = busy.double.send(1)
    run()
    with pytest.raises(TaskFailed, match=r"took longer than its timeout of 0\.5 s"):
        handle.result(timeout=0)
    assert gone(pids(tmp_path))
    assert after.result(timeout=0) == 2


@pytest.mark.slow
def test_cancelling_kills_the_process(tmp_path: Path) -> None:
    handle = busy.linger.send(str(tmp_path))

    async def during(worker: Worker) -> None:
        await until(lambda: pids(tmp_path), "the handler")
        await handle.cancel_async()
        await until(lambda: worker.counts.total("cancelled") == 1, "the cancelled task")

    asyncio.run(working(busy.app, during, processes=1))
    with pytest.raises(TaskCancelled):
        handle.result(timeout=0)
    assert gone(pids(tmp_path))


@pytest.mark.slow
def test_a_lost_lease_kills_the_process(tmp_path: Path, queue: holdfast.Queue) -> None:
    handle = busy.linger.send(str(tmp_path))

    async def during(worker: Worker) -> None:
        await until(lambda: pids(tmp_path), "the handler")
        await asyncio.to_thread(queue.ack, handle.id)  # by its id, behind the worker's back
        await until(lambda: gone(pids(tmp_path)), "the end of the process")
        await until(lambda: worker.counts.total("lost") == 1, "the worker")

    asyncio.run(working(busy.app, during, processes=1, lease=1))


@pytest.mark.slow
def test_a_worker_that_stops_waits_for_what_runs_in_a_process(tmp_path: Path) -> None:
    handle = busy.linger.send(str(tmp_path), 1)

    async def during(worker: Worker) -> None:
        await until(lambda: pids(tmp_path), "the handler")

    asyncio.run(working(busy.app, during, processes=1))
    assert handle.result(timeout=0) == "done"


@pytest.mark.slow
def test_at_the_deadline_what_runs_is_killed_and_given_back(
    tmp_path: Path, queue: holdfast.Queue
) -> None:
    busy.linger.send(str(tmp_path))

    async def during(worker: Worker) -> None:
        await until(lambda: pids(tmp_path), "the handler")

    worker = asyncio.run(working(busy.app, during, processes=1, deadline=0.2))
    assert worker.counts.by_task["linger"] == {"released": 1}
    [back] = queue.inspect("ready")
    assert (back.receives, HISTORY in back.json()) == (0, False)
    assert gone(pids(tmp_path))


@pytest.mark.slow
def test_what_no_process_has_begun_with_is_given_back_at_once(
    tmp_path: Path, queue: holdfast.Queue
) -> None:
    waiting: list[Any] = []

    async def during(worker: Worker) -> None:
        worker._apart = frozenset()  # as where a queue has tasks of all kinds
        await busy.linger.send_async(str(tmp_path), 3)
        await until(lambda: pids(tmp_path), "the handler")
        waiting.extend(await busy.double.send_many_async([(n,) for n in range(3)]))
        await until(lambda: len(worker.running) == 4, "the others")

    worker = asyncio.run(working(busy.app, during, processes=1))
    assert set(worker.counts.by_task["double"]) == {"released"}
    back = queue.inspect("ready")
    assert [message.id for message in back] == [each.id for each in waiting]
    assert [message.receives for message in back] == [0, 0, 0]


# ---- how many -----------------------------------------------------------------------------


@pytest.mark.slow
def test_there_are_never_more_processes_than_allowed() -> None:
    handles: list[Any] = []

    async def during(worker: Worker) -> None:
        worker._apart = frozenset()  # as where a queue has tasks of all kinds
        handles.extend(await busy.nap.send_many_async([(0.2,)] * 6))
        await until(lambda: worker.counts.total("succeeded") == 6, "all of them")

    asyncio.run(working(busy.app, during, processes=2))
    assert len({handle.result(timeout=0) for handle in handles}) == 2


@pytest.mark.slow
def test_a_worker_whose_processes_are_busy_leaves_tasks_to_others(tmp_path: Path) -> None:
    busy.linger.send(str(tmp_path), 20)

    async def during(worker: Worker) -> None:
        await until(lambda: pids(tmp_path), "the handler")
        handles = await busy.double.send_many_async([(n,) for n in range(5)])
        second = Worker(busy.app, worker.plan)
        at_work = asyncio.ensure_future(second.run())
        try:
            await until(lambda: second.counts.total("succeeded") == 5, "the other worker")
        finally:
            second.quiet()
            await at_work
        assert [await each.result_async(timeout=0) for each in handles] == [0, 2, 4, 6, 8]
        assert "double" not in worker.counts.by_task

    asyncio.run(working(busy.app, during, processes=1, deadline=0))


@pytest.mark.slow
def test_what_has_waited_long_for_a_process_is_given_back(tmp_path: Path) -> None:
    """In a queue of tasks of all kinds nobody knows beforehand which of them need a process."""

    @busy.app.task(name="light")
    def light() -> None: ...

    try:
        busy.linger.send(str(tmp_path), 20)
        busy.double.send(1)

        async def during(worker: Worker) -> None:
            await until(lambda: pids(tmp_path), "the handler")
            await until(lambda: worker.counts.by_task.get("double"), "giving back what waits")
            assert worker.counts.by_task["double"] == {"released": 1}

        asyncio.run(working(busy.app, during, processes=1, deadline=0))
    finally:
        del busy.app.tasks["light"]


@pytest.mark.slow
def test_a_warm_process_costs_well_under_a_millisecond() -> None:
    """Compared with a thread, to hold on a busy machine: the median of many calls of each."""
    from holdfast.worker.processes import Processes

    spent: list[float] = []
    whole = Processes._run

    async def timed(self: Processes, piece: Any) -> Any:
        began = time.perf_counter()
        found = await whole(self, piece)
        spent.append(time.perf_counter() - began)
        return found

    Processes._run = timed  # type: ignore[method-assign]
    try:
        busy.double.send_many([(n,) for n in range(300)])
        run(concurrency=1)
    finally:
        Processes._run = whole  # type: ignore[method-assign]
    assert len(spent) == 300
    assert sorted(spent)[150] < 0.005


# ---- when there can be none ---------------------------------------------------------------


def test_an_app_that_no_other_process_can_find_says_so(all_servers: Servers) -> None:
    with new_app(all_servers.url("standalone")) as app:

        @app.task(run="process", retries=0)
        def lost() -> None: ...

        handle = lost.send()
        work(app, processes=1)
        with pytest.raises(TaskFailed, match="no module has this app under a name"):
            handle.result(timeout=0)
