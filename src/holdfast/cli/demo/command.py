"""holdfast demo: the command."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from holdfast import embedded
from holdfast.cli import output
from holdfast.cli.demo.account import Account
from holdfast.cli.demo.orders import LEASE_SECONDS, MAX_RECEIVES, QUEUE, Orders
from holdfast.cli.demo.pipeline import Lake, Pipeline, clear
from holdfast.cli.demo.story import Story
from holdfast.cli.demo.view import View, in_the_lake, summary
from holdfast.cli.options import Json, Url, connected
from holdfast.client._sync.client import Client
from holdfast.settings import whole


def demo(
    orders: Annotated[int, typer.Option(help="How many orders.")] = 5000,
    workers: Annotated[int, typer.Option(help="How many worker processes.")] = 4,
    seed: Annotated[int, typer.Option(help="The same trouble again, or other trouble.")] = 1,
    spark: Annotated[
        bool, typer.Option(help="Then through Spark into a lake of Parquet files, and a report.")
    ] = True,
    to: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where the lake and the report go.")
    ] = Path("holdfast-demo"),
    url: Url = None,
    json: Json = False,
) -> None:
    """See it at work: thousands of orders, workers that fail and die, and nothing lost.

    Real worker processes take orders; some orders fail once, some always, and some kill the worker
    that has them, with everything else it has in hand. In the end each order must have been handled,
    by the workers' own records; the exit status is 1 if not.

    What was handled is sent on to a second queue. From there Spark takes it into Parquet files,
    exactly once, and makes a report of both queues' journals: a page with plots. Everything is
    counted again, from the files. Uses queues of its own, demo-orders and demo-shipments.

    \b
    holdfast demo
    holdfast demo --orders 20000 --workers 8 --seed 7
    holdfast demo --no-spark
    """
    whole(orders, "--orders", 10, 1_000_000)
    whole(workers, "--workers", 1, 64)
    plan = Orders(orders, seed)
    console = output.console(stderr=json)
    if spark and not _has_spark():
        spark = False
        output.note("without Spark, which is not installed: pip install 'holdfast[spark]'")
    if spark:
        clear(to)
    lake: Lake | None = None
    with connected(url) as client:
        console.print(_opening(client, url, plan, workers))
        with View(console, orders) as view:
            # The URL as it was given: that of a cluster names more than one node.
            account = Story(client, url or client.url, plan, workers, view).run()
            if spark:
                lake = Pipeline(client, url, orders, to, view.event).run()
    faults = account.faults() + (lake.faults() if lake else [])
    if json:
        output.emit(_as_json(account, lake, faults))
    else:
        console.print(summary(account))
        if lake:
            console.print(in_the_lake(lake, to))
        _close(faults, lake)
    if faults:
        raise typer.Exit(1)


def _opening(client: Client, url: str | None, plan: Orders, workers: int) -> Text:
    where = client.transport.address.safe
    if url is None:
        status = embedded.status()
        where = f"embedded Valkey in {status.home} ({status.durability})"
    text = Text.assemble(("Holdfast demo", "bold"), f"  {where}, queue {QUEUE!r}\n")
    text.append(
        f"{plan.count:,} orders, {output.several(workers, 'worker')}; "
        f"{output.several(len(plan.flaky), 'order')} will fail once, "
        f"{len(plan.poison):,} always, {len(plan.fatal):,} will kill the worker; "
        f"lease {LEASE_SECONDS:g} s, {MAX_RECEIVES} tries\n",
        "dim",
    )
    return text


def _has_spark() -> bool:
    return importlib.util.find_spec("pyspark") is not None


def _close(faults: list[str], lake: Lake | None) -> None:
    if faults:
        for fault in faults:
            output.note(f"does not add up: {fault}", style="bold red")
        return
    output.console().print(Text("\nIt adds up: no order lost, none forgotten.", "bold green"))
    if lake:
        output.say(f"\nThe report, for a browser: {lake.report.page}")
    output.say("\nNext, try:")
    for words in ('send hello "my first message"', "receive hello --ack", "spark --help"):
        output.say(f"  {_command()} {words}")


def _command() -> str:
    """How to call holdfast from here: by name where the shell finds it, else by its place."""
    if shutil.which("holdfast"):
        return "holdfast"
    beside = Path(sys.executable).parent / "holdfast"
    try:
        return str(beside.relative_to(Path.cwd()))
    except ValueError:
        return str(beside)


def _as_json(account: Account, lake: Lake | None, faults: list[str]) -> dict[str, object]:
    return {
        "lake": lake and _lake_as_json(lake),
        "adds_up": not faults,
        "faults": faults,
        "orders": account.orders,
        "sent": account.after.sent,
        "acked": account.after.acked,
        "left": account.after.total,
        "deliveries": account.deliveries,
        "failed": account.records.failed,
        "lost_with_workers": account.records.lost,
        "worker_deaths": account.deaths,
        "dead_letters": account.before.dead,
        "redriven": account.redriven,
        "handled": account.orders - len(account.missing),
        "handled_more_than_once": account.handled_twice,
        "seconds": round(account.seconds, 2),
    }


def _lake_as_json(lake: Lake) -> dict[str, object]:
    return {
        "shipments": lake.queue.sent,
        "in_the_lake": lake.shipped,
        "orders_in_the_lake": lake.distinct,
        "dead": lake.queue.dead,
        "events": lake.events,
        "report": lake.report.page,
    }
