"""Attempts one at a time, where the caller stands: for Spark's slots and for the inline mode of tests.

As a worker does it, in the same order: told, followed by what comes next in the flow, settled. What is to
become of a delivery is decided in attempt.py for both. There is no loop, no prefetch and no lease here:
whoever brings the delivery keeps its lease.

    attempt = alone.open(delivery)
    if attempt is not None:
        alone.end(attempt, *alone.call(attempt))
"""

from __future__ import annotations

import logging
import time
from typing import Any

from holdfast.client._sync.delivery import Delivery
from holdfast.engine import tasks as engine
from holdfast.engine.keys import QueueRef
from holdfast.tasks import context as contexts
from holdfast.tasks.app import App
from holdfast.tasks.attempt import Attempt, Verdict, open_delivery
from holdfast.tasks.context import Context
from holdfast.tasks.judging import judge, tell

log = logging.getLogger("holdfast.worker")

Ended = tuple[Any, BaseException | None]


class Alone:
    """`worker`: who did it, as the history of an attempt tells. Several threads may use one."""

    def __init__(self, app: App, worker: str) -> None:
        self.app = app
        self.worker = worker

    def open(self, delivery: Delivery) -> Attempt | None:
        """What is to be done for it. None: nothing can be, and it is a dead letter by now."""
        opened = open_delivery(self.app, delivery, delivery.source, self.worker)
        if isinstance(opened, Attempt):
            return opened
        reason = opened.settlement.reason
        log.error("%s in %r is a dead letter: %s", delivery.id, delivery.source, reason)
        context = Context(delivery, "", delivery.source, delivery.receives, worker=self.worker)
        self.app.stack.tell("buried", context, reason)
        self.settle(delivery, opened)
        return None

    def begin(self, attempt: Attempt) -> None:
        attempt.started = attempt.context.started = time.monotonic()
        self.app.stack.tell("started", attempt.context)
        if attempt.task.definition.unique == "queued":
            delivery = attempt.delivery
            delivery.batch.queue.transport.run(engine.unname(_ref(delivery), [delivery.wire]))

    def call(self, attempt: Attempt) -> Ended:
        """Run a plain function: its value, or what it raised."""
        token = contexts.enter(attempt.context)
        try:
            with self.app.stack.around(attempt.context):
                return attempt.task.function(*attempt.args, **attempt.kwargs), None
        except KeyboardInterrupt:
            raise  # somebody wants us to stop, not the task to fail
        except BaseException as error:
            return None, error
        finally:
            contexts.leave(token)

    async def call_async(self, attempt: Attempt) -> Ended:
        """The same for a coroutine function."""
        token = contexts.enter(attempt.context)
        try:
            with self.app.stack.around(attempt.context):
                return await attempt.task.function(*attempt.args, **attempt.kwargs), None
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return None, error
        finally:
            contexts.leave(token)

    def judge(self, attempt: Attempt, value: Any, error: BaseException | None) -> Verdict:
        """What is to become of it; whoever listens is told."""
        verdict = judge(attempt, value, error)
        tell(self.app.stack, attempt, verdict)
        return verdict

    def settle(self, delivery: Delivery, verdict: Verdict) -> bool:
        """What follows is sent before the delivery is settled: who dies in between does it again, and the
        dedup id of the next step makes that one message. False: it was not ours any more."""
        if verdict.follow is not None:
            self.app.desk().follow(*verdict.follow)
        if verdict.ends is not None:
            self.app.desk().end(*verdict.ends)
        if verdict.plain and delivery.consumer is not None:
            delivery.ack()  # with others, soon
            return True
        call = engine.settle(_ref(delivery), [verdict.settlement])
        lost = delivery.batch.queue.transport.run(call)
        delivery.settled = True
        if lost:
            log.warning("%s of %r was settled too late", delivery.id, delivery.source)
        return not lost

    def end(self, attempt: Attempt, value: Any, error: BaseException | None) -> Verdict:
        verdict = self.judge(attempt, value, error)
        if not self.settle(attempt.delivery, verdict):
            self.app.stack.tell("lost", attempt.context)
        return verdict


def _ref(delivery: Delivery) -> QueueRef:
    return QueueRef(delivery.source, delivery.shard)
