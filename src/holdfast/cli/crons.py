"""holdfast crons: when an app's tasks run by themselves."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import Annotated

import typer

from holdfast.cli import output
from holdfast.cli.options import Json


def crons(
    target: Annotated[
        str,
        typer.Argument(metavar="MODULE:APP", help="As for holdfast worker: shop.tasks:app."),
    ],
    count: Annotated[
        int, typer.Option("--count", "-n", metavar="N", help="Ticks to show.", min=1, max=1000)
    ] = 3,
    json: Json = False,
) -> None:
    """The schedules of an app, and when each comes next, by this machine's clock.

    Needs no server: what it shows is what the app says. Workers send the ticks, each of them once
    however many workers there are.

    \b
    holdfast crons shop.tasks:app
    holdfast crons shop.tasks:app -n 10 --json
    """
    # Here, since no other command should wait for these to be imported.
    from holdfast.worker.loading import load

    app = load(target)
    now = datetime.now(UTC)
    found = {name: list(islice(app.crons[name].after(now), count)) for name in sorted(app.crons)}
    if json:
        for name, ticks in found.items():
            cron = app.crons[name]
            output.emit(
                {
                    "cron": name,
                    "expression": cron.expression,
                    "tz": cron.tz.key,
                    "task": cron.task.name,
                    "queue": cron.task.definition.queue,
                    "missed": cron.missed,
                    "next": [tick.isoformat() for tick in ticks],
                }
            )
        return
    if not found:
        output.note(f"{target} has no schedules; write @app.cron over a task to give it one")
        return
    table = output.table("name", "expression", "tz", "task", "queue", "next", fold=("next",))
    for name, ticks in found.items():
        cron = app.crons[name]
        local = [tick.astimezone(cron.tz).strftime("%a %Y-%m-%d %H:%M:%S%z") for tick in ticks]
        queue = cron.task.definition.queue
        table.add_row(name, cron.expression, cron.tz.key, cron.task.name, queue, "\n".join(local))
    output.show(table)
