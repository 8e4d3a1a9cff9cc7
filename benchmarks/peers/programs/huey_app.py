"""huey. Its worker pops a task and then runs it: nothing is left to acknowledge ("Guide: Consuming tasks").

Settings: RedisHuey with `results=False` and blocking pops, ten threads, which measured best here
("Consumer: worker types"). `map` enqueues one by one.
"""

import os
from collections.abc import Iterable

import tally
from huey import RedisHuey

huey = RedisHuey("bench", url=os.environ["PEERS_URL"], results=False, utc=True)


@huey.task()
def noop(n: int) -> None:
    tally.done(n)


def send(n: int) -> None:
    noop(n)


def send_all(numbers: Iterable[int]) -> None:
    noop.map(numbers)
