"""How long a waiting receive takes to have its message, against a raw BLPOP.

The waiter is a process of its own, so that sender and waiter do not share an interpreter. The body
carries the time at which it was sent, on the clock that both processes share (CLOCK_MONOTONIC).
The two sides take turns; nothing is sent before the server says that the waiter is blocked.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from statistics import median, quantiles
from typing import Any

import holdfast
from benchmarks.bars import Bar
from benchmarks.run import Run, Table
from benchmarks.servers import Server, running

BLPOP, OURS = "raw BLPOP", "Holdfast"
_KEY, _QUEUE = "raw:wakeup", "wakeup"
_WAIT = 30


@dataclass(frozen=True)
class WakeupResult:
    mode: str
    latencies_us: dict[str, list[float]]

    def percentile(self, side: str, p: int) -> float:
        found = self.latencies_us[side]
        return quantiles(found, n=100, method="inclusive")[p - 1] if p != 50 else median(found)

    def tables(self) -> list[Table]:
        def line(side: str) -> tuple[str, ...]:
            p50, p99 = self.percentile(side, 50), self.percentile(side, 99)
            of50 = p50 / self.percentile(BLPOP, 50)
            of99 = p99 / self.percentile(BLPOP, 99)
            return side, f"{p50:,.0f}", f"{p99:,.0f}", f"{of50:.2f}", f"{of99:.2f}"

        samples = len(self.latencies_us[OURS])
        return [
            Table(
                f"Wake-up of a waiting receiver, from before send to after receive, mode {self.mode}",
                ("waiter", "p50, µs", "p99, µs", "p50, × BLPOP", "p99, × BLPOP"),
                [line(BLPOP), line(OURS)],
                f"{samples} samples a side, sender and waiter in two processes. Less is faster.",
            )
        ]

    def bars(self) -> list[Bar]:
        times = self.percentile(OURS, 50) / self.percentile(BLPOP, 50)
        return [Bar("wake-up p50, of BLPOP's", times, "≤", 2.0)]


def waiter(server: Server, orders: Connection) -> None:
    """Runs in the other process: waits on the side it is told to, and answers with the latency."""
    client = server.connect()
    with holdfast.connect(server.url) as ours:
        queue = ours.queue(_QUEUE)

        def blpop() -> int:
            popped: Any = client.blpop([_KEY], timeout=_WAIT)
            return time.perf_counter_ns() - int(popped[1])

        def receive() -> int:
            got = queue.receive(wait=_WAIT)
            assert got is not None
            took = time.perf_counter_ns() - int(got.body)
            got.ack()
            return took

        wait: dict[str, Callable[[], int]] = {BLPOP: blpop, OURS: receive}
        while (side := orders.recv()) is not None:
            orders.send(wait[side]())
    client.close()


def measure(run: Run) -> WakeupResult:
    samples = run.choose(500, 10)
    found: dict[str, list[float]] = {BLPOP: [], OURS: []}
    with running("fast") as server, server.connect() as client, server.connect() as watch:
        context = multiprocessing.get_context("spawn")
        orders, theirs = context.Pipe()
        process = context.Process(target=waiter, args=(server, theirs), daemon=True)
        process.start()
        theirs.close()  # so that its death is noticed at this end
        try:
            with (
                holdfast.connect(server.url) as ours,
                run.step("wake-up of a waiting receiver", samples) as tick,
            ):
                queue = ours.queue(_QUEUE)
                send: dict[str, Callable[[bytes], object]] = {
                    BLPOP: lambda body: client.rpush(_KEY, body),
                    OURS: queue.send,
                }
                order = [BLPOP, OURS]
                for number in range(-5, samples):
                    run.rng.shuffle(order)
                    for side in order:
                        orders.send(side)
                        _until_blocked(watch)
                        # Neither right after it blocked, nor in step with anything.
                        time.sleep(run.rng.uniform(0.001, 0.003))
                        send[side](str(time.perf_counter_ns()).zfill(100).encode())
                        latency = orders.recv()
                        if number >= 0:
                            found[side].append(latency / 1000)
                    tick()
                orders.send(None)
                process.join(10)
        finally:
            if process.is_alive():
                process.kill()
            process.join()
    return WakeupResult(server.mode, found)


def _until_blocked(watch: Any) -> None:
    give_up = time.monotonic() + 20
    while watch.info("clients")["blocked_clients"] != 1:
        if time.monotonic() > give_up:
            raise RuntimeError("the waiter does not wait")
        time.sleep(0.0005)
