"""Queues with a journal, and its stream reader called as Spark calls it, without a Spark."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable

import holdfast
from holdfast.engine.keys import base, suffixed
from holdfast.spark.journal import JournalStreamReader
from holdfast.spark.options import parse
from tests.raw import Raw
from tests.spark.looking import Row, rows, texts

_numbers = count(1)
ALL = ReadAllAvailable()


def journaled(hf: holdfast.Client, **settings: Any) -> holdfast.Queue:
    queue = hf.queue(f"journal{next(_numbers)}")
    queue.configure(journal=True, **settings)
    return queue


def stream(url: str, queue: str, **options: object) -> JournalStreamReader:
    given = {"url": url, "journal": queue} | texts(options)
    return JournalStreamReader(parse(given, "readStream"))


def between(reader: JournalStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[Row]:
    # As Spark hands them on.
    start, end = json.loads(json.dumps(start)), json.loads(json.dumps(end))
    return rows(reader, reader.partitions(start, end))


def trim(hf: holdfast.Client, queue: holdfast.Queue, keep: int) -> None:
    Raw(hf)("XTRIM", suffixed(base(queue.name), "journal"), "MAXLEN", "=", keep)


def keys(found: list[Row]) -> list[tuple[Any, ...]]:
    return [(row["queue"], row["shard"], row["entry"], row["position"]) for row in found]
