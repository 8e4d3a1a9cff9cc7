"""holdfast events: what happens on a queue, as it happens, or from its journal."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from holdfast.cli import durations, output
from holdfast.cli.options import Json, QueueName, Url, connected, existing
from holdfast.engine.notes import KINDS, Event
from holdfast.errors import InvalidArgument

_STYLES = {
    "sent": "green",
    "acked": "blue",
    "requeued": "yellow",
    "dead": "red",
    "redriven": "cyan",
}


def events(
    queue: QueueName,
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", "-k", metavar="KIND", help=f"Only {', '.join(KINDS.values())}."),
    ] = None,
    journal: Annotated[
        int | None,
        typer.Option(metavar="N", help="The last N entries of the journal, instead of live."),
    ] = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Follow what happens to messages, live; Ctrl-C ends it. --journal shows the past instead.

    The journal is kept where it is switched on: `holdfast configure QUEUE --journal on`.

    \b
    holdfast events orders
    holdfast events orders --kind dead --kind requeued
    holdfast events orders --journal 100
    holdfast events orders --json | jq -r 'select(.kind == "dead") | .id'
    """
    wanted = frozenset(kind or ())
    unknown = sorted(wanted - set(KINDS.values()))
    if unknown:
        raise InvalidArgument(
            f"there is no event {unknown[0]!r}; there are: {', '.join(KINDS.values())}"
        )
    with connected(url) as client:
        if journal is None:
            with client.queue(queue).events(*wanted) as happening:
                if not json:
                    output.note(f"listening to {queue!r}; Ctrl-C ends it")
                for event in happening:
                    _print(event, json)
            return
        q = existing(client, queue)
        found = [e for e in q.journal(journal) if not wanted or e.kind in wanted]
        for event in found:
            _print(event, json)
        if not found and not json and not q.settings().journal:
            output.note(
                f"the journal of {queue!r} is off; switch it on with "
                f"`holdfast configure {queue} --journal on`"
            )


def _print(event: Event, as_json: bool) -> None:
    if as_json:
        output.emit(output.event_json(event))
    else:
        clock = f"{event.time.astimezone():%H:%M:%S.%f}"[:-3]
        line = Text.assemble((clock, "dim"))
        line.append(f"  {event.kind:<13}", _STYLES.get(event.kind, ""))
        line.append(f"  {event.id}  {_details(event)}".rstrip())
        output.console().print(line, soft_wrap=True)
    output.flush()


def _details(event: Event) -> str:
    said = [f"{event.size:,} bytes"]
    if event.priority:
        said.append(f"priority {event.priority}")
    if event.receives:
        said.append(f"failed {event.receives}×")
    if event.lease:
        said.append(f"lease {durations.show(event.lease)}")
    if event.due:
        said.append(f"due {durations.clock(event.due)}")
    if event.reason:
        said.append(output.preview(event.reason.encode()))
    return "  ".join(said)
