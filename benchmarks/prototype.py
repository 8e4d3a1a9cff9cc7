"""The seed's own table: 1,000 messages, taken 50 at a time until none is left, 10 iterations.

Its multi-consume took 0.27 × the time of consecutive LPOPs and 0.53 × that of pipelined ones,
without acknowledging anything. Ours includes the lease and the ack.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from benchmarks.bars import Bar
from benchmarks.rounds import Laps, Ratio, Rounds, interleave, ratio
from benchmarks.run import Run, Table
from benchmarks.servers import running
from benchmarks.sides import Holdfast

CONSECUTIVE, PIPELINED, OURS = "consecutive LPOPs", "pipelined LPOPs", "Holdfast with acks"
SEED_CONSECUTIVE, SEED_PIPELINED = 0.27, 0.53
TAKE = 50


@dataclass(frozen=True)
class PrototypeResult:
    mode: str
    rounds: Rounds
    time_of_consecutive: Ratio
    time_of_pipelined: Ratio
    take_of_consecutive: Ratio
    """The same without the acks, which the seed did not do."""
    take_of_pipelined: Ratio

    def tables(self) -> list[Table]:
        def per_take(side: str, phases: tuple[str, ...] = ()) -> str:
            return f"{TAKE * 1000 / self.rounds.per_second(side, phases):.3f}"

        return [
            Table(
                f"The prototype's table: {TAKE} at a time until empty, mode {self.mode}",
                ("what", f"ms per {TAKE}", "time, of consecutive", "time, of pipelined"),
                [
                    (CONSECUTIVE, per_take(CONSECUTIVE), "1", ""),
                    (PIPELINED, per_take(PIPELINED), "", "1"),
                    (
                        OURS,
                        per_take(OURS),
                        f"{self.time_of_consecutive}",
                        f"{self.time_of_pipelined}",
                    ),
                    (
                        "Holdfast, the receives alone",
                        per_take(OURS, ("take",)),
                        f"{self.take_of_consecutive}",
                        f"{self.take_of_pipelined}",
                    ),
                    (
                        "the prototype, without acks (2016, PHP)",
                        "0.860",
                        f"{SEED_CONSECUTIVE}",
                        f"{SEED_PIPELINED}",
                    ),
                ],
                "Less is faster. The seed's figures are from another machine and language: hiredis reads a "
                "pipeline far faster than PHP did.",
            )
        ]

    def bars(self) -> list[Bar]:
        return []


def measure(run: Run) -> PrototypeResult:
    total = run.choose(1000, 100)
    iterations = run.choose(10, 2)
    bodies = run.bodies(total)
    with running("fast") as server, server.connect() as client:
        ours = Holdfast(server, "prototype")
        key = "raw:prototype"

        def consecutive() -> Laps:
            client.rpush(key, *bodies)
            started = time.perf_counter_ns()
            got: list[Any] = []
            for _ in range(total // TAKE):
                got += [client.lpop(key) for _ in range(TAKE)]
            took = time.perf_counter_ns() - started
            check(got)
            return {"take": took}

        def pipelined() -> Laps:
            client.rpush(key, *bodies)
            started = time.perf_counter_ns()
            got: list[Any] = []
            for _ in range(total // TAKE):
                with client.pipeline(transaction=False) as pipeline:
                    for _ in range(TAKE):
                        pipeline.lpop(key)
                    got += pipeline.execute()
            took = time.perf_counter_ns() - started
            check(got)
            return {"take": took}

        def with_acks() -> Laps:
            ours.send(bodies)
            taking = acking = 0
            got: list[Any] = []
            for _ in range(total // TAKE):
                began = time.perf_counter_ns()
                held, some = ours.receive(TAKE)
                got += some
                took = time.perf_counter_ns()
                ours.ack(held)
                taking, acking = taking + took - began, acking + time.perf_counter_ns() - took
            check(got)
            return {"take": taking, "ack": acking}

        def check(got: list[Any]) -> None:
            if got != bodies:
                raise RuntimeError("what came out is not what went in")

        with run.step("the prototype's table", iterations + 1) as tick:
            rounds = interleave(
                {CONSECUTIVE: consecutive, PIPELINED: pipelined, OURS: with_acks},
                messages=total,
                rounds=iterations,
                rng=run.rng,
                tick=tick,
            )
        ours.close()
    # Of times, so the other way round than a speed.
    taken, consecutive_ns, pipelined_ns = (
        rounds.total(OURS, ("take",)),
        rounds.total(CONSECUTIVE),
        rounds.total(PIPELINED),
    )
    return PrototypeResult(
        server.mode,
        rounds,
        ratio(rounds.total(OURS), consecutive_ns),
        ratio(rounds.total(OURS), pipelined_ns),
        ratio(taken, consecutive_ns),
        ratio(taken, pipelined_ns),
    )
