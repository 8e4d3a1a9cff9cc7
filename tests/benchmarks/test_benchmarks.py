"""The benchmark runs, measures everything it says, computes right and can fail.

How fast anything is, is no concern here.
"""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import pytest

from benchmarks.__main__ import MEASUREMENTS
from benchmarks.bars import Bar, flat
from benchmarks.rounds import Rounds, interleave

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.torture
def test_a_quick_run_measures_every_side_and_judges_by_what_it_measured(tmp_path: Path) -> None:
    # One test, since test processes that share the work would each run it for themselves.
    finished = run("--quick", "--out", str(tmp_path))
    assert finished.returncode == 0, finished.stderr
    document: dict[str, Any] = msgspec.json.decode((tmp_path / "latest.json").read_bytes())
    every_measurement_is_in_the_json(document)
    ratios_are_medians_over_the_rounds_of_baseline_time_by_ours(document)
    the_doors_and_topics_are_compared_round_by_round(document)
    bars_repeat_what_was_measured(document)
    a_table_and_a_picture_are_written(tmp_path)
    # Nothing is left in a queue whose messages are all acked.
    assert document["measurements"]["memory"]["left_over"] == []


def every_measurement_is_in_the_json(document: dict[str, Any]) -> None:
    measured = document["measurements"]
    assert set(measured) == set(MEASUREMENTS)
    rows = [(row["mode"], row["batch"]) for row in measured["cycle"]["rows"]]
    assert rows == [(mode, n) for mode in ("fast", "durable") for n in (1, 10, 100, 1000)]
    assert set(measured["flat"]["states"]) == {"ready", "leased", "delayed"}
    assert set(measured["memory"]["sides"]) == {"raw lists", "raw Streams", "Holdfast"}
    assert all(measured["wakeup"]["latencies_us"].values())
    assert [row["batch"] for row in measured["fanout"]["rows"]] == [1, 100]
    assert all(set(row["to_one"]) == {"1", "10", "100"} for row in measured["fanout"]["rows"])
    assert set(measured["resp"]["rounds"]["times"]) == {
        "MQ commands",
        "FCALL",
        "FCALL, batches acked whole",
    }
    assert len(measured["grpc"]["rounds"]["times"]) == 5
    assert document["about"]["server"].startswith("Valkey ")


def ratios_are_medians_over_the_rounds_of_baseline_time_by_ours(
    document: dict[str, Any],
) -> None:
    for row in document["measurements"]["cycle"]["rows"]:
        times = row["rounds"]["times"]

        def whole(side: str, times: Any = times) -> list[int]:
            return [sum(parts) for parts in zip(*times[side].values(), strict=True)]

        for baseline, kept in (("raw lists", "to_lists"), ("raw Streams", "to_streams")):
            each = [b / o for b, o in zip(whole(baseline), whole("Holdfast"), strict=True)]
            assert row[kept]["full cycle"]["median"] == pytest.approx(median(each))


def the_doors_and_topics_are_compared_round_by_round(document: dict[str, Any]) -> None:
    measured = document["measurements"]

    def times(of: dict[str, Any], side: str) -> list[int]:
        return [sum(parts) for parts in zip(*of["times"][side].values(), strict=True)]

    def middle(above: list[int], below: list[int]) -> float:
        return median(a / b for a, b in zip(above, below, strict=True))

    for row in measured["fanout"]["rows"]:
        to_100, to_1 = (times(row["rounds"], n) for n in ("100", "1"))
        assert row["to_one"]["100"]["median"] == pytest.approx(middle(to_100, to_1))
    resp = measured["resp"]
    for baseline, kept in (("FCALL", "ratios"), ("FCALL, batches acked whole", "to_whole")):
        sides = times(resp["rounds"], baseline), times(resp["rounds"], "MQ commands")
        assert resp[kept]["full cycle"]["median"] == pytest.approx(middle(*sides))
    grpc = measured["grpc"]
    one_by_one = times(grpc["rounds"], "Observe with auto_ack, one by one")
    stream = times(grpc["rounds"], "ObserveStream, acked by the piece")
    assert grpc["stream_to_unary"]["median"] == pytest.approx(middle(one_by_one, stream))
    bars = {bar["name"]: bar["measured"] for bar in document["bars"]}
    assert bars["ObserveStream, of Observe one by one"] == grpc["stream_to_unary"]["median"]
    assert (
        bars["MQ.PUSH, POP and ACK of 100 ids, of FCALL with ids"]
        == resp["ratios"]["full cycle"]["median"]
    )


def bars_repeat_what_was_measured(document: dict[str, Any]) -> None:
    bars = {bar["name"]: bar for bar in document["bars"]}
    by_hundred = next(
        row for row in document["measurements"]["cycle"]["rows"] if row["batch"] == 100
    )
    bar = bars["full cycle by 100, of RPUSH + LPOP (fast)"]
    assert bar["measured"] == by_hundred["to_lists"]["full cycle"]["median"]
    assert bar["passed"] == (bar["measured"] >= bar["limit"])
    assert bars["bytes per ready message"]["limit"] == 170


def a_table_and_a_picture_are_written(written: Path) -> None:
    text = (written / "README.md").read_text()
    assert "| full cycle by 100, of RPUSH + LPOP (durable) |" in text
    assert str(ROOT) not in text
    assert (written / "throughput.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_wrong_usage_ends_with_status_two() -> None:
    finished = run("--only", "nothing")
    assert finished.returncode == 2
    assert "invalid choice" in finished.stderr


@pytest.mark.parametrize(
    ("bar", "passed"),
    [
        (Bar("at least", 0.34, "≥", 0.35), False),
        (Bar("at least", 0.35, "≥", 0.35), True),
        (Bar("at most", 171, "≤", 170), False),
        (Bar("at most", 170, "≤", 170), True),
        (Bar("nothing measured", math.nan, "≥", 0.35), False),
        (Bar("nothing measured", math.nan, "≤", 170), False),
        (flat("dearer", 1.26, 0.25), False),
        (flat("cheaper", 0.74, 0.25), False),
        (flat("flat", 0.76, 0.25), True),
    ],
)
def test_a_bar_fails_on_the_wrong_side_of_its_limit(bar: Bar, passed: bool) -> None:
    assert bar.passed is passed


def test_twice_the_time_is_half_the_speed() -> None:
    rounds = Rounds(10, {"raw": {"send": [10, 100]}, "ours": {"send": [15, 150], "ack": [5, 50]}})
    assert rounds.speed("ours", "raw").median == 0.5
    assert rounds.speed("ours", "raw", ("send",)).median == pytest.approx(2 / 3)
    assert rounds.total("ours") == [20, 200]


@pytest.mark.slow
def test_every_round_has_every_side_and_warm_up_is_thrown_away() -> None:
    calls: list[str] = []

    def side(name: str) -> dict[str, int]:
        calls.append(name)
        return {"send": len(calls)}

    rounds = interleave(
        {"a": lambda: side("a"), "b": lambda: side("b")},
        messages=1,
        rounds=4,
        rng=random.Random(1),
        tick=lambda: None,
    )
    pairs = [set(calls[i : i + 2]) for i in range(0, len(calls), 2)]
    assert pairs == [{"a", "b"}] * 5
    assert [len(rounds.times[name]["send"]) for name in ("a", "b")] == [4, 4]
    assert min(rounds.times["a"]["send"] + rounds.times["b"]["send"]) == 3
