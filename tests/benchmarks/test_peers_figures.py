"""What the benchmark against other task queues makes of its rounds: ratios, tables, bars that can fail."""

from __future__ import annotations

import math
from statistics import median

import pytest

from benchmarks.peers.crash import Crash
from benchmarks.peers.figures import Measured, PeersResult
from benchmarks.peers.laps import Lap, Plan, size
from benchmarks.peers.sides import OURS


def lap(**figures: float) -> Lap:
    plain = dict.fromkeys(Lap.__dataclass_fields__, 1.0) | figures
    return Lap(**plain)  # type: ignore[arg-type]


def result(**of: Measured) -> PeersResult:
    """Ours is at every bar exactly, unless it says otherwise."""
    ours = Measured("1", [lap(drain=400, bulk=200, single=100, p99_ms=5)] * 3, 100, Crash("kept"))
    peer = Measured("1", [lap(drain=100, bulk=100, single=100, p99_ms=5)] * 3, 100, Crash("kept"))
    return PeersResult(1_000, {OURS: ours, "dramatiq": peer} | of)


def test_bars_are_met_by_who_just_meets_them() -> None:
    bars = result().bars()
    assert len(bars) == 5
    assert all(bar.passed for bar in bars)


@pytest.mark.parametrize(
    ("worse", "bar"),
    [
        (lap(drain=399, bulk=200, single=100, p99_ms=5), "drain"),
        (lap(drain=400, bulk=199, single=100, p99_ms=5), "bulk enqueue"),
        (lap(drain=400, bulk=200, single=99, p99_ms=5), "single enqueue"),
        (lap(drain=400, bulk=200, single=100, p99_ms=5.1), "p99 latency"),
    ],
)
def test_each_bar_can_fail(worse: Lap, bar: str) -> None:
    ours = Measured("1", [worse] * 3, 100, Crash("kept"))
    failed = [each.name for each in result(**{OURS: ours}).bars() if not each.passed]
    assert len(failed) == 1
    assert failed[0].startswith(bar)


def test_memory_is_held_against_the_leanest_peer() -> None:
    lean = Measured("1", [lap(p99_ms=9)], 99, Crash("lost"))
    [failed] = [bar for bar in result(rq=lean).bars() if not bar.passed]
    assert failed.name == "server memory per queued task, against the best peer (rq)"


def test_a_drain_is_held_against_the_fastest_peer_whose_task_survived() -> None:
    fast = [lap(drain=300, p99_ms=9)] * 3
    loses = result(huey=Measured("1", fast, 200, Crash("lost")))
    keeps = result(huey=Measured("1", fast, 200, Crash("runs again", 5.0)))
    assert loses.bars()[0].name == "drain, of the best peer that acks (dramatiq)"
    assert loses.bars()[0].passed
    assert keeps.bars()[0].name == "drain, of the best peer that acks (huey)"
    assert not keeps.bars()[0].passed


def test_a_ratio_is_the_median_of_the_ratios_of_single_rounds() -> None:
    ours = Measured("1", [lap(drain=d) for d in (10, 100, 1000)])
    theirs = Measured("1", [lap(drain=d) for d in (5, 10, 1000)])
    found = PeersResult(1, {OURS: ours, "rq": theirs})
    assert found.ours_by("rq", lambda lap: lap.drain).median == median([2, 10, 1])


def test_latency_is_held_against_the_peer_with_the_lowest_median_of_rounds() -> None:
    noisy = Measured("1", [lap(p99_ms=ms, drain=1) for ms in (1, 4, 80)], 200, Crash("kept"))
    bar = next(bar for bar in result(saq=noisy).bars() if bar.name.startswith("p99"))
    assert bar.name.endswith("(saq)")
    assert (bar.limit, bar.measured, bar.passed) == (4, 5, False)


def test_a_bar_without_anybody_to_compare_with_is_not_met() -> None:
    alone = result(dramatiq=Measured("1", [lap()] * 3, 100, Crash("lost")))
    assert math.isnan(alone.bars()[0].measured)
    assert not alone.bars()[0].passed


def test_who_is_missing_is_in_a_table_with_the_reason_and_the_order_is_by_drain() -> None:
    found = result(rq=Measured("2", [lap(drain=1)], 9), saq=Measured("3", [lap(drain=200)], 9))
    found.missing["arq"] = "it could not be installed: no such thing"
    working, *_, missing = found.tables()
    assert [row[0] for row in working.rows] == [OURS, "saq", "dramatiq", "rq"]
    assert [row[2] for row in working.rows] == ["kept", "not tried", "kept", "not tried"]
    assert missing.rows == [("arq", "it could not be installed: no such thing")]


@pytest.mark.parametrize(("speed", "tasks"), [(1.0, 300), (1_000.0, 1_500), (1e6, 60_000)])
def test_a_drain_takes_about_as_long_whoever_drains(speed: float, tasks: int) -> None:
    assert size(Plan(), speed) == tasks
