"""The written tables → the few rows that are shown.

There may be any number of queues, and as many reasons as messages: all that is shown is limited, and
what has reasons in it is limited by Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast.spark.jobs.report.lives import OUTCOMES
from holdfast.spark.jobs.report.metrics import MEASURES
from holdfast.spark.jobs.report.steps import GIVEN_BACK
from holdfast.spark.jobs.report.summary import (
    Account,
    DeathReason,
    FailureReason,
    QueueAccount,
    SlowMessage,
    Spread,
    Times,
)
from holdfast.spark.jobs.report.tables import Tables
from holdfast.spark.jobs.report.timeline import HAPPENED, THERE

QUEUES = 100
REASONS = 12
SLOWEST = 25
# Beyond so many deliveries, messages are counted together.
ATTEMPTS = 8

_DEATHS, _FAILURES = ("deaths", "still_dead"), ("deliveries", "messages")
_SUMMED = ("messages", "incomplete", "deliveries", "retries", "deaths", "redriven", "bytes")


@dataclass(frozen=True, slots=True)
class Series:
    """Counts per bucket, by name; `times_ms` are the starts of the buckets."""

    times_ms: tuple[int, ...]
    values: dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Findings:
    """`queues` are the largest; the series and endings by queue are of those."""

    queue_count: int
    account: Account
    times: Times | None
    queues: tuple[QueueAccount, ...]
    priorities: tuple[tuple[str, int, Times], ...]
    deaths: tuple[DeathReason, ...]
    failures: tuple[FailureReason, ...]
    slowest: tuple[SlowMessage, ...]
    attempts: dict[int, int]
    endings: dict[str, dict[str, int]]
    throughput: Series
    backlog: Series
    throughput_of: dict[str, Series]
    backlog_of: dict[str, Series]


def gather(tables: Tables) -> Findings:
    rows = tables.small("queues").to_pylist()
    largest = sorted(rows, key=lambda row: (-row["messages"], row["queue"]))[:QUEUES]
    names = [row["queue"] for row in largest]
    times = _times(tables.small("latency"), names)
    throughput, throughput_of = _series(tables.small("throughput"), HAPPENED, names)
    backlog, backlog_of = _series(tables.small("backlog"), THERE, names)
    return Findings(
        queue_count=len(rows),
        account=_account(rows),
        times=times.get((None, None)),
        queues=tuple(
            QueueAccount(row["queue"], _account([row]), times.get((row["queue"], None)))
            for row in largest
        ),
        priorities=tuple(
            (q, p, t) for (q, p), t in times.items() if q is not None and p is not None
        ),
        deaths=_rows(_over_queues(tables.read("dead_letters"), _DEATHS), REASONS, DeathReason),
        failures=_rows(_over_queues(tables.read("failures"), _FAILURES), REASONS, FailureReason),
        slowest=_slowest(tables.small("slowest")),
        attempts=_attempts(tables.small("attempts")),
        endings=_endings(tables.small("endings"), names),
        throughput=throughput,
        backlog=backlog,
        throughput_of=throughput_of,
        backlog_of=backlog_of,
    )


def _account(rows: Sequence[Mapping[str, Any]]) -> Account:
    """Rows of the table `queues`, added up."""

    def added(name: str) -> int:
        return sum(row[name] for row in rows)

    return Account(
        **{name: added(name) for name in _SUMMED},
        outcomes={name: added(name) for name in OUTCOMES},
        given_back={name: added(name) for name in GIVEN_BACK},
    )


def _times(table: pa.Table, names: Sequence[str]) -> dict[tuple[str | None, int | None], Times]:
    """By queue and priority, in that order; None stands for all."""
    wanted = {None, *names}
    found = {}
    for row in table.sort_by([("queue", "ascending"), ("priority", "ascending")]).to_pylist():
        if row["queue"] in wanted:
            spreads = (
                Spread(*(row[f"{measure}_{cut}_ms"] for cut in ("p50", "p95", "p99", "max")))
                for measure in MEASURES
            )
            found[row["queue"], row["priority"]] = Times(row["messages"], *spreads)
    return found


def _over_queues(table: DataFrame, counts: tuple[str, ...]) -> DataFrame:
    """Rows that differ only by queue made one; those with the most of the first count come first."""
    keys = [name for name in ("ending", "reason") if name in table.columns]
    return (
        table.groupBy(*keys)
        .agg(
            *(F.sum(name).alias(name) for name in counts),
            F.max_by("queue", counts[0]).alias("queue"),
            F.count_distinct("queue").alias("queues"),
        )
        .orderBy(F.desc(counts[0]), *keys)
    )


def _rows(ordered: DataFrame, most: int, kind: type[Any]) -> tuple[Any, ...]:
    columns = list(kind.__dataclass_fields__)
    return tuple(kind(*row) for row in ordered.select(*columns).limit(most).collect())


def _slowest(table: pa.Table) -> tuple[SlowMessage, ...]:
    foremost = table.sort_by([("total_ms", "descending")]).slice(0, SLOWEST)
    columns = list(SlowMessage.__dataclass_fields__)
    return tuple(SlowMessage(**row) for row in foremost.select(columns).to_pylist())


def _attempts(table: pa.Table) -> dict[int, int]:
    found: dict[int, int] = {}
    for row in table.to_pylist():
        deliveries = min(row["deliveries"], ATTEMPTS)
        found[deliveries] = found.get(deliveries, 0) + row["messages"]
    return dict(sorted(found.items()))


def _endings(table: pa.Table, names: Sequence[str]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {name: {} for name in names}
    for row in table.to_pylist():
        if row["queue"] in found:
            found[row["queue"]][row["ending"]] = row["deliveries"]
    return found


def _series(
    table: pa.Table, columns: tuple[str, ...], names: Sequence[str]
) -> tuple[Series, dict[str, Series]]:
    """Of all queues together, and of each of those named."""
    in_order = table.sort_by("bucket")
    sums = in_order.group_by("bucket", use_threads=False).aggregate([(n, "sum") for n in columns])
    times = tuple(sums["bucket"].to_pylist())
    total = Series(times, {name: tuple(sums[f"{name}_sum"].to_pylist()) for name in columns})
    named = in_order.filter(pc.is_in(in_order["queue"], pa.array(names, pa.string())))
    each: dict[str, dict[str, list[int]]] = {name: {n: [] for n in columns} for name in names}
    for row in named.to_pylist():
        for name in columns:
            each[row["queue"]][name].append(row[name])
    by_queue = {
        queue: Series(times, {name: tuple(values) for name, values in found.items()})
        for queue, found in each.items()
    }
    return total, by_queue
