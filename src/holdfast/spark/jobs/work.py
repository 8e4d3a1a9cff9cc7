"""work: a function handles the messages of some queues, or an app runs its tasks, on Spark's executors.

Not micro-batches: one long task per slot, each a consumer with leases like any other. A handler that
returns has its message acked; one that raises has it tried again after a while, and at the end of its
tries it is a dead letter. An executor or driver that is killed takes nothing with it: leases end, and
the messages go to others. What becomes of an app's tasks is told in tasks.py.

A slot runs one handler at a time, in a process of its own, however many queues it serves, so a handler
need not be thread-safe. Each queue has a thread there that receives; they take turns.

Tasks stop by their lifeline: the message in hand is finished, what was fetched besides is given back. A
job that fails though nobody stopped it is started again, since in local mode Spark gives up a whole job
for one lost task; one that fails three times before it has handled anything is broken, and its error shown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from holdfast.client._sync.consumer import Consumer
from holdfast.client._sync.delivery import Delivery
from holdfast.errors import InvalidArgument
from holdfast.settings import AS_SET
from holdfast.spark.jobs import faults, running
from holdfast.spark.jobs.lifeline import Address, Counts, Driver, Task
from holdfast.spark.jobs.tasks import AppName, Tasks
from holdfast.spark.place import Place

Handler = Callable[[Delivery], object]
"""What is done with a message."""

_TELL_SECONDS = 0.5
_TRIES = 3
_GROUP = "holdfast work"


@dataclass(frozen=True, slots=True)
class Plan:
    """`idle`: stop when nothing has come for so many seconds; None: work until stopped. `slots`: 0 for
    as many as Spark has cores. `grace`: how long a task may take to finish its message."""

    handler: Handler | AppName
    places: Sequence[Place]
    slots: int = 0
    idle: float | None = None
    lease: float | None = None
    prefetch: int = 10
    grace: float = 30.0


@dataclass(frozen=True, slots=True)
class Done:
    """Of one queue. `handled`: the handler returned; `failed`: it raised; `dead`: it raised at the last
    try that the queue, or the task, permits."""

    queue: str
    handled: int
    failed: int
    dead: int


@dataclass(frozen=True, slots=True)
class Summary:
    queues: tuple[Done, ...]
    slots: int
    seconds: float
    stopped: bool


Watch = Callable[[Sequence[Done], int], None]


def run(
    spark: SparkSession,
    plan: Plan,
    *,
    stop: running.Stop | None = None,
    watch: Watch = lambda done, slots: None,
) -> Summary:
    """Works until `stop` is set, or until the queues have been idle for long enough. `watch` hears now
    and then what was done so far, and how many slots are at work."""
    stop = stop or running.Stop()
    names = [place.name for place in plan.places]
    if not names or len(set(names)) < len(names):
        raise InvalidArgument("name at least one queue, and each once")
    if isinstance(plan.handler, AppName):
        plan.handler.prepare(plan.places)
    slots = plan.slots or spark.sparkContext.defaultParallelism
    began = time.monotonic()
    with Driver(spark) as driver:
        tries = 0
        while True:
            before = driver.totals()
            failure = _job(spark, plan, slots, driver, stop, watch)
            if failure is None or stop.is_set():
                break
            tries = 1 if driver.totals() != before else tries + 1
            if tries == _TRIES:
                raise faults.translated(failure) from failure
        done = _done(plan, driver)
    watch(done, 0)
    return Summary(done, slots, time.monotonic() - began, stop.is_set())


def _job(
    spark: SparkSession, plan: Plan, slots: int, driver: Driver, stop: running.Stop, watch: Watch
) -> Exception | None:
    """One Spark job of long tasks, to its end; what it failed with."""
    failures: list[Exception] = []
    context = spark.sparkContext

    def work() -> None:
        context.setJobGroup(_GROUP, "holdfast work", interruptOnCancel=True)
        try:
            context.parallelize(range(slots), slots).mapPartitions(
                _slot(plan, driver.address)
            ).count()
        except Exception as error:
            failures.append(error)

    thread = InheritableThread(target=work, name="holdfast-work", daemon=True)
    thread.start()
    deadline = None
    while thread.is_alive():
        thread.join(_TELL_SECONDS / 2)
        watch(_done(plan, driver), driver.tasks)
        if stop.is_set() and deadline is None:
            driver.hang_up()
            deadline = time.monotonic() + plan.grace
        elif deadline is not None and time.monotonic() > deadline:
            context.cancelJobGroup(_GROUP)
    return failures[0] if failures else None


def _done(plan: Plan, driver: Driver) -> tuple[Done, ...]:
    totals = driver.totals()

    def of(name: str) -> Done:
        counts = totals.get(name, {})
        return Done(name, *(counts.get(what, 0) for what in ("handled", "failed", "dead")))

    return tuple(of(place.name) for place in plan.places)


# ---- on the executors ---------------------------------------------------------------------


def _slot(plan: Plan, address: Address) -> Callable[[Iterable[int]], Iterator[int]]:
    def task(numbers: Iterable[int]) -> Iterator[int]:
        for number in numbers:
            _Slot(plan, address).work()
            yield number

    return task


class _Slot:
    """All that one task does, in a Python worker."""

    def __init__(self, plan: Plan, address: Address) -> None:
        self._plan = plan
        self._turn = threading.Lock()
        self._counting = threading.Lock()
        self._counts: Counts = {}
        self._told = time.monotonic()
        self._failures: list[BaseException] = []
        lease = AS_SET if plan.lease is None else plan.lease
        self._consumers = [
            place.target().consume(plan.prefetch, lease=lease, idle=plan.idle)
            for place in plan.places
        ]
        self._tasks: Tasks | None = None
        if isinstance(plan.handler, AppName):
            self._tasks = Tasks(plan.handler, plan.places[0])
        self._line = Task(address, self._stop)

    def work(self) -> None:
        threads = [
            threading.Thread(target=self._consume, args=(place, consumer), daemon=True)
            for place, consumer in zip(self._plan.places, self._consumers, strict=True)
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            for thread in threads:
                thread.join(_TELL_SECONDS / len(threads))
            if self._tasks is not None:
                self._tasks.look()
            self._tell()
        self._tell()  # what was counted since
        self._line.close()
        if self._tasks is not None:
            self._tasks.close()
        if self._failures:
            raise self._failures[0]

    def _stop(self) -> None:
        for consumer in self._consumers:
            consumer.stop()

    def _consume(self, place: Place, consumer: Consumer) -> None:
        try:
            limit = place.target().settings().max_receives
            for delivery in consumer:
                with self._turn:
                    if self._tasks is not None:
                        self._count(place.name, self._tasks.handle(delivery))
                    else:
                        self._count(place.name, self._handle(delivery, limit))
        except BaseException as error:  # a handler may well call sys.exit()
            # A slot that has lost its queue is of no use; Spark shall see it, and start it elsewhere.
            self._failures.append(error)
            self._stop()

    def _handle(self, delivery: Delivery, limit: int | None) -> Sequence[str]:
        handler = self._plan.handler
        assert not isinstance(handler, AppName)
        failed = True
        with delivery:
            handler(delivery)
            failed = False
        if not failed:
            return ("handled",)
        last = limit is not None and delivery.receives >= limit
        return ("failed", "dead") if last else ("failed",)

    def _count(self, queue: str, happened: Sequence[str]) -> None:
        with self._counting:
            counts = self._counts.setdefault(queue, {})
            for what in happened:
                counts[what] = counts.get(what, 0) + 1

    def _tell(self) -> None:
        with self._counting:
            told, self._counts = self._counts, {}
        if told:
            self._line.tell(told)
