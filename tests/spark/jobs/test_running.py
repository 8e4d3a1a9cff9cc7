"""Following queries: what is told of them, how they stop, and what becomes of Spark's errors."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.errors import (
    HoldfastError,
    InvalidArgument,
    QueueFull,
    ReservationLost,
    Unavailable,
    Unsupported,
)
from holdfast.spark.jobs import faults, running
from holdfast.spark.jobs.running import Batch, Stop, follow, on_signals
from tests.servers import wait_until

# ---- errors -------------------------------------------------------------------------------

JAVA = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times
Traceback (most recent call last):
  File "stream.py", line 1, in latestOffset
holdfast.errors.Unavailable: no server answers

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
holdfast.errors.ReservationLost: spark-1/7 of 'orders' was released; start with a new checkpoint

\tat org.apache.spark.Something(Something.scala:112)
JVM stacktrace:
holdfast.NotAnError: x"""


def test_our_own_error_is_found_in_javas_stack() -> None:
    found = faults.translated(StreamingQueryException(JAVA))
    assert type(found) is ReservationLost
    assert str(found) == "spark-1/7 of 'orders' was released; start with a new checkpoint"


def test_an_error_of_ours_stays_as_it_is() -> None:
    mine = QueueFull("full")
    assert faults.translated(mine) is mine


def test_an_error_in_sql_is_the_users_and_has_no_plan_in_it() -> None:
    text = "[UNRESOLVED_COLUMN] A column `nope` cannot be resolved. SQLSTATE: 42703; line 1 pos 7;\n'Project"
    found = faults.translated(AnalysisException(text))
    assert type(found) is InvalidArgument
    assert str(found) == "A column `nope` cannot be resolved"


def test_a_missing_format_says_how_to_get_it() -> None:
    text = "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta."
    found = faults.translated(StreamingQueryException(text))
    assert type(found) is Unsupported
    assert "--packages" in str(found)


def test_an_error_of_somebody_elses_code_is_one_line() -> None:
    text = "Boom\nTraceback (most recent call last):\nmy.shop.TeaError: cold\n\tat java.lang.X"
    found = faults.translated(StreamingQueryException(text))
    assert str(found).startswith("the job failed: TeaError: cold;")


def test_java_that_is_gone_is_said_so() -> None:
    found = faults.translated(ConnectionRefusedError("[Errno 111]"))
    assert type(found) is Unavailable
    assert "goes on where it was" in str(found)


# ---- signals ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_to_stop_and_handlers_are_put_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with on_signals(Stop()) as stop:
        os.kill(os.getpid(), number)
        assert stop.wait(5)
    assert signal.getsignal(number) is before


def test_a_second_ctrl_c_is_not_waited_for() -> None:
    with on_signals(Stop()) as stop, pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.wait(5)
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(5)


# ---- queries ------------------------------------------------------------------------------


def rates(
    spark: SparkSession,
    tmp_path: Path,
    each: Callable[[DataFrame, int], None],
    name: str = "rates",
) -> Callable[[], StreamingQuery]:
    """A query with something in each batch."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    writer = running.triggered(rows.writeStream, once=False, every=0.1)
    return (
        writer.foreachBatch(each).option("checkpointLocation", str(tmp_path / f"cp-{name}")).start
    )


def test_stopping_lets_the_batch_in_hand_finish(spark: SparkSession, tmp_path: Path) -> None:
    stop, done, told = Stop(), [], list[Batch]()

    def each(rows: DataFrame, number: int) -> None:
        if number == 1:
            stop.set()
        rows.count()
        done.append(number)

    [tally] = follow([("rates", rates(spark, tmp_path, each))], stop, told.append)
    assert done[:2] == [0, 1]
    assert {0, 1} <= {int(path.name) for path in (tmp_path / "cp-rates/commits").glob("[0-9]*")}
    assert [batch.number for batch in told] == list(range(len(told)))
    assert told[0].source == "rates"
    assert tally.stopped
    assert tally.batches == len(told)
    assert tally.rows == 10 * len(told)


def test_when_one_query_fails_the_others_end_and_its_error_is_raised(
    spark: SparkSession, tmp_path: Path
) -> None:
    good = list[int]()

    def bad(rows: DataFrame, number: int) -> None:
        wait_until(lambda: bool(good), 60, "the other has done something")
        raise QueueFull("'orders' is full")

    def count(rows: DataFrame, number: int) -> None:
        good.append(rows.count())

    starts = [
        ("good", rates(spark, tmp_path, count, "good")),
        ("bad", rates(spark, tmp_path, bad, "bad")),
    ]
    with pytest.raises(QueueFull, match="'orders' is full"):
        follow(starts, Stop())
    assert good
    assert not spark.streams.active


def test_a_query_whose_source_was_slow_to_start_is_started_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    stop, tries = Stop(), list[int]()

    def each(rows: DataFrame, number: int) -> None:
        tries.append(number)
        if len(tries) < 3:
            raise OSError("Python worker failed to connect back.")
        rows.count()
        stop.set()

    [tally] = follow([("rates", rates(spark, tmp_path, each))], stop)
    assert tries[:3] == [0, 0, 0]
    # The next one may have begun, and was interrupted.
    assert tally.batches in (1, len(tries) - 2)
    assert tally.rows == 10 * tally.batches

    def never(rows: DataFrame, number: int) -> None:
        raise OSError("Python worker failed to connect back.")

    with pytest.raises(HoldfastError, match="connect back"):
        follow([("rates", rates(spark, tmp_path, never, "never"))], Stop())


def test_a_query_that_does_not_start_takes_the_others_with_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    def start() -> StreamingQuery:
        return spark.readStream.format("no-such").load().writeStream.format("noop").start()

    starts = [("good", rates(spark, tmp_path, lambda rows, number: None)), ("bad", start)]
    with pytest.raises(HoldfastError, match="no-such"):
        follow(starts, Stop())
    assert not spark.streams.active
