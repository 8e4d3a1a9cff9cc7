"""The whole run: install, then rounds in which every side has its turn, then memory, then crashes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import holdfast
from benchmarks.peers import crash, laps, memory, sending
from benchmarks.peers.figures import Measured, PeersResult
from benchmarks.peers.install import install, ready, version
from benchmarks.peers.sides import OURS, Side
from benchmarks.peers.stage import NotMeasured
from benchmarks.run import Run
from benchmarks.servers import running

_CRASHES_AT_ONCE = 4


def measure(run: Run, sides: list[Side]) -> PeersResult:
    result = PeersResult(run.choose(20_000, 1_000))
    for side in _installed(run, sides, result):
        said = holdfast.__version__ if side.name == OURS else version(side)
        result.sides[side.name] = Measured(said)
    chosen = {side.name: side for side in sides}

    def present() -> list[Side]:
        return [chosen[name] for name in result.sides]

    _rounds(run, present, result)
    with run.step("memory", len(result.sides)) as tick, running("fast", tcp=True) as server:
        for side in present():
            with _or_missing(side, result):
                used = memory.bytes_per_task(side, server, result.queued)
                result.sides[side.name].bytes_per_task = used
            tick()
    _crashes(run, present(), result)
    return result


def _installed(run: Run, sides: list[Side], result: PeersResult) -> list[Side]:
    absent = [side for side in sides if not ready(side)]
    if absent:
        with run.step("installing peers, the first time only", len(absent)) as tick:
            for side in absent:
                if reason := install(side):
                    result.missing[side.name] = reason
                tick()
    return [side for side in sides if side.name not in result.missing]


def _rounds(run: Run, present: Callable[[], list[Side]], result: PeersResult) -> None:
    plan = laps.QUICK if run.quick else laps.Plan()
    rounds = run.choose(5, 1)
    tasks = dict.fromkeys(result.sides, plan.least)
    with running("fast", tcp=True) as server:
        if not run.quick:
            with run.step("warming up", len(result.sides)) as tick:
                for side in present():
                    with _or_missing(side, result):
                        speed = laps.drain_only(side, server, plan.least)
                        tasks[side.name] = laps.size(plan, speed)
                    tick()
        for number in range(rounds):
            with run.step(f"round {number + 1} of {rounds}", 3 * len(result.sides)) as tick:
                order = present()
                run.rng.shuffle(order)
                sent = sending.rates(order, server, plan.turns, plan.turn_ms, run.rng)
                for side in order:
                    tick()
                    with _or_missing(side, result):
                        rates = sent[side.name]
                        if isinstance(rates, NotMeasured):
                            raise rates
                        lap = laps.run_lap(side, server, plan, tasks[side.name], rates, tick)
                        result.sides[side.name].laps.append(lap)
                        tasks[side.name] = laps.size(plan, lap.drain)


def _crashes(run: Run, sides: list[Side], result: PeersResult) -> None:
    """Several at once: nothing is timed here, and most of it is waiting."""
    patience = 0.0 if run.quick else crash.PATIENCE

    def one(side: Side) -> crash.Crash | NotMeasured:
        try:
            return crash.try_crash(side, patience)
        except NotMeasured as error:
            return error

    with run.step("kill -9", len(sides)) as tick, ThreadPoolExecutor(_CRASHES_AT_ONCE) as pool:
        for side, found in zip(sides, pool.map(one, sides), strict=True):
            with _or_missing(side, result):
                if isinstance(found, NotMeasured):
                    raise found
                result.sides[side.name].crash = found
            tick()


class _or_missing:  # noqa: N801 (reads as a clause of `with`)
    """A side that fails is taken out, with the reason; the others go on."""

    def __init__(self, side: Side, result: PeersResult) -> None:
        self.side, self.result = side, result

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, NotMeasured):
            return False
        self.result.missing[self.side.name] = str(error)
        self.result.sides.pop(self.side.name, None)
        return True
