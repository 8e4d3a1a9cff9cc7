"""What Spark users do today with a list in Redis or Valkey: redis-py inside their own functions.

LPOP and RPUSH of a thousand, pipelined, a connection per partition. What was popped is gone when a
task fails, and what was pushed is pushed again when it is repeated: there is nothing to compare
with but the speed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import redis

from benchmarks.spark.rig import CHUNK, CORES, Rig

KEY = "raw:list"
_DEEP = 10
"""Commands in one pipeline."""


def push(rig: Rig, bodies: Iterable[list[bytes]]) -> None:
    """From this process, to have something to pop."""
    with rig.server.connect() as client, client.pipeline(transaction=False) as pipeline:
        for chunk in bodies:
            pipeline.rpush(KEY, *chunk)
            if len(pipeline) == _DEEP:
                pipeline.execute()
        pipeline.execute()


def popped(rig: Rig, rows: int) -> Any:
    """A DataFrame of so many bodies; popped when it is used."""
    share = -(-rows // CORES)
    per_part = [min(share, rows - i * share) for i in range(CORES)]
    counts = rig.spark.sparkContext.parallelize(per_part, CORES)
    return rig.spark.createDataFrame(counts.mapPartitions(_popper(rig)), "body binary")


def pop_and_drop(rig: Rig, rows: int) -> None:
    """The same, but what is popped never leaves the Python workers."""
    pop = _popper(rig)

    def drop(counts: Iterable[int]) -> None:
        for _ in pop(counts):
            pass

    rig.spark.sparkContext.parallelize([rows // CORES] * CORES, CORES).foreachPartition(drop)


def pusher(rig: Rig) -> Callable[[Iterator[Any]], None]:
    """For `foreachPartition` of a DataFrame with a column `body`."""
    path = str(rig.server.socket)

    def push_all(rows: Iterator[Any]) -> None:
        with redis.Redis(unix_socket_path=path) as client, client.pipeline(False) as pipeline:
            chunk: list[bytes] = []
            for row in rows:
                chunk.append(bytes(row.body))
                if len(chunk) == CHUNK:
                    pipeline.rpush(KEY, *chunk)
                    chunk = []
                    if len(pipeline) == _DEEP:
                        pipeline.execute()
            if chunk:
                pipeline.rpush(KEY, *chunk)
            pipeline.execute()

    return push_all


def _popper(rig: Rig) -> Callable[[Iterable[int]], Iterator[tuple[bytes]]]:
    path = str(rig.server.socket)

    def pop(counts: Iterable[int]) -> Iterator[tuple[bytes]]:
        with redis.Redis(unix_socket_path=path) as client, client.pipeline(False) as pipeline:
            for count in counts:
                for start in range(0, count, CHUNK * _DEEP):
                    end = min(start + CHUNK * _DEEP, count)
                    for at in range(start, end, CHUNK):
                        pipeline.lpop(KEY, min(CHUNK, end - at))
                    for answer in pipeline.execute():
                        for body in answer or ():
                            yield (body,)

    return pop
