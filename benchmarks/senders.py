"""Many coroutines that send one message each at the same time, as a web service does.

Ours gathers what is waiting into one call; redis.asyncio sends each over a connection of its pool.
Reported, without a bar.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import redis.asyncio

import holdfast
from benchmarks.bars import Bar
from benchmarks.rounds import Laps, Ratio, Rounds, interleave
from benchmarks.run import Run, Table
from benchmarks.servers import Server, running

RAW, OURS = "redis.asyncio RPUSH", "Holdfast"
SENDERS = (1, 10, 100, 1000)
# A choice, not a tuned optimum: redis.asyncio's own pool has no bound by default.
POOL = 32


@dataclass(frozen=True)
class Senders:
    senders: int
    rounds: Rounds
    speed: Ratio


@dataclass(frozen=True)
class SendersResult:
    mode: str
    rows: list[Senders]

    def tables(self) -> list[Table]:
        return [
            Table(
                f"Concurrent single sends of one asyncio process, mode {self.mode}",
                ("senders", f"{RAW}, msg/s", f"{OURS}, msg/s", "× redis.asyncio"),
                [
                    (
                        f"{row.senders:,}",
                        f"{row.rounds.per_second(RAW):,.0f}",
                        f"{row.rounds.per_second(OURS):,.0f}",
                        f"{row.speed.median:.2f} ({row.speed.low:.2f}–{row.speed.high:.2f})",
                    )
                    for row in self.rows
                ],
                f"redis.asyncio over a blocking pool of {POOL} connections. More is faster.",
            )
        ]

    def bars(self) -> list[Bar]:
        return []


def measure(run: Run) -> SendersResult:
    with running("fast") as server, asyncio.Runner() as loop:
        rows = [_row(run, loop, server, senders) for senders in SENDERS]
    return SendersResult(server.mode, rows)


def _row(run: Run, loop: asyncio.Runner, server: Server, senders: int) -> Senders:
    waves = max(run.choose(400, 4) // senders, 1)
    count = run.choose(25, 2)
    body = run.bodies(1)[0]
    raw, ours = loop.run(_clients(server))
    queue = ours.queue("senders")

    async def clear() -> None:
        await raw.delete("raw:senders")
        await queue.purge()

    def side(send: Callable[[], Awaitable[Any]]) -> Callable[[], Laps]:
        def one() -> Laps:
            laps = {"send": loop.run(_waves(send, senders, waves))}
            loop.run(clear())
            return laps

        return one

    with run.step(f"{senders} concurrent senders", count + 1) as tick:
        rounds = interleave(
            {
                RAW: side(lambda: raw.rpush("raw:senders", body)),
                OURS: side(lambda: queue.send(body)),
            },
            messages=senders * waves,
            rounds=count,
            rng=run.rng,
            tick=tick,
        )
    loop.run(_close(raw, ours))
    return Senders(senders, rounds, rounds.speed(OURS, RAW))


async def _waves(send: Callable[[], Awaitable[Any]], senders: int, waves: int) -> int:
    started = time.perf_counter_ns()
    for _ in range(waves):
        await asyncio.gather(*(send() for _ in range(senders)))
    return time.perf_counter_ns() - started


async def _clients(server: Server) -> tuple[Any, holdfast.AsyncClient]:
    pool = redis.asyncio.BlockingConnectionPool(
        connection_class=redis.asyncio.UnixDomainSocketConnection,
        path=str(server.socket),
        protocol=2,
        max_connections=POOL,
        timeout=None,
    )
    return redis.asyncio.Redis(connection_pool=pool), holdfast.connect_async(server.url)


async def _close(raw: Any, ours: holdfast.AsyncClient) -> None:
    await raw.aclose()
    await raw.connection_pool.aclose()
    await ours.close()
