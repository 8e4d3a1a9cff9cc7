"""One lap: what one side does in one round, from a full queue to the latency of a worker that has warmed up.

    send N, then start the worker               → drain, CPU, commands
    send at a fixed rate to that same worker    → latency

N follows from the speed of the lap before, so that a drain takes about as long whoever drains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import quantiles

from benchmarks.peers.sending import Rates
from benchmarks.peers.sides import Side
from benchmarks.peers.stage import NotMeasured, Stage, stage
from benchmarks.servers import Server

RATE = 100
"""Tasks a second, where latency is measured."""
_START_SECONDS = 30.0


@dataclass(frozen=True)
class Plan:
    """How much of everything: a full run's, or a quick one's."""

    turns: int = 8
    turn_ms: int = 100
    drain_seconds: float = 1.5
    paced: int = 600
    paced_warm: int = 50
    least: int = 300
    most: int = 60_000


QUICK = Plan(turns=2, turn_ms=60, drain_seconds=0.2, paced=60, paced_warm=10, least=120, most=2_000)


@dataclass(frozen=True)
class Lap:
    single: float
    bulk: float
    tasks: int
    """Drained, without those that warmed the worker up."""
    drain: float
    worker_us: float
    server_us: float
    commands: float
    reads: float
    again: int
    """Tasks that ran more than once."""
    p50_ms: float
    p99_ms: float


def size(plan: Plan, drain: float) -> int:
    return round(min(max(drain * plan.drain_seconds, plan.least), plan.most))


def run_lap(
    side: Side,
    server: Server,
    plan: Plan,
    tasks: int,
    rates: Rates,
    tick: Callable[[], None] = lambda: None,
) -> Lap:
    with stage(side, server) as on:
        warm = max(tasks // 4, 20)  # node compiles what runs often only after a while
        on.send("feed", warm + tasks)
        on.start(PEERS_WARM=warm, PEERS_TOTAL=warm + tasks, PEERS_PACED=plan.paced)
        on.hear("first", _START_SECONDS)
        before = on.usage()
        on.go_on()
        last = on.hear("last", 60 + tasks / 50)
        after = on.usage()
        tick()
        latencies = _latencies(on, plan)
        on.stop()
    tick()
    commands = sum(after.commands.values()) - sum(before.commands.values())
    return Lap(
        single=rates.single,
        bulk=rates.bulk,
        tasks=tasks,
        drain=tasks * 1e9 / last["ns"],
        worker_us=(after.worker_us - before.worker_us) / tasks,
        server_us=(after.server_us - before.server_us) / tasks,
        commands=commands / tasks,
        reads=(after.reads - before.reads) / tasks,
        again=last["again"],
        p50_ms=latencies[49],
        p99_ms=latencies[98],
    )


def drain_only(side: Side, server: Server, tasks: int) -> float:
    """Tasks a second in a first, small drain, which nobody counts."""
    with stage(side, server) as on:
        on.send("feed", 20 + tasks)
        on.start(PEERS_WARM=20, PEERS_TOTAL=20 + tasks)
        on.hear("first", _START_SECONDS)
        on.go_on()
        last = on.hear("last", 60 + tasks / 50)
        on.stop()
    return float(tasks * 1e9 / last["ns"])


def _latencies(on: Stage, plan: Plan) -> list[float]:
    """Percentiles in ms, of what came after the first few."""
    on.send("paced", plan.paced, RATE)
    us = on.hear("paced", 30)["us"][plan.paced_warm :]
    if min(us) < 0:
        raise NotMeasured("its clock is not ours")
    return [each / 1000 for each in quantiles(us, n=100, method="inclusive")]
