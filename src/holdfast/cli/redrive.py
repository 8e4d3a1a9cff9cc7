"""holdfast redrive: dead letters get another life."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from holdfast.cli import durations, output
from holdfast.cli.options import Json, QueueName, Url, connected, existing, pairs
from holdfast.message import Message

NOT_DEAD = 3


def redrive(
    queue: QueueName,
    count: Annotated[int | None, typer.Option("--count", "-n", help="At most so many.")] = None,
    id_: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="Only these; repeatable.")
    ] = None,
    reason: Annotated[
        str | None, typer.Option(metavar="PREFIX", help="Only those that died of this.")
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option("--attribute", "-a", metavar="NAME=VALUE", help="Only those that have it."),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(metavar="N", help="So many a second, not all at once.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which.")] = False,
    url: Url = None,
    json: Json = False,
) -> None:
    """Make dead letters ready again, as if never tried, in the order in which they died.

    \b
    holdfast redrive orders                            all of them
    holdfast redrive orders --count 1                  try one first
    holdfast redrive orders --reason max_receives --rate 10
    holdfast redrive orders --attribute country=NL --dry-run
    """
    ids = list(dict.fromkeys(id_)) if id_ else None
    where = _filter(reason, pairs(attribute, "--attribute"))
    with connected(url) as client:
        q = existing(client, queue)
        moved = q.redrive(count, ids=ids, where=where, rate=rate, dry_run=dry_run)
        # What a filter or the count left out is no surprise; what was never dead is.
        missing = [] if ids is None or where or count else [i for i in ids if i not in set(moved)]
    if json:
        output.emit(
            {
                "queue": queue,
                "redriven": [] if dry_run else moved,
                "would_redrive": moved if dry_run else [],
                "not_dead": missing,
            }
        )
    else:
        _say(queue, moved, rate, dry_run)
        for i in missing:
            output.note(f"not a dead letter: {i}", style="yellow")
    if missing:
        raise typer.Exit(NOT_DEAD)


def _filter(reason: str | None, wanted: dict[str, str]) -> Callable[[Message], bool] | None:
    if reason is None and not wanted:
        return None

    def fits(message: Message) -> bool:
        if reason is not None and not (message.death and message.death.reason.startswith(reason)):
            return False
        return not wanted or wanted.items() <= message.attributes.items()

    return fits


def _say(queue: str, moved: list[str], rate: float | None, dry_run: bool) -> None:
    letters = f"{output.several(len(moved), 'dead letter')} of {queue!r}"
    if dry_run:
        for i in moved:
            output.say(i)
        output.note(f"would redrive {letters}; nothing was changed")
        return
    if rate and len(moved) > 1:
        letters += f", {rate:g} a second: the last is ready in {durations.show(len(moved) / rate)}"
    output.say(f"redrove {letters}")
