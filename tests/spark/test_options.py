"""Options: unknown, meaningless and contradictory ones are refused, each with what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict

import holdfast
from holdfast.errors import InvalidArgument
from holdfast.spark import schema
from holdfast.spark.batch import StateReader
from holdfast.spark.journal import JournalReader, JournalStreamReader
from holdfast.spark.options import Use, parse
from holdfast.spark.source import HoldfastDataSource

URL = "redis://localhost:1"


def test_names_are_read_in_any_case() -> None:
    # Spark's own mapping: dict() of it has lowercase names only.
    given = CaseInsensitiveDict(
        {"url": URL, "queue": "q", "maxRowsPerTrigger": "7", "MINPARTITIONS": "3"}
    )
    found = parse(given, "readStream")
    assert (found.max_rows, found.partitions) == (7, 3)
    assert parse(dict(given), "readStream") == found


def test_defaults_are_those_of_the_documentation() -> None:
    found = parse({"url": URL, "queue": "q"}, "read")
    assert (found.state, found.max_rows, found.partitions) == (None, None, 0)
    assert (found.body, found.attributes, found.fail_on_loss) == (True, True, True)
    assert (found.start, found.end) == ("earliest", "latest")


@pytest.mark.parametrize(
    ("use", "given", "says"),
    [
        ("read", {"queue": "q", "sate": "dead"}, "did you mean 'state'"),
        ("read", {"queue": "q", "state": "acked"}, "one of ready, delayed"),
        ("read", {"path": "orders"}, "without a path"),
        ("read", {}, "say what to read"),
        ("read", {"queue": ""}, "say what to read"),
        ("read", {"queue": "q", "journal": "q"}, "say what to read"),
        ("read", {"topic": "t"}, "both: topic and subscription"),
        ("read", {"queue": "q", "subscription": "s"}, "both: topic and subscription"),
        ("read", {"queue": "q", "peer": "p"}, "peer is part of a subscription"),
        ("read", {"queue": "q", "startingOffsets": "latest"}, "a queue has no offsets"),
        ("read", {"queue": "q", "failOnDataLoss": "false"}, "means nothing here"),
        ("read", {"queue": "q", "maxRowsPerTrigger": "5"}, "read does not know the option"),
        ("read", {"journal": "q", "state": "dead"}, "means nothing for a journal"),
        ("readStream", {"queue": "q", "state": "dead"}, "a stream takes ready messages"),
        ("readStream", {"queue": "q", "startingOffsets": "x"}, "a queue has no offsets"),
        ("readStream", {"journal": "q", "includeBody": "false"}, "means nothing for a journal"),
        ("readStream", {"journal": "q", "ownerName": "me"}, "means nothing for a journal"),
        ("readStream", {"queue": "q", "maxRowsPerTrigger": "0"}, "whole number from 1"),
        ("readStream", {"queue": "q", "maxRowsPerTrigger": "many"}, "whole number from 1"),
        ("readStream", {"queue": "q", "includeBody": "yes"}, "true or false"),
        ("readStream", {"queue": "q", "ownerName": "a b"}, "ownerName must be letters"),
        ("readStream", {"queue": "q", "maxTriggerDelay": "5m"}, "give both"),
        (
            "readStream",
            {"queue": "q", "maxTriggerDelay": "soon", "minRowsPerTrigger": "5"},
            "a time such as 30s",
        ),
        (
            "readStream",
            {"queue": "q", "minRowsPerTrigger": "9", "maxRowsPerTrigger": "5"},
            "more than maxRowsPerTrigger",
        ),
        (
            "readStream",
            {"queue": "q", "maxRowsPerTrigger": "5", "maxOffsetsPerTrigger": "5"},
            "say the same",
        ),
        ("readStream", {"queue": "q", "kafka.bootstrap.servers": "h"}, "it takes url"),
        ("readStream", {"queue": "q", "subscribe": "q"}, "option\\('topic', NAME\\)"),
        ("write", {"queue": "q", "topic": "t"}, "not both"),
        ("write", {"topic": "t", "subscription": "s"}, "cannot be written to"),
        ("write", {"queue": "q", "state": "ready"}, "does not take"),
    ],
)
def test_what_makes_no_sense_is_refused(use: Use, given: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        parse({"url": URL} | given, use)


def test_a_server_is_named_by_url_or_by_folder() -> None:
    with pytest.raises(InvalidArgument, match="url or home, not both"):
        parse({"url": URL, "home": "x", "queue": "q"}, "read")
    with pytest.raises(InvalidArgument, match="redis:// URL of the server behind"):
        parse({"url": "grpc://host:1", "queue": "q"}, "read")


def test_the_url_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_URL", URL)
    assert parse({"queue": "q"}, "read").place.url == URL
    assert parse({"queue": "q", "url": "redis://other"}, "read").place.url == "redis://other"


def test_a_folder_is_absolute_since_executors_may_be_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HOLDFAST_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    assert parse({"queue": "q", "home": "here"}, "read").place.home == str(tmp_path / "here")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30), ("500ms", 0.5), ("2 minutes", 120), ("1h", 3600), ("1.5s", 1.5)],
)
def test_times_are_given_as_spark_users_write_them(text: str, seconds: float) -> None:
    given = {"url": URL, "queue": "q", "minRowsPerTrigger": "2", "maxTriggerDelay": text}
    assert parse(given, "readStream").max_delay == seconds


def test_a_password_is_not_shown() -> None:
    found = parse({"url": "redis://:secret@host", "queue": "q"}, "read")
    assert "secret" not in repr(found)


def test_the_schema_follows_the_options() -> None:
    def names(**given: str) -> list[str]:
        return schema.of(parse({"url": URL} | given, "any read")).fieldNames()

    assert names(queue="q") == schema.MESSAGES.fieldNames()
    assert names(queue="q", state="ready") == schema.LOOKED_AT.fieldNames()
    assert names(journal="q") == schema.EVENTS.fieldNames()
    assert names(queue="q", includeReservation="true")[-1] == "reservation"
    assert "body" not in names(queue="q", includeBody="false")


def test_each_use_gets_its_reader() -> None:
    def source(**given: str) -> HoldfastDataSource:
        return HoldfastDataSource(CaseInsensitiveDict({"url": URL} | given))

    assert isinstance(source(queue="q").reader(schema.MESSAGES), StateReader)
    assert isinstance(source(journal="q").reader(schema.EVENTS), JournalReader)
    assert isinstance(source(journal="q").streamReader(schema.EVENTS), JournalStreamReader)
    assert HoldfastDataSource.name() == "holdfast"


def test_spark_shows_the_reason_to_the_user(
    spark: SparkSession, hf: holdfast.Client, server_url: str
) -> None:
    reading = spark.read.format("holdfast").option("url", server_url)
    with pytest.raises(PySparkException, match="did you mean 'state'"):
        reading.option("queue", "q").option("stat", "dead").load()
    streaming = spark.readStream.format("holdfast").option("url", server_url)
    with pytest.raises(PySparkException, match="a stream takes ready messages"):
        streaming.option("queue", "q").option("state", "dead").load().writeStream.format(
            "noop"
        ).start().awaitTermination()
