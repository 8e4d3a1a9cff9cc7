"""holdfast spark archive and compact: queues and journals in Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import durations, output, spark_progress, spark_running
from holdfast.cli.options import Json, Peer, Url
from holdfast.cli.spark_options import Conf, Master, Packages, extra
from holdfast.cli.spark_running import Every, MaxDelay, MaxRows, MinRows, Once, Subscription
from holdfast.errors import InvalidArgument

if TYPE_CHECKING:
    from holdfast.spark.jobs.compaction import Day

_MB = 1024 * 1024


def archive(
    queues: Annotated[
        list[str] | None, typer.Argument(metavar="[QUEUE…]", help="Queues to consume.")
    ] = None,
    to: Annotated[
        str, typer.Option("--to", metavar="PATH", help="The folder, or hdfs://…, s3a://….")
    ] = "",
    journal: Annotated[
        list[str] | None,
        typer.Option("--journal", metavar="QUEUE", help="Copy this queue's journal; repeat it."),
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="TOPIC", help="Consume a subscription of it.")
    ] = None,
    subscription: Subscription = None,
    peer: Peer = "",
    once: Once = False,
    every: Every = "1s",
    max_rows: MaxRows = 250_000,
    min_rows: MinRows = None,
    max_delay: MaxDelay = "15m",
    compact_: Annotated[
        bool, typer.Option("--compact", help="At the end, compact days that are over.")
    ] = False,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="parquet, or delta, which needs --packages io.delta:delta-spark_2.13:VERSION and "
            "Delta's --conf settings.",
        ),
    ] = "parquet",
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Where the job keeps how far it is. Keep it as long as you keep the archive.",
            show_default="TO/_checkpoint-QUEUE",
        ),
    ] = None,
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Move messages into Parquet files, each exactly once, or copy journals there.

    Files lie in PATH/queue=…/day=…/ and can be read by anything that reads Parquet. Messages are acked
    when they are in the archive; a journal is only read. Start it again after a crash, and it goes on
    where it was. Ctrl-C stops it after the batch in hand.

    \b
    holdfast spark archive orders payments --to lake --once
    holdfast spark archive orders --to lake --min-rows 100000 --max-delay 5m
    holdfast spark archive --journal orders --to journal-lake --once --compact
    holdfast spark archive --topic prices --subscription lake --to lake
    """
    if not to:
        raise InvalidArgument("say where to: --to PATH")
    if bool(topic) != bool(subscription):
        raise InvalidArgument("a subscription is named by both: --topic and --subscription")
    if compact_ and format_ != "parquet":
        raise InvalidArgument("--compact is for Parquet; Delta has OPTIMIZE")
    with extra():
        from holdfast.spark.jobs import archive as job
        from holdfast.spark.jobs import compaction, running
    sources = [job.Source(spark_running.place(url, name)) for name in queues or []]
    sources += [job.Source(spark_running.place(url, name), journal=True) for name in journal or []]
    if topic:
        sources.append(job.Source(spark_running.place(url, None, topic, subscription, peer)))
    options = {"maxRowsPerTrigger": str(max_rows)}
    if not journal:
        options = spark_running.reading(max_rows, min_rows, max_delay)
    plan = job.Plan(
        sources,
        to,
        once=once,
        every=durations.seconds(every, "--every"),
        checkpoint=checkpoint,
        format=format_,
        options=options,
    )
    with (
        running.on_signals(running.Stop()) as stop,
        spark_running.spark("archive", master, conf, packages) as spark,
        running.on_signals(stop),
    ):
        with spark_progress.Progress("archive", json=json) as progress:
            summary = job.run(spark, plan, stop=stop, watch=progress.batch)
        days = compaction.compact(spark, to, until=_today()) if compact_ else []
    if json:
        for tally in summary.sources:
            output.emit({"source": tally.source, "to": to, **spark_progress.tally_json(tally)})
        output.emit({"job": "archive", "rows": summary.rows, "to": to, "open": summary.open})
    else:
        table = output.table(
            "source", "rows", "batches", "rows/s", right=("rows", "batches", "rows/s")
        )
        for tally in summary.sources:
            table.add_row(
                tally.source, f"{tally.rows:,}", f"{tally.batches:,}", f"{tally.rate:,.0f}"
            )
        output.show(table)
        output.say(f"archived {output.several(summary.rows, 'row')} to {to}")
    _say_compacted(days, json)
    if not json:
        spark_progress.ended(
            stopped=stop.is_set(),
            open_=summary.open,
            seconds=max(tally.seconds for tally in summary.sources),
        )


def compact(
    path: Annotated[str, typer.Argument(metavar="PATH", help="An archive.")],
    all_: Annotated[
        bool, typer.Option("--all", help="Today too, and not only days that are over (UTC).")
    ] = False,
    small: Annotated[
        int, typer.Option(metavar="MB", help="Files below this size are put together.", min=1)
    ] = 32,
    large: Annotated[int, typer.Option(metavar="MB", help="Into files of this size.", min=1)] = 128,
    master: Master = None,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Put the small files of an archive together, a day at a time.

    Readers see the old files of a day or the new ones, never both. Safe to repeat, and after a crash; an
    archive job may go on meanwhile.

    \b
    holdfast spark compact lake
    holdfast spark compact lake --all --small 64 --large 512
    """
    with extra():
        from holdfast.spark.jobs import compaction
    with spark_running.spark("compact", master, conf, None) as spark:
        days = compaction.compact(
            spark, path, small=small * _MB, large=large * _MB, until=None if all_ else _today()
        )
    _say_compacted(days, json)
    if not days and not json:
        output.note(
            "nothing to do: no day has two small files" + ("" if all_ else ", before today")
        )


def _today() -> date:
    return datetime.now(UTC).date()


def _say_compacted(days: Sequence[Day], json: bool) -> None:
    for day in days:
        if json:
            output.emit({"day": day.folder, "before": day.before, "after": day.after})
        else:
            output.say(
                f"compacted {day.folder}: {output.several(day.before, 'file')} → {day.after}"
            )
