"""holdfast spark work: an app runs its tasks, or a function handles messages, on Spark's executors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import durations, output, spark_progress, spark_running
from holdfast.cli.options import Json, Url
from holdfast.cli.spark_options import Conf, Master, Packages, extra
from holdfast.errors import InvalidArgument

if TYPE_CHECKING:
    from holdfast.spark.place import Place
    from holdfast.tasks.app import App


def work(
    handler: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:NAME", help="An app; or a function, called with each delivery."
        ),
    ],
    queues: Annotated[
        str | None,
        typer.Option(
            "--queues",
            metavar="A,B,…",
            help="The queues to work on.",
            show_default="all of the app's",
        ),
    ] = None,
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
    """Run an app's tasks, or handle messages with a function, on Spark's executors.

    Of an app: its tasks, as `holdfast worker` runs them, with the same acks, retries, dead letters, results,
    flows, limits, timeouts and cancelling. Its module must be importable on the executors. Schedules need a
    `holdfast worker` somewhere.

    A function gets a delivery (body, attributes, …). When it returns, the message is acked; when it raises,
    it is tried again later, and after the queue's max_receives it is a dead letter.

    Each slot is a process that runs one task, or handles one message, at a time. Ctrl-C lets them finish
    what they have in hand.

    \b
    holdfast spark work shop.tasks:app --queues emails,default
    holdfast spark work shop.handlers:ship --queues orders --once --master spark://localhost:7077
    """
    with extra():
        from holdfast.spark.jobs import running
        from holdfast.spark.jobs import work as job
        from holdfast.spark.jobs.tasks import AppName
    from holdfast.tasks.app import App

    found = spark_running.find(handler, "MODULE:NAME")
    served: job.Handler | AppName
    if isinstance(found, App):
        served, places = AppName(handler), _of_app(found, queues, url)
    else:
        served, places = _function(found, handler), _named(queues, url)
    plan = job.Plan(
        served,
        places,
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


def _function(found: Any, spec: str) -> Callable[..., Any]:
    if not callable(found):
        kind = type(found).__name__
        raise InvalidArgument(f"MODULE:NAME: {spec} is neither an App nor a function but {kind}")
    return found  # type: ignore[no-any-return]


def _named(queues: str | None, url: str | None) -> list[Place]:
    if not queues:
        raise InvalidArgument("--queues: name the queues whose messages the function handles")
    return [spark_running.place(url, name) for name in _split(queues)]


def _of_app(app: App, queues: str | None, url: str | None) -> list[Place]:
    """On the server that the app itself would use, if no other is named."""
    from holdfast.spark.place import Place

    names = _split(queues) if queues else app.queues
    for name in names:
        before, colon, weight = name.rpartition(":")
        if colon and weight.isdigit():
            raise InvalidArgument(
                f"--queues: {name}: weights are for `holdfast worker`; here each slot looks at all queues "
                f"in turn: write {before}"
            )
    url, home = url or app.connection["url"], app.connection["home"]
    if url is None and home is not None:
        return [Place(None, str(Path(home).resolve()), name) for name in names]
    return [spark_running.place(url, name) for name in names]


def _split(queues: str) -> list[str]:
    return [name.strip() for name in queues.split(",") if name.strip()]
