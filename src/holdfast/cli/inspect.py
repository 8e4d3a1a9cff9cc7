"""holdfast inspect: look at messages where they are; only --remove changes anything."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from holdfast.cli import durations, output
from holdfast.cli.options import Json, QueueName, Url, Yes, confirm, connected, existing
from holdfast.client._sync.queue import Queue
from holdfast.engine import calls
from holdfast.errors import InvalidArgument, NoSuchMessage
from holdfast.message import STATES, Message, State


def inspect(
    queue: QueueName,
    state: Annotated[
        str | None,
        typer.Argument(
            metavar="[STATE]", help="ready, delayed, leased, reserved or dead; all, if not given."
        ),
    ] = None,
    start: Annotated[
        int | None, typer.Option(help="From this position; negative: from the end. Needs a STATE.")
    ] = None,
    count: Annotated[
        int, typer.Option("--count", "-n", help="At most so many, of each state.")
    ] = 10,
    group: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only what waits in this group.")
    ] = None,
    id_: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="This message, with all there is to know."),
    ] = None,
    remove: Annotated[
        str | None, typer.Option(metavar="ID", help="Take this message away, whatever its state.")
    ] = None,
    yes: Yes = False,
    url: Url = None,
    json: Json = False,
) -> None:
    """Look at messages without touching them, in the order in which they would go out.

    \b
    holdfast inspect orders                    the first ten of each state
    holdfast inspect orders dead -n 100        why they died
    holdfast inspect orders ready --start -5   the last five
    holdfast inspect orders --id 1599352749159-4
    holdfast inspect orders --remove 1599352749159-4
    """
    if id_ is not None and remove is not None:
        raise InvalidArgument("give --id or --remove, not both")
    with connected(url) as client:
        q = existing(client, queue)
        if remove is not None:
            _remove(q, remove, yes, json)
        elif id_ is not None:
            _show_one(_found(q, id_), json)
        else:
            found = _look(q, state, start, count, group)
            if json:
                for message in found:
                    output.emit(output.message_json(message))
            elif found:
                _show(found)
                _say_how_many(q, state, len(found), group)
            else:
                output.note(f"no {state + ' ' if state else ''}messages in {queue!r}")


def _look(
    q: Queue, state: str | None, start: int | None, count: int, group: str | None
) -> list[Message]:
    if group is not None and state not in (None, "ready"):
        raise InvalidArgument(f"--group is for ready messages; leave {state!r} out")
    if start is not None and state is None and group is None:
        raise InvalidArgument("--start needs a STATE: positions are counted within one")
    wanted: tuple[State, ...] = STATES
    if state is not None or group is not None:
        wanted = (calls.state(state or "ready"),)
    found: list[Message] = []
    for each in wanted:
        found += q.inspect(each, start or 0, count, group=group)
    return found


def _found(q: Queue, message_id: str) -> Message:
    message = q.get(message_id)
    if message is None:
        raise NoSuchMessage(
            f"no message {message_id} in {q.name!r}: it was acked, expired, removed or never sent"
        )
    return message


def _remove(q: Queue, message_id: str, yes: bool, as_json: bool) -> None:
    message = _found(q, message_id)
    confirm(f"remove the {message.state} message {message_id} from {q.name!r}", yes=yes)
    if not q.remove(message_id):
        _found(q, message_id)
    if as_json:
        output.emit({"removed": message_id})
    else:
        output.say(f"removed {message_id}")


# ---- how it looks -------------------------------------------------------------------------


def _when(message: Message) -> str:
    """What time means for it: since when it waits, when it falls due, when its lease ends."""
    if message.death:
        return f"died {durations.ago(message.death.at)}"
    if message.state == "delayed" and message.due:
        return f"due {durations.ahead(message.due)}"
    if message.state == "leased":
        until = message.lease_until
        return f"lease ends {durations.ahead(until)}" if until else "leased until settled"
    return f"sent {durations.ago(message.sent_at)}"


def _why(message: Message) -> str:
    death = message.death
    if death is None:
        return ""
    return f"{death.reason}: {death.error}" if death.error else death.reason


def _show(found: list[Message]) -> None:
    died, grouped = any(m.death for m in found), any(m.group for m in found)
    columns = ["id", "state", "pri", "receives", "when"]
    columns += ["group"] * grouped + ["body"] + ["died of"] * died
    made = output.table(*columns, right=("pri", "receives"), fold=("died of",))
    for m in found:
        row: list[str | Text] = [m.id, Text(m.state, output.STYLES[m.state]), str(m.priority)]
        row += [str(m.receives), _when(m)]
        row += [output.preview((m.group or "").encode())] * grouped
        row += [output.preview(m.body, 60)]
        row += [output.preview(_why(m).encode())] * died
        made.add_row(*row)
    output.show(made)


def _say_how_many(q: Queue, state: str | None, shown: int, group: str | None) -> None:
    now = q.stats()
    total = getattr(now, state) if state else now.total
    if shown < total and group is None:
        output.note(f"{shown} of {total:,}; --count shows more")


def _show_one(message: Message, as_json: bool) -> None:
    if as_json:
        output.emit(output.message_json(message))
        return
    rows: list[tuple[str, str]] = [
        ("id", message.id),
        ("state", message.state),
        ("when", _when(message)),
        ("sent", f"{durations.clock(message.sent_at)}, {durations.ago(message.sent_at)}"),
        ("priority", str(message.priority)),
        ("receives", str(message.receives)),
    ]
    rows += [("group", message.group)] if message.group else []
    rows += [("expires", durations.ahead(message.expires_at))] if message.expires_at else []
    rows += [(f"attribute {name}", value) for name, value in message.attributes.items()]
    if message.death:
        rows += [("died of", message.death.reason)]
        rows += [("last error", message.death.error)] if message.death.error else []
    rows += [(f"body, {message.size:,} bytes", output.safe(message.body))]
    made = Table.grid(padding=(0, 2))
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in rows:
        made.add_row(name, output.safe(value.encode()))
    output.show(made)
