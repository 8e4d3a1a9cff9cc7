"""Holdfast, as its README has it: a coroutine on the worker's loop, and no result kept."""

import os
from collections.abc import Iterable

import tally

import holdfast

app = holdfast.App(os.environ["PEERS_URL"])


@app.task(queue="bench", result_ttl=None)
async def noop(n: int) -> None:
    tally.done(n)


def send(n: int) -> None:
    noop.send(n)


def send_all(numbers: Iterable[int]) -> None:
    noop.send_many([(n,) for n in numbers])
