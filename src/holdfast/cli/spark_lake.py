"""holdfast spark replay, report, redrive: jobs that end by themselves, on archives and dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from holdfast.cli import durations, output, spark_running
from holdfast.cli.options import Json, Peer, QueueName, Url
from holdfast.cli.spark_options import Conf, Master, Packages, extra
from holdfast.cli.spark_running import Subscription

if TYPE_CHECKING:
    from holdfast.spark.jobs.redrive import RedriveSummary

Where = Annotated[
    str | None, typer.Option("--where", metavar="SQL", help="Only those of which this is true.")
]
Rate = Annotated[
    float | None, typer.Option("--rate", metavar="N", help="So many a second, not all at once.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]


def replay(
    from_: Annotated[str, typer.Option("--from", metavar="PATH", help="An archive of messages.")],
    to: Annotated[str, typer.Option("--to", metavar="QUEUE|topic:NAME", help="Where to.")],
    where: Where = None,
    rate: Rate = None,
    shift: Annotated[
        bool, typer.Option("--shift", help="With the gaps that they had when first sent.")
    ] = False,
    dry_run: DryRun = False,
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Send archived messages again, in the order in which they were first sent.

    SQL sees the columns of a message, day, and text, its body as text. Safe to repeat within the
    queue's dedup window: what was sent by an earlier run is left out.

    \b
    holdfast spark replay --from lake --to orders --where "day = '2026-11-16'" --dry-run
    holdfast spark replay --from lake --to orders --where "queue = 'orders' AND priority > 5" --rate 100
    """
    with extra():
        from holdfast.spark.jobs import replay as job
    is_topic = to.startswith("topic:")
    name = to.removeprefix("topic:")
    target = spark_running.place(url, None if is_topic else name, name if is_topic else None)
    plan = job.Plan(from_, target, where=where, rate=rate, shift=shift, dry_run=dry_run)
    with spark_running.spark("replay", master, conf, packages) as spark:
        summary = job.run(spark, plan)
    if json:
        output.emit({"job": "replay", **msgspec.to_builtins(summary)})
        return
    table = output.table("queue", "day", "messages", right=("messages",))
    for day in summary.days:
        table.add_row(day.queue, day.day.isoformat(), f"{day.messages:,}")
    output.show(table)
    matched = f"{summary.matched:,} of {output.several(summary.read, 'message')} match"
    if dry_run:
        output.say(f"{matched}; nothing was sent")
        return
    output.say(f"{matched}; sent {summary.sent:,} to {summary.to}")
    if summary.duplicates:
        output.note(f"{summary.duplicates:,} were left out: they had been sent before")
    if summary.lasts:
        output.note(f"the last of them is due in {durations.show(summary.lasts)}")


def redrive(
    queue: QueueName,
    where: Where = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            metavar="WHAT",
            help="Group by a column, attributes.NAME, or SQL; repeat it.",
            show_default="reason",
        ),
    ] = None,
    rate: Rate = None,
    dry_run: DryRun = False,
    subscription: Subscription = None,
    peer: Peer = "",
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Sort many dead letters out by SQL, and give those that are picked another life.

    SQL sees reason, error, died_at, the columns of a message, and text, its body as text. They go back
    in the order in which they died. With --subscription, QUEUE is a topic.

    \b
    holdfast spark redrive orders --dry-run --by reason --by attributes.country
    holdfast spark redrive orders --where "reason LIKE 'bridge:%' AND priority > 5"
    holdfast spark redrive orders --where "error LIKE '%Timeout%'" --rate 50
    """
    with extra():
        from holdfast.spark.jobs import redrive as job
        from holdfast.spark.jobs import running
    names = (None, queue, subscription, peer) if subscription else (queue,)
    plan = job.Plan(
        spark_running.place(url, *names),
        where=where,
        by=by or ["reason"],
        rate=rate,
        dry_run=dry_run,
    )
    with (
        running.on_signals(running.Stop()) as stop,
        spark_running.spark("redrive", master, conf, packages) as spark,
        running.on_signals(stop),
    ):
        summary = job.run(spark, plan, stop=stop)
    if json:
        output.emit({"job": "redrive", **msgspec.to_builtins(summary)})
    else:
        _show_redriven(summary)


def _show_redriven(summary: RedriveSummary) -> None:
    numbers = ("dead", "picked")
    table = output.table(*summary.by, *numbers, "first", "last", right=numbers, fold=summary.by)
    for group in summary.groups:
        table.add_row(
            *(
                output.preview(str(value).encode()) if value is not None else "–"
                for value in group.by
            ),
            f"{group.dead:,}",
            f"{group.picked:,}",
            durations.clock(group.first),
            durations.clock(group.last),
        )
    output.show(table)
    picked = f"{summary.picked:,} of {output.several(summary.dead, 'dead letter')}"
    if summary.dry_run:
        output.say(f"picked {picked} of {summary.queue}; nothing was changed")
        return
    output.say(f"picked {picked}; moved {summary.moved:,} back to {summary.queue}")
    if summary.lasts:
        output.note(f"the last of them is ready in {durations.show(summary.lasts)}")
    if summary.stopped:
        output.note("stopped: run it again for the rest", style="yellow")


def report(
    from_: Annotated[
        str,
        typer.Option("--from", metavar="PATH", help="An archive of journals (archive --journal)."),
    ],
    to: Annotated[
        str, typer.Option("--to", metavar="FOLDER", help="Where the report goes.")
    ] = "report",
    queue: Annotated[
        list[str] | None,
        typer.Option("--queue", metavar="QUEUE", help="Only of this one; repeat it."),
    ] = None,
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
    json: Json = False,
) -> None:
    """What happened to every message: times, retries, deaths, backlog; a page, tables, key numbers.

    \b
    holdfast spark archive --journal orders --to journal-lake --once
    holdfast spark report --from journal-lake --to report
    """
    with extra():
        from holdfast.spark.jobs import report as job
    with spark_running.spark("report", master, conf, packages) as spark:
        summary = job.run(spark, from_, to, queues=queue)
    if json:
        output.emit({"job": "report", **msgspec.to_builtins(summary)})
    else:
        job.render_terminal(summary, output.console())
