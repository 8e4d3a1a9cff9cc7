"""Celery with Redis. `acks_late`: a message is acknowledged after the task has run ("Tasks: acks_late").

Settings: a large prefetch ("Optimizing: prefetch limits"), one process with the pool that was
measured best here, no results, no events, no rate limits, neither gossip nor mingle nor heartbeat
("Workers guide"). What a dead worker held comes back after `visibility_timeout` ("Using Redis:
visibility timeout"). Many are sent through kombu's `Producer.batch`, a pipeline of its Redis
transport.
"""

import os
from collections.abc import Iterable

import tally
from celery import Celery

_crash = "PEERS_CRASH" in os.environ
app = Celery("bench", broker=os.environ["PEERS_URL"])
app.conf.update(
    task_default_queue="bench",
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    task_store_errors_even_if_ignored=False,
    worker_prefetch_multiplier=128,
    worker_disable_rate_limits=True,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "visibility_timeout": 5 if _crash else 3600,
        "unacked_restore_throttle": 1 if _crash else 10,
    },
)


@app.task
def noop(n: int) -> None:
    tally.done(n)


def send(n: int) -> None:
    noop.delay(n)


def send_all(numbers: Iterable[int]) -> None:
    with app.producer_or_acquire() as producer, producer.batch():
        for n in numbers:
            noop.apply_async((n,), producer=producer)
