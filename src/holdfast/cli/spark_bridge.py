"""holdfast spark bridge: from a queue through SQL to somewhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from holdfast import embedded
from holdfast.cli import durations, output, spark_progress, spark_running
from holdfast.cli.options import Json, Peer, Url
from holdfast.cli.spark_options import Conf, Master, Packages, extra
from holdfast.cli.spark_running import Every, MaxRows, Once, Subscription
from holdfast.errors import InvalidArgument

if TYPE_CHECKING:
    from holdfast.spark.place import Place


def bridge(
    from_: Annotated[
        str, typer.Option("--from", metavar="QUEUE|topic:NAME", help="Where messages come from.")
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="QUEUE|topic:NAME|PATH",
            help="Where rows go. What has a / is a folder, for Parquet: ./lake.",
        ),
    ],
    sql: Annotated[
        str | None, typer.Option("--sql", metavar="SQL", help="A query on the view `messages`.")
    ] = None,
    module: Annotated[
        str | None,
        typer.Option(
            "--module", metavar="MODULE:FUNCTION", help="A function from DataFrame to DataFrame."
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(metavar="DDL", help="The bodies are JSON: 'number INT, tea STRING'."),
    ] = None,
    infer: Annotated[
        bool, typer.Option("--infer", help="The bodies are JSON: look at those that wait.")
    ] = False,
    sample: Annotated[
        int, typer.Option(metavar="N", help="How many --infer looks at.", min=1)
    ] = 1000,
    expect: Annotated[
        list[str] | None,
        typer.Option("--expect", metavar="SQL", help="What must be true of a message; repeat it."),
    ] = None,
    subscription: Subscription = None,
    peer: Peer = "",
    to_url: Annotated[
        str | None,
        typer.Option("--to-url", metavar="URL", help="The target's server.", show_default="--url"),
    ] = None,
    once: Once = False,
    every: Every = "1s",
    max_rows: MaxRows = 100_000,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Where the job keeps how far it is. By default beside a folder's data, or, for queues "
            "and topics, named after both ends in HOLDFAST_HOME or ./.holdfast: start it in the same "
            "place again.",
            show_default=False,
        ),
    ] = None,
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Take messages from a queue, through SQL, to another queue, a topic or a folder; exactly once.

    The view `messages` has queue, id, body, text (the body as text), attributes, priority, receives,
    sent_at and `group`; with --schema or --infer also value, the parsed body: SELECT value.number. A
    message whose body is no such JSON, or of which --expect is not true, becomes a dead letter of the
    queue it came from, with the reason; the others go on.

    A result without a column body is sent as JSON; attributes, priority, delay_ms, group and dedup_id
    are those of the new message, if they are there. Streaming SQL: what needs several messages at
    once (GROUP BY) needs a watermark.

    \b
    holdfast spark bridge --from orders --to big --schema "number INT, total DOUBLE" \\
      --expect "value.total > 0" --sql "SELECT * FROM messages WHERE value.total >= 100"
    holdfast spark bridge --from orders --to ./lake/orders --infer --sql "SELECT value.* FROM messages"
    holdfast spark bridge --from topic:prices --subscription eu --to topic:prices-eu --module eu:convert
    """
    with extra():
        from holdfast.spark.jobs import bridge as job
        from holdfast.spark.jobs import running
    transform = spark_running.load(module, "--module") if module else None
    is_topic = from_.startswith("topic:")
    if is_topic != bool(subscription):
        raise InvalidArgument("a subscription is named by both: --from topic:NAME --subscription C")
    source = spark_running.place(
        url,
        None if is_topic else from_,
        from_.removeprefix("topic:") if is_topic else None,
        subscription,
        peer,
    )
    target = _target(to, to_url or url)
    if source == target:
        raise InvalidArgument("from and to are the same queue: it would never end")
    where = checkpoint or _checkpoint(source.name, to)
    plan = job.Plan(
        source,
        target,
        where,
        sql=sql,
        transform=transform,
        schema=schema,
        infer=sample if infer else 0,
        expect=expect or [],
        once=once,
        every=durations.seconds(every, "--every"),
        options={"maxRowsPerTrigger": str(max_rows)},
    )
    say = (lambda text: None) if json else output.note
    with (
        running.on_signals(running.Stop()) as stop,
        spark_running.spark("bridge", master, conf, packages) as spark,
        running.on_signals(stop),
        spark_progress.Progress("bridge", json=json) as progress,
    ):
        summary = job.run(spark, plan, stop=stop, watch=progress.batch, say=say)
    tally = summary.tally
    if json:
        output.emit(
            {
                "job": "bridge",
                "from": summary.source,
                "to": summary.to,
                **spark_progress.tally_json(tally),
                "written": summary.written,
                "dead": summary.dead,
                "schema": summary.schema,
                "checkpoint": where,
                "open": summary.open,
            }
        )
        return
    output.say(
        f"took {output.several(tally.rows, 'message')} from {summary.source}, wrote "
        f"{output.several(summary.written, 'row')} to {summary.to}, "
        f"{output.several(summary.dead, 'dead letter')}"
    )
    spark_progress.ended(stopped=stop.is_set(), open_=summary.open, seconds=tally.seconds)


def _target(to: str, url: str | None) -> Place | str:
    """A queue, a topic, or the path of a folder, which has a slash."""
    if to.startswith("topic:"):
        return spark_running.place(url, None, to.removeprefix("topic:"))
    return to if "/" in to else spark_running.place(url, to)


def _checkpoint(source: str, to: str) -> str:
    if "/" in to:
        return f"{to.rstrip('/')}/_checkpoint-{quote(source, safe='')}"
    name = f"bridge-{quote(source, safe='')}-to-{quote(to, safe='')}"
    return str(embedded.status().home.resolve() / "checkpoints" / name)
