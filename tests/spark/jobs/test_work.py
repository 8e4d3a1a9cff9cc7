"""work: handlers on executors, with acks, retries and dead letters."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

import holdfast
from holdfast.client._sync.delivery import Delivery
from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.spark.jobs import running, work
from holdfast.spark.jobs.work import Done, Plan
from holdfast.spark.place import Place


@pytest.fixture
def queue(hf: holdfast.Client, request: pytest.FixtureRequest) -> holdfast.Queue:
    return hf.queue(request.node.name[:150])


@pytest.fixture
def place(queue: holdfast.Queue, server_url: str) -> Place:
    return Place(server_url, None, queue.name)


def test_handlers_ack_what_they_return_from_and_what_always_fails_dies(
    spark: SparkSession, hf: holdfast.Client, queue: holdfast.Queue, place: Place, server_url: str
) -> None:
    other = hf.queue(f"{queue.name}-other")
    queue.configure(max_receives=2)
    queue.send_many([b"good"] * 50 + [b"bad"])
    other.send_many([b"good"] * 20)

    def handle(delivery: Delivery) -> None:
        if delivery.body == b"bad":
            raise ValueError("cannot be shipped")

    told = list[Sequence[Done]]()
    places = [place, Place(server_url, None, other.name)]
    summary = work.run(
        spark, Plan(handle, places, idle=4), watch=lambda done, slots: told.append(done)
    )
    assert summary.queues == (Done(queue.name, 50, 2, 1), Done(other.name, 20, 0, 0))
    assert told[-1] == summary.queues
    assert summary.slots == 2
    [dead] = queue.inspect("dead")
    assert dead.death
    assert "cannot be shipped" in dead.death.error
    assert (queue.stats().total, other.stats().total) == (1, 0)


def test_a_slot_runs_one_handler_at_a_time_in_a_process_of_its_own(
    spark: SparkSession, hf: holdfast.Client, queue: holdfast.Queue, place: Place, server_url: str
) -> None:
    other = hf.queue(f"{queue.name}-other")
    queue.send_many([b"x"] * 20)
    other.send_many([b"x"] * 20)
    result = hf.queue(f"{queue.name}-result")
    target = Place(server_url, None, result.name)
    name = result.name

    def handle(delivery: Delivery) -> None:
        import holdfast as module  # one for each process: what is set here is seen by all its threads

        assert not getattr(module, "_at_work", False)
        module._at_work = True
        target.client().queue(name).send(str(os.getpid()).encode())
        module._at_work = False

    places = [place, Place(server_url, None, other.name)]
    summary = work.run(spark, Plan(handle, places, slots=1, idle=2))
    assert [done.handled for done in summary.queues] == [20, 20]
    assert [done.failed for done in summary.queues] == [0, 0]
    [pid] = {message.body for message in result.inspect("ready", count=100)}
    assert int(pid) != os.getpid()


def test_stopping_finishes_what_is_in_hand_and_gives_the_rest_back(
    spark: SparkSession, queue: holdfast.Queue, place: Place
) -> None:
    queue.send_many([b"x"] * 1000)
    stop = running.Stop()

    def handle(delivery: Delivery) -> None:
        import time

        time.sleep(0.02)  # as long as real work would take

    def watch(done: Sequence[Done], slots: int) -> None:
        if done[0].handled:
            stop.set()

    summary = work.run(spark, Plan(handle, [place], prefetch=50), stop=stop, watch=watch)
    stats = queue.stats()
    assert summary.stopped
    assert 0 < summary.queues[0].handled < 1000
    assert stats.acked == summary.queues[0].handled
    assert (stats.leased, stats.ready) == (0, 1000 - stats.acked)


def test_work_goes_on_when_a_process_is_killed_and_its_message_comes_back(
    spark: SparkSession, queue: holdfast.Queue, place: Place
) -> None:
    queue.configure(lease=2)
    queue.send_many([b"good"] * 10 + [b"deadly"])

    def handle(delivery: Delivery) -> None:
        if delivery.body == b"deadly" and delivery.receives == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    work.run(spark, Plan(handle, [place], idle=5, prefetch=1))
    stats = queue.stats()
    assert (stats.acked, stats.total) == (11, 0)


def test_a_handler_that_takes_every_process_down_is_not_started_for_ever(
    spark: SparkSession, queue: holdfast.Queue, place: Place
) -> None:
    queue.send(b"x")

    def handle(delivery: Delivery) -> None:
        raise SystemExit("I give up")

    with pytest.raises(HoldfastError, match="I give up"):
        work.run(spark, Plan(handle, [place], slots=1))
    assert queue.stats().ready == 1


def test_each_queue_is_named_once(spark: SparkSession, place: Place) -> None:
    with pytest.raises(InvalidArgument, match="each once"):
        work.run(spark, Plan(print, [place, place]))
