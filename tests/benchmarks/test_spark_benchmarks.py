"""The Spark benchmark runs, measures everything it says, computes right and can fail.

How fast anything is, is no concern here.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

import holdfast
from benchmarks.rounds import Rounds
from benchmarks.servers import running
from benchmarks.spark import flat, reading, streaming, writing
from benchmarks.spark.__main__ import MEASUREMENTS
from benchmarks.spark.feeder import feed
from benchmarks.spark.rates import rate_rows
from benchmarks.spark.synthetic import Batch, Span, Stream, made_up
from benchmarks.spark.triggers import laps
from holdfast.spark import schema
from tests.servers import wait_until

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.spark", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )


# ---- the whole of it, in small --------------------------------------------------------------


@pytest.mark.torture
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_quick_run_measures_every_side_and_judges_by_what_it_measured(tmp_path: Path) -> None:
    # One test, since test processes that share the work would each run it for themselves.
    finished = run("--quick", "--out", str(tmp_path))
    assert finished.returncode == 0, finished.stderr
    document = msgspec.json.decode((tmp_path / "spark.json").read_bytes())
    every_side_is_in_the_json(document)
    bars_are_medians_of_baseline_time_by_ours(document)
    memory_is_watched_in_every_process_until_all_messages_are_acked(document)
    text = (tmp_path / "spark.md").read_text()
    assert "| batch read, of a plain Python drain |" in text
    assert "Spark 4." in text
    assert str(ROOT) not in text
    assert (tmp_path / "spark.png").read_bytes().startswith(b"\x89PNG")


def whole(rounds: dict[str, Any], side: str) -> list[int]:
    return [sum(parts) for parts in zip(*rounds["times"][side].values(), strict=True)]


def every_side_is_in_the_json(document: dict[str, Any]) -> None:
    measured = document["measurements"]
    assert set(measured) == set(MEASUREMENTS)
    assert set(measured["reading"]["rounds"]["times"]) == {
        reading.OURS,
        reading.DRAIN,
        reading.SYNTHETIC,
        reading.POPPED,
        reading.DROPPED,
    }
    for size in measured["streaming"]["sizes"]:
        assert set(size["rounds"]["times"]) == {
            streaming.OURS,
            streaming.SYNTHETIC,
            streaming.POPPED,
        }
    assert len(measured["streaming"]["sizes"]) == 3
    for part, sides in (
        ("plain", {writing.OURS, writing.SEND, writing.PUSHED}),
        ("streamed", {writing.STREAMED, writing.SEND}),
        ("full", {writing.OURS_FULL, writing.SEND_FULL}),
    ):
        assert set(measured["writing"][part]["times"]) == sides
    assert document["about"]["spark"].startswith("4.")
    assert document["about"]["server"].startswith("Valkey ")


def bars_are_medians_of_baseline_time_by_ours(document: dict[str, Any]) -> None:
    measured = document["measurements"]
    judged = measured["streaming"]["sizes"][1]
    at = f"{judged['rows_per_trigger']:,}"
    bars = {bar["name"]: bar for bar in document["bars"]}
    for name, rounds, ours, baseline, limit in (
        (
            "batch read, of a plain Python drain",
            measured["reading"]["rounds"],
            reading.OURS,
            reading.DRAIN,
            0.8,
        ),
        (
            f"stream → Parquet at {at} a trigger, of the synthetic one",
            judged["rounds"],
            streaming.OURS,
            streaming.SYNTHETIC,
            0.2,
        ),
        (
            "writer, of plain Python send_many",
            measured["writing"]["plain"],
            writing.OURS,
            writing.SEND,
            1.0,
        ),
    ):
        each = [b / o for b, o in zip(whole(rounds, baseline), whole(rounds, ours), strict=True)]
        assert bars[name]["measured"] == pytest.approx(median(each))
        assert (bars[name]["relation"], bars[name]["limit"]) == ("≥", limit)


def memory_is_watched_in_every_process_until_all_messages_are_acked(
    document: dict[str, Any],
) -> None:
    found = document["measurements"]["flat"]
    samples = found["samples"]
    assert samples[-1]["messages"] == found["messages"]
    for what in (flat.DRIVER, flat.SOURCE, flat.WORKERS, flat.HEAP):
        assert any(sample["mb"].get(what, 0) > 10 for sample in samples), what
    names = [bar["name"] for bar in document["bars"]]
    assert sum("growth" in name for name in names) == 3


@pytest.mark.slow
def test_wrong_usage_ends_with_status_two() -> None:
    finished = run("--only", "nothing")
    assert finished.returncode == 2
    assert "invalid choice" in finished.stderr


# ---- its parts ------------------------------------------------------------------------------


def test_the_time_of_a_trigger_is_split_into_phases_that_add_up() -> None:
    found = laps(
        [
            {"triggerExecution": 100, "latestOffset": 10, "addBatch": 70, "walCommit": 5},
            {"triggerExecution": 50, "addBatch": 40},
        ]
    )
    assert list(found.values()) == [10e6, 110e6, 30e6]
    assert sum(found.values()) == 150e6


def test_the_table_of_phases_gives_ms_of_one_trigger() -> None:
    phases = {"read": [40_000_000, 60_000_000], "rest": [0, 0]}
    sides = (streaming.OURS, streaming.SYNTHETIC, streaming.POPPED)
    size = streaming.Size(100, 2, Rounds(200, dict.fromkeys(sides, phases)))
    shown = streaming.StreamingResult([size] * 3).tables()[1]
    assert shown.columns == ("rows a trigger", "side", "read", "rest")
    assert shown.rows[0] == ("100", streaming.OURS, "25", "0")


def test_half_the_time_is_twice_the_baseline() -> None:
    rounds = Rounds(10, {"ours": {"all": [50, 50]}, "theirs": {"all": [100, 100]}})
    assert [row[2] for row in rate_rows(rounds, ("theirs",))] == ["2.00 (2.00–2.00)", "1"]


def memory(**growth: float) -> flat.FlatResult:
    """100 MB of each at the start, and so many MB more at the end."""
    names = {"driver": flat.DRIVER, "source": flat.SOURCE, "heap": flat.HEAP}
    samples = [
        flat.Sample(
            at * 1_000, {name: 100 + growth.get(key, 0) * at / 5_000 for key, name in names.items()}
        )
        for at in range(50, 5_001, 50)
    ]
    return flat.FlatResult(5_000_000, 100_000, samples)


@pytest.mark.parametrize("what", ["driver", "source", "heap"])
def test_memory_that_grows_with_the_messages_fails_its_bar(what: str) -> None:
    # 4 bytes a message, of which 4 million are counted.
    bars = {bar.name.split(":")[0]: bar for bar in memory(**{what: 20.0}).bars()}
    failed = [name for name, bar in bars.items() if not bar.passed]
    assert failed == [{"driver": flat.DRIVER, "source": flat.SOURCE, "heap": flat.HEAP}[what]]
    assert all(bar.passed for bar in memory(**{what: 5.0}).bars())


def test_memory_that_was_never_seen_fails_its_bar() -> None:
    blind = flat.FlatResult(5_000_000, 100_000, [flat.Sample(5_000_000, {flat.DRIVER: 100.0})])
    bars = blind.bars()
    assert all(math.isnan(bar.measured) for bar in bars)
    assert not any(bar.passed for bar in bars)


def test_synthetic_rows_come_once_each_with_bodies_that_differ() -> None:
    partitions = [span for span in Batch(12_345, 2).partitions() if isinstance(span, Span)]
    batches = [batch for span in partitions for batch in made_up(span)]
    assert len(partitions) == 2
    assert sum(batch.num_rows for batch in batches) == 12_345
    assert all(batch.schema == schema.arrow(schema.MESSAGES) for batch in batches)
    ids = [row for batch in batches for row in batch["id"].to_pylist()]
    bodies = [row for batch in batches for row in batch["body"].to_pylist()]
    assert len(set(ids)) == len(set(bodies)) == 12_345
    assert {len(body) for body in bodies} == {100}
    assert re.fullmatch(r"\d{13}-\d+", ids[0])


def test_a_synthetic_stream_takes_so_many_a_trigger_and_ends() -> None:
    source = Stream(250, 2, 100)
    at, found = source.initialOffset(), []
    while (end := source.latestOffset(at, source.getDefaultReadLimit())) != at:
        found.append([(s.start, s.end) for s in source.partitions(at, end) if isinstance(s, Span)])
        at = end
    assert found == [[(0, 50), (50, 100)], [(100, 150), (150, 200)], [(200, 225), (225, 250)]]
    assert source.latestOffset({"row": 0}, ReadMaxRows(7)) == {"row": 7}


def test_the_feeder_waits_while_the_queue_is_full() -> None:
    with running("fast") as server, holdfast.connect(server.url) as client:
        queue = client.queue("fed")
        feeding = threading.Thread(target=feed, args=(server.url, "fed", 20_000, 3_000))
        feeding.start()
        wait_until(lambda: queue.stats().total > 3_000, 20)
        highest = taken = 0
        while taken < 20_000:
            highest = max(highest, queue.stats().total)
            got = wait_until(lambda: queue.receive_many(1_000), 20)
            taken += len(queue.ack_many(got))
        feeding.join(20)
        assert not feeding.is_alive()
        assert highest <= 4_000
        assert queue.stats().sent == 20_000
