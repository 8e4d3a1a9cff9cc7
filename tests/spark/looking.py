"""Readers called as Spark calls them, without a Spark: planned, pickled, read part by part."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from holdfast.spark.batch import StateReader
from holdfast.spark.journal import JournalReader
from holdfast.spark.options import parse

Row = dict[str, Any]


def look(url: str, queue: str, **options: object) -> list[Row]:
    """What a batch read of a queue finds."""
    reader = state_reader(url, queue=queue, **options)
    return rows(reader, reader.partitions())


def state_reader(url: str, **options: object) -> StateReader:
    return StateReader(parse({"url": url} | texts(options), "read"))


def events(url: str, queue: str, **options: object) -> list[Row]:
    """What a batch read of a journal finds."""
    reader = JournalReader(parse({"url": url, "journal": queue} | texts(options), "read"))
    return rows(reader, reader.partitions())


def rows(
    reader: DataSourceReader | DataSourceStreamReader, partitions: Sequence[InputPartition]
) -> list[Row]:
    found = []
    for partition in partitions:
        there, share = pickle.loads(pickle.dumps((reader, partition)))
        for batch in there.read(share):
            found += batch.to_pylist()
    return found


def texts(options: dict[str, object]) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
    }
