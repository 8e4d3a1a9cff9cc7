"""The key numbers of a report: what the terminal shows, and what summary.json keeps.

Plain values only, so that msgspec encodes and decodes all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from holdfast.spark.jobs.report.steps import GONE, IN_HAND

IN_FLIGHT = ("ready", "delayed", *IN_HAND)


@dataclass(frozen=True, slots=True)
class Spread:
    """How a time is spread over messages, in ms."""

    p50_ms: int
    p95_ms: int
    p99_ms: int
    max_ms: int


@dataclass(frozen=True, slots=True)
class Times:
    """Of the messages by which time is told; see metrics.py for which those are."""

    messages: int
    in_queue: Spread
    in_hand: Spread
    total: Spread


@dataclass(frozen=True, slots=True)
class Account:
    """What became of the messages of one queue, or of all. The outcomes add up to `messages`."""

    messages: int
    incomplete: int
    outcomes: dict[str, int]
    deliveries: int
    retries: int
    given_back: dict[str, int]
    deaths: int
    redriven: int
    bytes: int

    @property
    def in_flight(self) -> int:
        return sum(self.outcomes[name] for name in IN_FLIGHT)

    @property
    def gone_otherwise(self) -> int:
        """Expired, removed or dropped."""
        return sum(self.outcomes[name] for name in GONE if name != "acked")


@dataclass(frozen=True, slots=True)
class QueueAccount:
    queue: str
    account: Account
    times: Times | None


@dataclass(frozen=True, slots=True)
class DeathReason:
    """Over all queues; `queue` is the one of them with the most, `queues` says how many there are."""

    reason: str
    deaths: int
    still_dead: int
    queue: str
    queues: int


@dataclass(frozen=True, slots=True)
class FailureReason:
    """The same for deliveries that did not end with an ack."""

    ending: str
    reason: str
    deliveries: int
    messages: int
    queue: str
    queues: int


@dataclass(frozen=True, slots=True)
class SlowMessage:
    queue: str
    id: str
    priority: int
    outcome: str
    deliveries: int
    total_ms: int
    time_in_queue_ms: int
    time_in_hand_ms: int
    delayed_ms: int


@dataclass(frozen=True, slots=True)
class Summary:
    """`queues`, `deaths`, `failures` and `slowest` hold the foremost; the Parquet tables hold all.

    `first` and `last` are the times of the first and the last event, None if there was none.
    """

    source: str
    folder: str
    page: str
    first: datetime | None
    last: datetime | None
    bucket: str
    events: int
    queue_count: int
    account: Account
    times: Times | None
    queues: tuple[QueueAccount, ...]
    deaths: tuple[DeathReason, ...]
    failures: tuple[FailureReason, ...]
    slowest: tuple[SlowMessage, ...]
