"""The app of the crash tests: tasks that misbehave when they run for the first time, each in its own way.

Every run is written down, when it begins and when it ends, in a file that no crash can take back.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time

import holdfast
from holdfast import Retries

app = holdfast.App(
    queue="work", result_ttl=None, retries=Retries(3, first=0.05, most=0.2), check="off"
)

_path = os.environ["CRASH_BOOK"]
_book = os.open(_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def write(what: str, n: int) -> None:
    me = holdfast.current()
    os.write(_book, f"{what} {n} {me.attempt} {me.worker} {time.time()}\n".encode())


def first_time(n: int) -> bool:
    """Whether nobody has run it before. Its attempt does not tell: one that was only taken ahead by a worker
    that died has had one too."""
    try:
        os.close(os.open(f"{_path}.{n}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


class Odd(BaseException):
    """Not an Exception, as some libraries' own."""


def misbehave(how: str) -> None:
    if how == "exit":
        sys.exit(3)
    if how == "base":
        raise Odd("out of the ordinary")
    if how == "die":
        os._exit(9)
    if how == "memory":
        hoard = []
        while True:
            hoard.append(bytearray(16 * 1024 * 1024))
    if how == "hang":
        threading.Event().wait()


@app.task(timeout=1)
def step(n: int, how: str = "") -> None:
    write("begin", n)
    if how and first_time(n):
        misbehave(how)
    time.sleep(0.005)
    write("end", n)


@app.task(timeout=1)
async def stride(n: int, how: str = "") -> None:
    write("begin", n)
    if how and first_time(n):
        if how == "hang":
            await asyncio.sleep(3600)
        if how == "block":
            time.sleep(3600)  # noqa: ASYNC251
        misbehave(how)
    await asyncio.sleep(0.005)
    write("end", n)
