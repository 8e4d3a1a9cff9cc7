"""holdfast spark work: a function handles messages, on Spark's executors."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli import durations, output, spark_progress, spark_running
from holdfast.cli.options import Json, Url
from holdfast.cli.spark_options import Conf, Master, Packages, extra


def work(
    handler: Annotated[
        str, typer.Argument(metavar="MODULE:FUNCTION", help="What is done with a delivery.")
    ],
    queues: Annotated[
        str, typer.Option("--queues", metavar="A,B,…", help="The queues to work on.")
    ],
    slots: Annotated[
        int,
        typer.Option(metavar="N", help="Handlers at a time.", show_default="Spark's cores", min=0),
    ] = 0,
    once: Annotated[
        bool, typer.Option("--once", help="End when nothing has come for --idle.")
    ] = False,
    idle: Annotated[str, typer.Option(metavar="TIME", help="For --once.")] = "5s",
    lease: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Of each message; kept up.", show_default="the queue's"),
    ] = None,
    prefetch: Annotated[
        int, typer.Option(metavar="N", help="So many messages at a time to a slot.", min=1)
    ] = 10,
    grace: Annotated[
        str, typer.Option(metavar="TIME", help="How long to wait for handlers when stopped.")
    ] = "30s",
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Handle messages with a Python function, on Spark's executors.

    The function gets a delivery (body, attributes, …). When it returns, the message is acked; when it
    raises, it is tried again later, and after the queue's max_receives it is a dead letter. Each slot is
    a process that handles one message at a time. Ctrl-C lets them finish what they have in hand.

    \b
    holdfast spark work shop.handlers:ship --queues orders,returns
    holdfast spark work shop.handlers:ship --queues orders --once --master spark://localhost:7077
    """
    with extra():
        from holdfast.spark.jobs import running
        from holdfast.spark.jobs import work as job
    function = spark_running.load(handler, "MODULE:FUNCTION")
    names = [name.strip() for name in queues.split(",") if name.strip()]
    plan = job.Plan(
        function,
        [spark_running.place(url, name) for name in names],
        slots=slots,
        idle=durations.seconds(idle, "--idle") if once else None,
        lease=durations.optional_seconds(lease, "--lease"),
        prefetch=prefetch,
        grace=durations.seconds(grace, "--grace"),
    )
    with (
        running.on_signals(running.Stop()) as stop,
        spark_running.spark("work", master, conf, packages) as spark,
        running.on_signals(stop),
        spark_progress.Progress("work", json=json) as progress,
    ):
        summary = job.run(spark, plan, stop=stop, watch=progress.work)
    if json:
        queues_done = [spark_progress.work_json(each) for each in summary.queues]
        output.emit({"job": "work", "slots": summary.slots, "queues": queues_done})
        return
    table = output.table("queue", "handled", "failed", "dead", right=("handled", "failed", "dead"))
    for each in summary.queues:
        table.add_row(each.queue, f"{each.handled:,}", f"{each.failed:,}", f"{each.dead:,}")
    output.show(table)
    spark_progress.ended(stopped=summary.stopped, open_=0, seconds=summary.seconds)
