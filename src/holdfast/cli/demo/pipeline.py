"""The second half of the story: what the workers shipped goes through Spark into the lake.

Each order that a worker has handled is sent on as a shipment, in a queue of their own. Here Spark
takes them from there into Parquet files, exactly once; those too cheap to ship become dead letters,
with the reason. The journals of both queues are copied to the lake too, and the report is made of
them. Then all is counted again, through Spark, from the files.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.demo.orders import QUEUE, SHIPMENTS, TOO_CHEAP
from holdfast.client._sync.client import Client
from holdfast.engine.replies import Stats
from holdfast.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from holdfast.spark.jobs.report import Summary
    from holdfast.spark.place import Place

_MADE, _MARK = ("lake", "report", "checkpoint"), ".holdfast-demo"
_SQL = "SELECT id, value.order AS number, value.customer, value.cents, sent_at FROM messages"


@dataclass(frozen=True)
class Lake:
    """What lies there at the end, counted through Spark, and what the queues say."""

    orders: int
    shipped: int
    """Rows of the lake."""
    distinct: int
    """Order numbers among them."""
    queue: Stats
    """Of the shipments."""
    events: int
    """In the journals' archive."""
    report: Summary

    def faults(self) -> list[str]:
        """What does not add up; nothing, if all is well."""
        found = []
        if self.queue.sent != self.orders:
            found.append(f"{self.orders:,} orders handled, but {self.queue.sent:,} shipments sent")
        if self.shipped + self.queue.dead != self.queue.sent:
            found.append(
                f"{self.queue.sent:,} shipments sent, but {self.shipped:,} in the lake and "
                f"{self.queue.dead:,} dead"
            )
        if self.distinct != self.shipped:
            found.append(f"{self.shipped:,} shipments in the lake, of {self.distinct:,} orders")
        if left := self.queue.total - self.queue.dead:
            found.append(f"{left:,} shipments are still in the queue")
        told = self.report.account.outcomes
        ends = {"acked": 2 * self.orders - self.queue.dead, "dead": self.queue.dead}
        for outcome, count in ends.items():
            if told[outcome] != count:
                found.append(
                    f"{count:,} messages ended as {outcome}, but the journals tell of "
                    f"{told[outcome]:,}"
                )
        return found


def clear(folder: Path) -> None:
    """Take away what an earlier demo left in the folder. Raises InvalidArgument if that is not what is
    there: nobody's own lake shall be taken for ours."""
    mark = folder / _MARK
    found = [folder / name for name in _MADE if (folder / name).exists()]
    if found and not mark.exists():
        raise InvalidArgument(
            f"{found[0]} is there already, and was not made by the demo; name another folder with --to"
        )
    for made in found:
        shutil.rmtree(made)
    folder.mkdir(parents=True, exist_ok=True)
    mark.touch()


class Pipeline:
    def __init__(
        self, client: Client, url: str | None, orders: int, folder: Path, event: Callable[..., None]
    ) -> None:
        self._client = client
        self._url = url
        self._orders = orders
        self._event = event
        self._folder = folder

    def run(self) -> Lake:
        from holdfast.cli.spark_options import extra

        with extra():
            from holdfast.spark import session
        self._event("starting Spark …")
        spark = session.build(
            "holdfast demo",
            conf={
                "spark.sql.shuffle.partitions": "2",
                "spark.driver.memory": "1g",
                # For a minute's work the optimizing compiler costs more than it brings.
                "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            },
        )
        try:
            self._event(f"Spark {spark.version} is there")
            return self._flow(spark)
        finally:
            spark.stop()

    def _flow(self, spark: SparkSession) -> Lake:
        from holdfast.spark.jobs import archive, bridge, report

        lake = self._folder / "lake"
        shipments, journals = lake / "shipments", lake / "journal"
        done = bridge.run(
            spark,
            bridge.Plan(
                self._place(SHIPMENTS),
                str(shipments),
                str(self._folder / "checkpoint"),
                sql=_SQL,
                schema="order INT, customer STRING, cents INT",
                expect=[f"value.cents >= {TOO_CHEAP}"],
                once=True,
            ),
        )
        self._event(
            f"{done.written:,} shipments in the lake, {done.dead:,} too cheap and dead", "bold"
        )
        sources = [archive.Source(self._place(name), journal=True) for name in (QUEUE, SHIPMENTS)]
        events = archive.run(spark, archive.Plan(sources, str(journals), once=True)).rows
        self._event(f"{events:,} events of the journals in the lake")
        told = report.run(spark, str(journals), str(self._folder / "report"))
        self._event("the report is made", "bold green")
        rows = spark.read.parquet(str(shipments))
        return Lake(
            self._orders,
            rows.count(),
            rows.select("number").distinct().count(),
            self._client.queue(SHIPMENTS).stats(),
            events,
            told,
        )

    def _place(self, queue: str) -> Place:
        from holdfast.spark.place import Place

        return Place(self._url or self._client.url, None, queue)
