"""work with an app: its tasks on executors, as a worker would run them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import holdfast
from holdfast.engine.keys import LimitRef
from holdfast.engine.tasks import permit_concurrency
from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.spark.jobs import work
from holdfast.spark.jobs.tasks import AppName
from holdfast.spark.jobs.work import Plan
from holdfast.spark.place import Place
from holdfast.tasks.limits import of_call
from tests.servers import wait_until
from tests.spark.jobs.test_commands import last

QUEUES = ("errands", "errands-aside")
APP = AppName("errands:app")


@pytest.fixture(scope="module")
def errands(spark: SparkSession, server_url: str) -> Iterator[Any]:
    """The module, here and on the executors, where Spark brings it."""
    spark.sparkContext.addPyFile(str(Path(__file__).with_name("errands.py")))
    module = import_module("errands")
    module.app.connect_to(server_url, check="off")
    yield module
    module.app.close()


def said(app: holdfast.App) -> list[bytes]:
    return [message.body for message in app.desk().queue("errands-said").inspect("ready")]


@pytest.fixture(scope="module")
def sent(errands: Any, spark: SparkSession, server_url: str) -> SimpleNamespace:
    """Everything at once, in one run: each start of a job costs seconds."""
    e = errands
    handles = SimpleNamespace(
        many=e.add.send_many([(n, 1) for n in range(50)]),
        gather=e.gather.send(5),
        where=e.where.send(),
        flaky=e.flaky.send(),
        hopeless=e.hopeless.send(),
        leaves=e.leaves.send(),
        never_mind=e.never_mind.send(),
        nap=e.nap.send(time.time() + 1),
        hangs=e.hangs.send(),
        hangs_too=e.hangs_too.send(),
        endless=e.endless.send(),
        rare=e.rare.send_many([(), ()]),
        serial=e.one_at_a_time.send_many([()] * 10),
        once=e.once.send(1),
        flow=holdfast.group([e.add.job(n, 10) for n in range(4)])
        .then(e.total.job())
        .then(e.add.job(100))
        .send(),
        app=e.app,
    )
    queue = e.app.desk().queue("errands")
    queue.send(b"what is this?")
    queue.send(b'{"task": "unheard of"}')
    queue.send(b'{"task": "add", "args": {"first": "one"}}')

    def cancel() -> None:
        wait_until(lambda: b"endless" in said(e.app), 60)
        assert handles.endless.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    places = [Place(server_url, None, name) for name in QUEUES]
    handles.summary = work.run(spark, Plan(APP, places, idle=4))
    canceller.join()
    return handles


@pytest.mark.slow
def test_functions_and_coroutines_run_and_their_results_are_there(sent: SimpleNamespace) -> None:
    assert [handle.result(0) for handle in sent.many] == list(range(1, 51))
    assert sent.gather.result(0) == 10
    assert sent.once.result(0) == 1


def test_they_run_on_executors_after_worker_started_was_told_there(sent: SimpleNamespace) -> None:
    pid, worker, started = sent.where.result(0)
    assert pid != os.getpid()
    assert worker.startswith("spark:")
    # Spark may use a process again, which a test before this one has had.
    assert set(started) == {worker}


def test_what_fails_is_tried_again_and_buried_with_its_history(sent: SimpleNamespace) -> None:
    assert sent.flaky.result(0) == 3
    with pytest.raises(holdfast.TaskFailed, match="after 3 attempts: ValueError: never"):
        sent.hopeless.result(0)
    message = sent.app.desk().message("errands", sent.hopeless.id)
    assert message.state == "dead"
    assert "in hopeless" in message.death.error
    assert len(message.json()["history"]) == 3


def test_outcomes_are_heeded_and_an_exit_ends_the_attempt_only(sent: SimpleNamespace) -> None:
    with pytest.raises(holdfast.TaskCancelled, match="not needed"):
        sent.never_mind.result(0)
    assert sent.nap.result(0) == "awake"
    with pytest.raises(holdfast.TaskFailed, match="SystemExit: 3"):
        sent.leaves.result(0)


def test_a_handler_that_takes_too_long_is_ended(sent: SimpleNamespace) -> None:
    for handle in (sent.hangs, sent.hangs_too):
        with pytest.raises(holdfast.TaskFailed, match=r"longer than its timeout of 0\.5 s"):
            handle.result(0)
    assert b"interrupted" in said(sent.app)


def test_a_running_coroutine_is_cancelled(sent: SimpleNamespace) -> None:
    with pytest.raises(holdfast.TaskCancelled, match="was cancelled"):
        sent.endless.result(0)


def test_flows_go_on_from_step_to_step(sent: SimpleNamespace) -> None:
    assert sent.flow.result(0) == 146


def test_limits_are_kept(sent: SimpleNamespace) -> None:
    assert sorted(handle.status() for handle in sent.rare) == ["delayed", "succeeded"]
    spans = sorted(tuple(handle.result(0)) for handle in sent.serial)
    ends = [end for _, end in spans]
    assert all(began >= end for (began, _), end in zip(spans[1:], ends, strict=False))
    limits = sent.app.tasks["one_at_a_time"].definition.limits
    [need] = of_call("one_at_a_time", limits, (), {})
    free = permit_concurrency(LimitRef(need.name), 1, 1, ["somebody else"])
    assert sent.app.desk().client.transport.run(free).granted == 1


def test_what_is_no_task_of_the_app_is_a_dead_letter(sent: SimpleNamespace) -> None:
    dead = sent.app.desk().queue("errands").inspect("dead", count=100)
    reasons = " | ".join(message.death.reason for message in dead)
    assert "the body is not that of a task" in reasons
    assert "unknown task 'unheard of'" in reasons
    assert "bad arguments for 'add'" in reasons


def test_the_job_counts_what_happened(sent: SimpleNamespace) -> None:
    first, second = sent.summary.queues
    # 50 of many, gather, where, flaky, never_mind, nap, endless, rare, once, and 6 of the flow.
    assert (first.handled, first.dead) == (64, 7)
    assert first.failed == 7 + 2 + 2 + 2  # the retries of flaky, hopeless and leaves
    assert (second.handled, second.failed, second.dead) == (10, 0, 0)
    assert sent.app.desk().queue("errands").stats().leased == 0


def test_what_the_app_says_about_its_queues_is_set(sent: SimpleNamespace) -> None:
    assert sent.app.desk().queue("errands").settings().lease == 20


def test_a_task_whose_process_is_killed_comes_back_and_is_counted_as_an_attempt(
    errands: Any, spark: SparkSession, server_url: str
) -> None:
    errands.app.desk().queue("errands-deadly").configure(lease=2)
    handle = errands.deadly.send()
    work.run(
        spark, Plan(APP, [Place(server_url, None, "errands-deadly")], slots=1, idle=5, prefetch=1)
    )
    assert handle.result(0) == 2


@pytest.mark.slow
def test_the_command_takes_an_app_and_serves_all_of_its_queues(
    errands: Any, server_url: str
) -> None:
    handle, aside = errands.add.send(1, 2), errands.one_at_a_time.send()
    words = ("work", "errands:app", "--once", "--idle", "2s", "--url", server_url)
    summary = last(*words)
    assert [each["queue"] for each in summary["queues"]] == [*QUEUES, "errands-deadly"]
    assert handle.result(0) == 3
    assert aside.status() == "succeeded"


def test_an_app_that_is_not_there_is_told_before_a_job_starts(
    spark: SparkSession, server_url: str
) -> None:
    place = Place(server_url, None, "errands")
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        work.run(spark, Plan(AppName("nowhere:app"), [place]))
    with pytest.raises(InvalidArgument, match="not an App"):
        work.run(spark, Plan(AppName("json:dumps"), [place]))


def test_subscriptions_hold_no_tasks(errands: Any, spark: SparkSession, server_url: str) -> None:
    place = Place(server_url, None, None, "prices", "billing")
    with pytest.raises(HoldfastError, match="not in topics"):
        work.run(spark, Plan(APP, [place]))
