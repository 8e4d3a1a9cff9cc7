"""report: from a journal's archive to tables, a page, and the key numbers.

    archive.read → steps → lives → metrics, timeline → Parquet → findings → page, terminal

Everything before `findings` is DataFrame → DataFrame and never comes to the driver; everything after it
is a few hundred rows of plain values. The page and the terminal show the same findings.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from holdfast.spark.jobs.report import archive, findings, folder, page, tables, timeline
from holdfast.spark.jobs.report.summary import Summary
from holdfast.spark.jobs.report.terminal import render_terminal

__all__ = ["Summary", "render_terminal", "run"]


def run(
    spark: SparkSession, source_path: str, to_path: str, *, queues: Sequence[str] | None = None
) -> Summary:
    """Write a report on the journal archived at `source_path` to the folder `to_path`.

    Of all queues there, or of those named. An earlier report is replaced when the new one is whole;
    any other folder is refused. Raises InvalidArgument.
    """
    place = folder.target(to_path, source_path)
    events = archive.read(spark, source_path, queues)
    extent = archive.extent(events)
    cut = timeline.buckets(extent)
    with folder.replacing(place) as made:
        written = tables.write(spark, events, extent, cut, made / folder.TABLES)
        found = findings.gather(written)
        summary = Summary(
            source=source_path,
            folder=str(place),
            page=str(place / folder.PAGE),
            first=_moment(extent.first_ms) if extent.events else None,
            last=_moment(extent.last_ms) if extent.events else None,
            bucket=cut.name,
            events=extent.events,
            queue_count=found.queue_count,
            account=found.account,
            times=found.times,
            queues=found.queues,
            deaths=found.deaths,
            failures=found.failures,
            slowest=found.slowest,
        )
        (made / folder.PAGE).write_text(page.render(summary, found, cut), "utf-8")
        folder.keep(made, summary)
    return summary


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
