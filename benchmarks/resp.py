"""What does the Redis door cost, compared with calling the functions on the server oneself?

redis-py on both sides, over loopback TCP, pipelined the same way: pushes of 100, pops of 100, acks of
100 ids. One side talks to `holdfast serve`, the other straight to the server, as somebody would who
built on the functions alone; it packs and unpacks messages itself, as the door does for the other.

The door sees that the ids of an ack are a whole batch and says so to the engine, which is far cheaper
there. A caller of the functions can do that too if it keeps track of batches: the third side does. The
bar compares like with like at the client, ids on both sides; the third is the stricter measure.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import redis

import holdfast
from benchmarks.bars import Bar
from benchmarks.cycle import PHASES
from benchmarks.doors import serving
from benchmarks.rounds import Laps, Ratio, Rounds, interleave
from benchmarks.run import BODY_BYTES, Run, Table
from benchmarks.servers import Server, running
from holdfast.engine.keys import QueueRef
from holdfast.message import plain_envelopes

DOOR, DIRECT, WHOLE = "MQ commands", "FCALL", "FCALL, batches acked whole"
BATCH = 100
DEPTH = 10
LIMIT = 0.5


@dataclass(frozen=True)
class RespResult:
    rounds: Rounds
    ratios: dict[str, Ratio]
    """The door's throughput as a part of the functions' own, by phase."""
    to_whole: dict[str, Ratio]
    """The same, where the functions are told of whole batches."""

    def tables(self) -> list[Table]:
        lines: list[tuple[str, ...]] = []
        for phase, phases in _named():
            of = self.ratios[phase]
            lines.append(
                (
                    phase,
                    f"{self.rounds.per_second(DIRECT, phases):,.0f}",
                    f"{self.rounds.per_second(DOOR, phases):,.0f}",
                    f"{of.median:.2f} ({of.low:.2f}–{of.high:.2f})",
                    f"{self.rounds.per_second(WHOLE, phases):,.0f}",
                    f"{self.to_whole[phase].median:.2f}",
                )
            )
        return [
            Table(
                f"The Redis door, batches of {BATCH}, {DEPTH} in a pipeline, mode fast",
                (
                    "what",
                    f"{DIRECT}, msg/s",
                    f"{DOOR}, msg/s",
                    f"× {DIRECT}",
                    f"{WHOLE}, msg/s",
                    "× that",
                ),
                lines,
                f"{BODY_BYTES}-byte bodies, redis-py over loopback TCP on both sides. More is faster. The "
                "door is one more process between client and server: three share the cores. It acks ids that "
                "are a whole batch as one; FCALL acks each id, but on the right, where it acks batches too.",
            )
        ]

    def bars(self) -> list[Bar]:
        whole = self.ratios["full cycle"].median
        return [Bar("MQ.PUSH, POP and ACK of 100 ids, of FCALL with ids", whole, "≥", LIMIT)]


class Door:
    """What any Redis client does."""

    def __init__(self, client: redis.Redis, key: str) -> None:
        self._client = client
        self._key = key

    def send(self, batches: list[list[bytes]]) -> None:
        with self._client.pipeline(transaction=False) as pipeline:
            for bodies in batches:
                pipeline.execute_command("MQ.PUSH", self._key, *bodies)
            pipeline.execute()

    def receive(self, calls: int) -> tuple[Any, list[list[bytes]]]:
        with self._client.pipeline(transaction=False) as pipeline:
            for _ in range(calls):
                pipeline.execute_command("MQ.POP", BATCH, self._key)
            got = pipeline.execute()
        return [[i for i, _ in part] for part in got], [[body for _, body in part] for part in got]

    def ack(self, held: list[list[bytes]]) -> int:
        with self._client.pipeline(transaction=False) as pipeline:
            for ids in held:
                pipeline.execute_command("MQ.ACK", self._key, *ids)
            return sum(len(done) for done in pipeline.execute())


class Direct:
    """The functions, called by hand."""

    def __init__(self, client: redis.Redis, name: str, *, whole: bool = False) -> None:
        self._client = client
        self._key = QueueRef(name).key
        self._name = name
        self._whole = whole
        self._number = 0

    def send(self, batches: list[list[bytes]]) -> None:
        with self._client.pipeline(transaction=False) as pipeline:
            for bodies in batches:
                self._number += 1
                named = (self._name, self._number, 0, "plain", *plain_envelopes(bodies))
                pipeline.execute_command("FCALL", "hf1_send", 1, self._key, *named)
            pipeline.execute()

    def receive(self, calls: int) -> tuple[Any, list[list[bytes]]]:
        with self._client.pipeline(transaction=False) as pipeline:
            for _ in range(calls):
                pipeline.execute_command("FCALL", "hf1_receive", 1, self._key, BATCH, 0, 0)
            got = pipeline.execute()
        held, bodies = [], []
        for reply in got:
            records, fence = reply[:-5], reply[-5].to_bytes(6, "big")
            size = len(records).to_bytes(2, "big")
            held.append(
                [fence + size] if self._whole else [fence + record[:10] for record in records]
            )
            bodies.append([record[18:] for record in records])
        return held, bodies

    def ack(self, held: list[list[bytes]]) -> int:
        with self._client.pipeline(transaction=False) as pipeline:
            for receipts in held:
                pipeline.execute_command("FCALL", "hf1_ack", 1, self._key, *receipts)
            stale = sum(len(missed) for missed in pipeline.execute())
        return (BATCH if self._whole else 1) * sum(len(receipts) for receipts in held) - stale


def measure(run: Run) -> RespResult:
    batches = [run.bodies(BATCH) for _ in range(run.choose(DEPTH, 2))]
    count = run.choose(40, 2)
    with (
        running("fast", tcp=True) as server,
        _sides(server) as sides,
        run.step("the Redis door against FCALL", count + 1) as tick,
    ):
        rounds = interleave(
            {name: partial(_cycle, side, batches) for name, side in sides.items()},
            messages=BATCH * len(batches),
            rounds=count,
            rng=run.rng,
            tick=tick,
        )
    return RespResult(
        rounds,
        {phase: rounds.speed(DOOR, DIRECT, phases) for phase, phases in _named()},
        {phase: rounds.speed(DOOR, WHOLE, phases) for phase, phases in _named()},
    )


@contextmanager
def _sides(server: Server) -> Iterator[dict[str, Door | Direct]]:
    with holdfast.connect(server.url) as ours:
        ours.queue("direct").stats()  # the functions are there from now on
        with serving(server) as doors:
            host, _, port = doors.resp.rpartition(":")
            with redis.Redis(host, int(port), protocol=2) as via, server.connect_tcp() as straight:
                yield {
                    DOOR: Door(via, "through the door"),
                    DIRECT: Direct(straight, "direct"),
                    WHOLE: Direct(straight, "whole", whole=True),
                }


def _cycle(side: Door | Direct, batches: list[list[bytes]]) -> Laps:
    clock = time.perf_counter_ns
    started = clock()
    side.send(batches)
    sent = clock()
    held, got = side.receive(len(batches))
    received = clock()
    acked = side.ack(held)
    done = clock()
    if got != batches or acked != BATCH * len(batches):
        raise RuntimeError(f"{type(side).__name__} did not hand out what it was given, in order")
    return dict(zip(PHASES, (sent - started, received - sent, done - received), strict=True))


def _named() -> list[tuple[str, tuple[str, ...]]]:
    return [*((phase, (phase,)) for phase in PHASES), ("full cycle", ())]
