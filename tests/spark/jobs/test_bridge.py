"""bridge: through SQL to another place, once; what does not fit dies where it came from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast.errors import InvalidArgument, QueueFull
from holdfast.spark.jobs import bridge
from holdfast.spark.jobs.bridge import Plan, Summary
from holdfast.spark.place import Place


class Bridge:
    """Two queues of a test's own, and what lies between them."""

    def __init__(
        self, spark: SparkSession, hf: holdfast.Client, url: str, name: str, tmp: Path
    ) -> None:
        self.source, self.target = hf.queue(f"{name}-from"), hf.queue(f"{name}-to")
        self.place = Place(url, None, self.source.name)
        self._spark, self._to = spark, Place(url, None, self.target.name)
        self._checkpoint = str(tmp / "checkpoint")
        self.said: list[str] = []

    def run(self, sql: str | None = None, **more: Any) -> Summary:
        to = more.pop("to", self._to)
        plan = Plan(self.place, to, self._checkpoint, sql=sql, once=True, **more)
        return bridge.run(self._spark, plan, say=self.said.append)

    def bodies(self) -> list[bytes]:
        return [message.body for message in self.target.inspect("ready", count=1000)]

    def deaths(self) -> dict[bytes, str]:
        dead = self.source.inspect("dead", count=1000)
        return {message.body: message.death.reason for message in dead if message.death}


@pytest.fixture
def between(
    spark: SparkSession,
    hf: holdfast.Client,
    server_url: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Bridge:
    return Bridge(spark, hf, server_url, request.node.name[:100], tmp_path)


@pytest.mark.slow
def test_rows_go_on_as_json_and_what_does_not_fit_dies_with_the_reason(between: Bridge) -> None:
    good = [json.dumps({"number": n, "tea": "green"}).encode() for n in range(20)]
    bad = {
        b"nonsense": "bridge: not JSON: nonsense",
        b"x" * 200: f"bridge: not JSON: {'x' * 60}…",
        b"": "bridge: not JSON: ",
        b"\xff\xfe": "bridge: not text",
        b"[1]": "bridge: does not fit the schema: [1]",
        b'{"number": "abc"}': 'bridge: does not fit the schema: {"number": "abc"}',
        b'{"number": -5}': "bridge: expected value.number >= 0",
        b'{"tea": "none"}': "bridge: expected value.number >= 0",
        # Cannot be computed: that is not true either, and must not stop the others.
        b'{"number": 99}': "bridge: expected 1 / (value.number - 99) IS NOT NULL",
    }
    between.source.send_many([*good[:10], *bad, *good[10:]])
    summary = between.run(
        "SELECT value.number AS n, priority, map('tea', value.tea) AS attributes FROM messages "
        "WHERE value.number >= 10",
        schema="number INT, tea STRING",
        expect=["value.number >= 0", "1 / (value.number - 99) IS NOT NULL"],
    )
    assert between.deaths() == bad
    assert sorted(between.bodies()) == sorted(b'{"n":%d}' % n for n in range(10, 20))
    assert between.target.inspect("ready")[0].attributes == {"tea": "green"}
    assert (summary.tally.rows, summary.written, summary.dead) == (29, 10, len(bad))
    stats = between.source.stats()
    assert (stats.acked, stats.dead, stats.total) == (20, len(bad), len(bad))


@pytest.mark.slow
def test_a_batch_that_failed_half_way_arrives_once_when_it_is_done_again(between: Bridge) -> None:
    numbers = sorted(f"{n}".encode() for n in range(300))
    between.source.send_many([*numbers, b"bad"])
    between.target.configure(max_length=120)
    given: dict[str, Any] = {"expect": ["text <> 'bad'"], "options": {"minPartitions": "3"}}
    with pytest.raises(QueueFull):
        between.run("SELECT * FROM messages", **given)
    some = len(between.bodies())
    assert 0 < some <= 120
    between.target.configure(max_length=None)
    given["options"] = {"minPartitions": "1"}
    between.run("SELECT * FROM messages", **given)
    assert sorted(between.bodies()) == numbers
    assert between.deaths() == {b"bad": "bridge: expected text <> 'bad'"}
    assert between.source.stats().reserved == 0


def test_a_function_takes_the_place_of_sql_and_a_folder_that_of_a_queue(
    between: Bridge, spark: SparkSession, tmp_path: Path
) -> None:
    def loud(messages: DataFrame) -> DataFrame:
        return messages.selectExpr("upper(text) AS loud")

    between.source.send_many([b"one", b"two"])
    folder = tmp_path / "out"
    summary = between.run(transform=loud, to=str(folder))
    assert summary.written == 2
    assert sorted(row.loud for row in spark.read.parquet(str(folder)).collect()) == ["ONE", "TWO"]
    assert between.source.stats().total == 0


@pytest.mark.slow
def test_a_schema_is_inferred_once_from_messages_that_stay(between: Bridge) -> None:
    with pytest.raises(InvalidArgument, match=r"nothing in .* to infer"):
        between.run(infer=10)
    between.source.send(b"no JSON at all")
    with pytest.raises(InvalidArgument, match="JSON object"):
        between.run(infer=10)
    between.source.send_many([b'{"a": 1, "deep": {"B": [1.5]}}'] * 2)
    between.run("SELECT value.deep.B[0] AS b FROM messages", infer=10)
    inferred = "a bigint, deep struct<B:array<double>>"
    assert between.said == [f"value has the inferred schema: {inferred}"]
    assert between.bodies() == [b'{"b":1.5}'] * 2
    assert list(between.deaths()) == [b"no JSON at all"]
    # The queue is empty now, and the schema is still known.
    assert between.run("SELECT value.a FROM messages", infer=10).schema
    assert between.said[-1] == f"value has the schema inferred at the first start: {inferred}"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"sql": "SELEC 1"}, "Syntax error"),
        ({"sql": "SELECT nope FROM messages"}, "`nope` cannot be resolved"),
        ({"sql": "SELECT 'x' AS body"}, "does not come from messages"),
        (
            {"sql": "SELECT body FROM messages UNION ALL SELECT body FROM messages"},
            "more than once",
        ),
        ({"sql": "SELECT count(*) AS n FROM messages"}, "without watermark"),
        ({"sql": "SELECT priority, attributes FROM messages"}, "nothing for a body"),
        ({"sql": "SELECT 1 AS body FROM messages"}, "must be BINARY or STRING"),
        ({"expect": ["nope > 1"]}, "`nope` cannot be resolved"),
        ({"schema": "a b c"}, "number INT, tea STRING"),
        ({"schema": "a INT", "infer": 10}, "not both"),
        ({"sql": "SELECT 1", "transform": lambda rows: rows}, "not both"),
        ({"transform": lambda rows: 1}, "returned int"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_taken(
    between: Bridge, given: dict[str, Any], why: str
) -> None:
    between.source.send(b"{}")
    with pytest.raises(InvalidArgument, match=why):
        between.run(**given)
    assert between.source.stats().ready == 1
