"""What every handler of every side calls: `done(n)`. Standard library only; tally.mjs is its twin.

A drain sends the numbers 0, 1, 2 … A number counts once, however often it comes, so that the end is
reached when all of them were worked on. The harness is told of two moments, through a pipe: `first`,
when the worker has warmed up, and `last`. At the first everything stands still until the harness has
noted the counters of the server and of the processes; then the clock starts. In between a handler
costs a lock, a flag and an addition.

A number from STAMP up is a time instead: the latency of that task is kept. STUCK is a task that
never ends, for the crash; a number that can be found again in a server's data.

Rejected: a counter in the server, or a line in a file for each task. They would cost more than some
of the queues that are measured here.
"""

from __future__ import annotations

import json
import os
import threading
import time

STAMP = 10**15
STUCK = 987_654_321

_folder = os.environ.get("PEERS_FOLDER", "")
_warm = int(os.environ.get("PEERS_WARM", "0"))
_total = int(os.environ.get("PEERS_TOTAL", "0"))
_paced = int(os.environ.get("PEERS_PACED", "0"))

_lock = threading.Lock()
_seen = bytearray(_total)
_count = 0
_again = 0
_first_ns = 0
_latencies_us: list[int] = []


def stamp() -> int:
    """An argument that says when it was sent: CLOCK_MONOTONIC, which all processes share."""
    return STAMP + time.monotonic_ns() // 1000


def done(n: int) -> None:
    global _count, _again, _first_ns
    if n >= STUCK:
        _special(n)
        return
    with _lock:
        if _seen[n]:
            _again += 1
            return
        _seen[n] = 1
        _count += 1
        if _count == _warm:
            _tell({"moment": "first"})
            _wait()
            _first_ns = time.monotonic_ns()
        elif _count == _total:
            ns = time.monotonic_ns() - _first_ns
            _tell({"moment": "last", "ns": ns, "again": _again})


def _special(n: int) -> None:
    if n < STAMP:
        _tell({"moment": "stuck"})
        _wait()  # for ever: nobody answers
        return
    took = stamp() - n
    with _lock:
        _latencies_us.append(took)
        if len(_latencies_us) == _paced:
            _tell({"moment": "paced", "us": _latencies_us})


def _tell(what: dict[str, object]) -> None:
    # In one write, and under PIPE_BUF only where two could write at once, which nobody does.
    with open(os.path.join(_folder, "told"), "wb", buffering=0) as pipe:  # noqa: PTH118, PTH123
        rest = memoryview(json.dumps(what).encode() + b"\n")
        while rest:
            rest = rest[pipe.write(rest) :]


def _wait() -> None:
    with open(os.path.join(_folder, "go"), "rb", buffering=0) as pipe:  # noqa: PTH118, PTH123
        pipe.read(1)
