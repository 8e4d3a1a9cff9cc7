"""RQ. A job is in the registry of started jobs until it has run ("Workers: the worker lifecycle").

Settings: SimpleWorker, which does not fork for each job and is far faster so ("Workers:
SimpleWorker", which advises against it in production); JSON in place of pickle ("Workers: custom
serializer"), `result_ttl=0`, no scheduler, and a Retry, without which an abandoned job only counts as
failed. Many are sent by `enqueue_many` ("Jobs: bulk job enqueueing").
"""

import os
from collections.abc import Sequence

import tally
from redis import Redis
from rq import Queue, Retry
from rq.serializers import JSONSerializer

_crash = "PEERS_CRASH" in os.environ
_queue = Queue(
    "bench", connection=Redis.from_url(os.environ["PEERS_URL"]), serializer=JSONSerializer
)
_seconds = 5 if _crash else 180


def noop(n: int) -> None:
    tally.done(n)


def send(n: int) -> None:
    _queue.enqueue(noop, n, retry=Retry(max=3), result_ttl=0, job_timeout=_seconds)


def send_all(numbers: Sequence[int]) -> None:
    for start in range(0, len(numbers), 500):
        _queue.enqueue_many(
            [
                Queue.prepare_data(noop, (n,), retry=Retry(max=3), result_ttl=0, timeout=_seconds)
                for n in numbers[start : start + 500]
            ]
        )
