"""holdfast demo: it adds up, and says so when it does not."""

from __future__ import annotations

import io
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace as Namespace
from typing import Any, cast

import msgspec
import pytest
from pyarrow import parquet
from rich.console import Console

import holdfast
from holdfast.cli.demo.account import Account, Records
from holdfast.cli.demo.orders import TOO_CHEAP, Orders
from holdfast.cli.demo.pipeline import Lake
from holdfast.cli.demo.view import View, summary
from holdfast.engine.replies import Stats
from tests.cli.conftest import Run, Start
from tests.servers import wait_until


@pytest.mark.slow
def test_the_demo_loses_no_order_although_workers_die(run: Run) -> None:
    result = run("demo", "--orders", "120", "--workers", "2", "--no-spark", "--json")
    assert result.status == 0, result.err
    found = result.object
    assert (found["adds_up"], found["faults"]) == (True, [])
    assert found["sent"] == found["acked"] == found["handled"] == 120
    assert found["left"] == 0
    assert found["worker_deaths"] >= 1
    assert found["lost_with_workers"] >= 1
    assert found["dead_letters"] == found["redriven"] >= 1
    assert found["deliveries"] >= 120 + found["failed"] + found["lost_with_workers"]
    assert "was killed with orders in hand" in result.err


@pytest.mark.slow
def test_the_demo_tells_its_story_in_plain_lines_and_ends_with_a_table(start: Start) -> None:
    process = start("demo", "--orders", "40", "--workers", "1", "--no-spark")
    raw, err = process.communicate(timeout=60)
    out = raw.decode()
    assert (process.returncode, err) == (0, b"")
    assert "\x1b" not in out
    for text in (
        "1 worker process",
        "40 orders sent",
        "dead letter redriven",
        "all 40 orders are acked",
        "of 40 orders handled at least once, by the workers' own records",
        "It adds up: no order lost, none forgotten.",
        "Next, try:",
    ):
        assert text in out


@pytest.mark.slow
def test_ctrl_c_ends_the_demo_and_its_workers(start: Start, client: holdfast.Client) -> None:
    queue = client.queue("demo-orders")
    queue.delete()
    process = start("demo", "--orders", "100000", "--workers", "2", "--no-spark")
    wait_until(lambda: queue.stats().acked > 0, 30, "the workers work")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"")
    queue.purge()
    queue.send("nobody is left to take this")
    assert queue.receive(wait=1)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--orders", "9"], "--orders must be from 10 to 1000000, not 9"),
        (["--workers", "0"], "--workers must be from 1 to 64, not 0"),
    ],
)
def test_the_demo_refuses_what_makes_no_sense(run: Run, words: list[str], complaint: str) -> None:
    result = run("demo", *words)
    assert (result.status, result.err) == (64, f"error: {complaint}\n")


def test_the_same_seed_makes_the_same_trouble() -> None:
    one, same, other = Orders(5000, 1), Orders(5000, 1), Orders(5000, 2)
    assert (one.poison, one.fatal, one.flaky) == (same.poison, same.fatal, same.flaky)
    assert one.poison != other.poison
    assert len(one.poison | one.fatal | one.flaky) == 226
    assert [len(s) for s in (one.poison, one.fatal, one.flaky)] == [20, 6, 200]


# ---- through Spark ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.torture
def test_the_whole_demo_goes_through_spark_and_adds_up(start: Start, tmp_path: Path) -> None:
    process = start("demo", "--orders", "200", "--workers", "2", "--to", str(tmp_path), "--json")
    raw, err = process.communicate(timeout=280)
    assert process.returncode == 0, err.decode()
    found = msgspec.json.decode(raw)
    assert (found["adds_up"], found["faults"]) == (True, [])
    lake = found["lake"]
    assert lake["shipments"] == lake["in_the_lake"] + lake["dead"] == 200
    assert lake["in_the_lake"] == lake["orders_in_the_lake"]
    assert lake["dead"] >= 1
    rows = parquet.read_table(tmp_path / "lake" / "shipments").to_pylist()
    assert len({row["number"] for row in rows}) == len(rows) == lake["in_the_lake"]
    assert min(row["cents"] for row in rows) >= TOO_CHEAP
    page = Path(lake["report"]).read_text("utf-8")
    assert "demo-shipments" in page


def test_a_folder_of_somebody_elses_is_not_touched(run: Run, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "precious").write_text("mine")
    result = run("demo", "--to", str(tmp_path))
    assert result.status == 64
    assert "was not made by the demo; name another folder with --to" in result.err
    assert (tmp_path / "lake" / "precious").exists()


def in_the_lake(**changes: Any) -> Lake:
    """Three orders, of which one was too cheap."""
    told = Namespace(account=Namespace(outcomes={"acked": 5, "dead": 1}))
    good = Lake(3, 2, 2, Stats(sent=3, acked=2, dead=1), 30, cast("Any", told))
    return replace(good, **changes)


def test_a_lake_that_adds_up_has_no_faults() -> None:
    assert in_the_lake().faults() == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"orders": 4}, "4 orders handled, but 3 shipments sent"),
        ({"shipped": 1, "distinct": 1}, "3 shipments sent, but 1 in the lake and 1 dead"),
        ({"distinct": 1}, "2 shipments in the lake, of 1 orders"),
        (
            {"queue": Stats(sent=3, acked=1, dead=1, reserved=1)},
            "1 shipments are still in the queue",
        ),
    ],
)
def test_a_lake_that_does_not_says_why(change: dict[str, Any], fault: str) -> None:
    assert fault in in_the_lake(**change).faults()


# ---- the account --------------------------------------------------------------------------


def good() -> Account:
    """Three orders: one failed once, one was lost with its worker and handled twice."""
    return Account(
        orders=3,
        deaths=1,
        redriven=0,
        poison=0,
        before=Stats(sent=3, acked=3),
        after=Stats(sent=3, acked=3, received=5, requeued=2),
        records=Records(Counter({1: 1, 2: 2, 3: 1}), failed=1, lost=1),
        seconds=1.0,
    )


def test_an_account_that_adds_up_has_no_faults() -> None:
    assert good().faults() == []
    assert (good().handled_twice, good().given_back) == (1, 0)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            {"records": Records(Counter({1: 1, 3: 1}), failed=1, lost=1)},
            "1 orders that no worker handled: 2 …",
        ),
        (
            {"before": Stats(sent=3, acked=2)},
            "before the redrive: 3 sent, but 2 acked or in the queue",
        ),
        (
            {"after": Stats(sent=3, acked=2, dead=1, received=5, requeued=3)},
            "3 orders, but 2 acked",
        ),
        (
            {"after": Stats(sent=3, acked=3, received=6, requeued=2)},
            "6 deliveries, but 5 ends of deliveries",
        ),
        (
            {"records": Records(Counter({1: 1, 2: 2, 3: 1}), failed=2, lost=1)},
            "the workers know of 1 deliveries that the queue does not",
        ),
        (
            {"orders": 2},
            "2 orders, but 3 sent",
        ),
    ],
)
def test_an_account_that_does_not_add_up_says_where(change: dict[str, object], fault: str) -> None:
    assert fault in replace(good(), **change).faults()  # type: ignore[arg-type]


def test_records_are_read_from_what_each_worker_wrote(tmp_path: Path) -> None:
    (tmp_path / "1.record").write_text("1 1 handled\n2 1 handled\n2 1 killed\n")
    (tmp_path / "2.record").write_text(
        "3 1 failed\n3 2 handled\n2 2 handled\n4 1 failed\n4 3 failed\n"
    )
    (tmp_path / "3-fixed.record").write_text("4 1 handled\n")
    found = Records.read(tmp_path)
    assert found.handled == Counter({1: 1, 2: 2, 3: 1, 4: 1})
    assert found.failed == 3
    assert found.lost == 2  # order 2 with worker 1, and the second delivery of order 4


# ---- the view -----------------------------------------------------------------------------


def test_the_live_view_shows_bars_states_and_the_last_events() -> None:
    console = Console(force_terminal=True, width=100, record=True, file=io.StringIO())
    with View(console, 100) as view:
        view.update(Stats(sent=100, acked=60, ready=30, leased=10), workers=4)
        view.event("worker 2 was killed")
        console.print(view._picture())
    shown = console.export_text()
    for text in ("60 / 100", "ready 30", "leased 10", "workers 4", "worker 2 was killed"):
        assert text in shown


def test_the_summary_marks_what_does_not_add_up() -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(summary(good()))
    console.print(summary(replace(good(), before=Stats(sent=3, acked=2))))
    shown = console.export_text()
    assert "3 ✓" in shown
    assert "2 ✗" in shown
