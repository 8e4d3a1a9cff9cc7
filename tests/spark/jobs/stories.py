"""Hand-written journals: the events of one message told in order, with times in seconds from START."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from holdfast.spark.schema import EVENTS

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def moment(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@dataclass(frozen=True)
class Said:
    event: str
    at: float
    receives: int = 0
    due: float | None = None
    lease: float | None = None
    reason: str = ""
    entry: str | None = None
    position: int = 0


def story(
    queue: str, *said: Said, id: str = "1-0", priority: int = 0, size: int = 10, shard: int = 0
) -> list[dict[str, Any]]:
    """Rows of EVENTS. Entries are numbered in the order told, where one does not name its own."""
    return [
        {
            "queue": queue,
            "shard": shard,
            "entry": each.entry or f"{1000 + i}-0",
            "position": each.position,
            "event": each.event,
            "id": id,
            "time": moment(each.at),
            "priority": priority,
            "receives": each.receives,
            "size": size,
            "lease_ms": None if each.lease is None else round(each.lease * 1000),
            "lease_until": None if each.lease is None else moment(each.at + each.lease),
            "due": None if each.due is None else moment(each.due),
            "reason": each.reason,
        }
        for i, each in enumerate(said)
    ]


def frame(spark: SparkSession, rows: Iterable[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame([tuple(row[n] for n in EVENTS.names) for row in rows], EVENTS)


# ---- the words, short ----------------------------------------------------------------------


def sent(at: float, due: float | None = None) -> Said:
    return Said("sent", at, due=due)


def received(at: float, receives: int = 0, lease: float | None = 30) -> Said:
    return Said("received", at, receives, lease=lease)


def acked(at: float, receives: int = 0) -> Said:
    return Said("acked", at, receives)


def nacked(at: float, receives: int, error: str = "boom", due: float | None = None) -> Said:
    return Said("requeued", at, receives, due=due, reason=error)


def lease_ended(at: float, receives: int) -> Said:
    return Said("requeued", at, receives, reason="the lease ended without an ack")


def dead(at: float, receives: int, reason: str = "max_receives") -> Said:
    return Said("dead", at, receives, reason=reason)
