"""holdfast queues, purge, delete, pause, resume: whole queues at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from holdfast.cli import durations, output
from holdfast.cli.options import Json, QueueName, Url, Yes, confirm, connected, existing
from holdfast.client._sync.queue import Queue
from holdfast.engine import calls
from holdfast.errors import InvalidArgument


def queues(url: Url = None, json: Json = False) -> None:
    """The names of all queues, one per line.

    \b
    holdfast queues
    holdfast queues | xargs -n1 holdfast pause
    """
    with connected(url) as client:
        names = client.queues()
    if json:
        output.emit({"queues": names})
        return
    for name in names:
        output.say(name)
    if not names:
        output.note("no queues yet; `holdfast send QUEUE BODY` makes one")


def purge(
    queue: QueueName,
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATE", help="Only ready, delayed, leased, reserved or dead; repeatable."
        ),
    ] = None,
    yes: Yes = False,
    url: Url = None,
    json: Json = False,
) -> None:
    """Throw messages away; the queue and its settings stay.

    \b
    holdfast purge orders --state dead     the dead letters
    holdfast purge orders --yes            everything, without a question
    """
    states = [calls.state(s) for s in state or []]
    with connected(url) as client:
        q = existing(client, queue)
        now = q.stats()
        n = sum(getattr(now, s) for s in set(states)) if states else now.total
        which = " and ".join(dict.fromkeys(states)) + " " if states else ""
        confirm(f"throw away {_messages(n, which)} of {queue!r}", yes=yes)
        gone = q.purge(*states)
    if json:
        output.emit({"queue": queue, "purged": gone})
    else:
        output.say(f"purged {_messages(gone, which)} of {queue!r}")


def delete(queue: QueueName, yes: Yes = False, url: Url = None, json: Json = False) -> None:
    """Delete a queue: its messages, whatever their state, its settings, counters and journal.

    \b
    holdfast delete orders
    """
    with connected(url) as client:
        q = existing(client, queue)
        n = q.stats().total
        confirm(f"delete {queue!r} with {_messages(n)} in it", yes=yes)
        q.delete()
    if json:
        output.emit({"deleted": queue, "messages": n})
    else:
        output.say(f"deleted {queue!r} and {_messages(n)}")


def pause(
    queue: QueueName,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="Only for so long.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only until then (ISO 8601).")
    ] = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Hand nothing out until `holdfast resume`, or for a time; sending goes on as usual.

    \b
    holdfast pause orders
    holdfast pause orders --for 10m
    holdfast pause orders --until 2030-01-31T09:00
    """
    if for_ is not None and until is not None:
        raise InvalidArgument("give --for or --until, not both")
    end: datetime | None = None
    if for_ is not None:
        length = durations.seconds(for_, "--for")
        try:
            end = datetime.now(UTC) + timedelta(seconds=length)
        except OverflowError:
            raise InvalidArgument(f"--for: {for_!r} is too long") from None
    elif until is not None:
        end = durations.moment(until, "--until")
        if end <= datetime.now(UTC):
            raise InvalidArgument(f"--until: {until!r} is past")
    with connected(url) as client:
        q = client.queue(queue)
        fresh = not q.stats().now
        q.pause(length if for_ is not None else end)
        now = _as_of_now(q)
    if json:
        output.emit({"queue": queue, "paused": now, "until": end.isoformat() if end else None})
        return
    ends = (
        f"until {durations.clock(end)} ({durations.ahead(end)})" if end else "until you resume it"
    )
    output.say(f"{queue!r} is paused {ends}")
    if fresh:
        output.note(f"nothing was ever sent to {queue!r}: is the name right?", style="yellow")


def resume(queue: QueueName, url: Url = None, json: Json = False) -> None:
    """Hand messages out again.

    \b
    holdfast resume orders
    """
    with connected(url) as client:
        q = existing(client, queue)
        was = _as_of_now(q)
        q.resume()
    if json:
        output.emit({"queue": queue, "paused": False, "was_paused": was})
    else:
        output.say(f"{queue!r} is resumed" if was else f"{queue!r} was not paused")


def _as_of_now(q: Queue) -> bool:
    return q.stats().paused


def _messages(n: int, which: str = "") -> str:
    return output.several(n, f"{which}message")
