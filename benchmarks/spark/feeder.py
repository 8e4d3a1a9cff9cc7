"""`python -m benchmarks.spark.feeder URL QUEUE COUNT MOST`: keep a queue fed, and never too full.

A process of its own, so that what it costs shows in nobody's memory.
"""

from __future__ import annotations

import random
import sys
import time

import holdfast
from benchmarks.spark.rig import CHUNK, chunks


def feed(url: str, name: str, count: int, most: int) -> None:
    """Send `count` messages; wait while the queue holds more than `most`."""
    with holdfast.connect(url) as client:
        queue = client.queue(name)
        for i, bodies in enumerate(chunks(random.Random(1), count)):
            if i * CHUNK % (most // 10) < CHUNK:
                while queue.stats().total > most:
                    time.sleep(0.02)
            queue.send_many(bodies)


if __name__ == "__main__":
    feed(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
