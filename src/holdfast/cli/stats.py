"""holdfast stats: how many messages are where, once or live with rates."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast.cli import durations, output, unended
from holdfast.cli.options import Json, Url, connected, existing
from holdfast.client._sync.client import Client
from holdfast.engine.replies import Stats
from holdfast.errors import InvalidArgument
from holdfast.message import STATES

_COUNTERS = ("sent", "received", "acked", "requeued")
_RATES = ("sent", "received", "acked")
# Of use to the engine alone.
_INTERNAL = ("last_ms", "last_seq", "now", "paused_until", "next_due", "oldest_ready")


def stats(
    queue: Annotated[
        list[str] | None,
        typer.Argument(metavar="[QUEUE…]", help="These queues; all, if none is named."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Keep looking; Ctrl-C ends it.")
    ] = False,
    every: Annotated[str, typer.Option(metavar="DURATION", help="How often --watch looks.")] = "1",
    url: Url = None,
    json: Json = False,
) -> None:
    """How many messages are in which state, and what has happened so far.

    \b
    holdfast stats                     all queues
    holdfast stats orders --watch      live, with rates per second
    holdfast stats --json | jq 'select(.dead > 0) | .queue'
    """
    pause = durations.seconds(every, "--every")
    if pause < 0.05:
        raise InvalidArgument("--every: look at most 20 times a second (0.05)")
    names = queue or []
    with connected(url) as client:
        for name in names:
            existing(client, name)
        if not watch:
            _once(client, names, json)
        elif json or not sys.stdout.isatty():
            _stream(client, names, pause, json)
        else:
            _live(client, names, pause)


Snapshot = dict[str, Stats]


def _look(client: Client, names: list[str], said: set[str] | None = None) -> Snapshot:
    """What there is to see. Of one that cannot be read it is said why, once."""
    found, unreadable = client.all_stats(names or None)
    said = set() if said is None else said
    for name in set(unreadable) - said:
        said.add(name)
        output.note(f"{name!r} cannot be read: {unreadable[name]}", style="yellow")
    return found


def _once(client: Client, names: list[str], as_json: bool) -> None:
    now = _look(client, names)
    if as_json:
        for name, found in now.items():
            output.emit(_as_json(name, found))
    elif now:
        output.show(_table(now, {}))
        for line in unended.lines(client, now):
            output.note(line, style="yellow")
    else:
        output.note("no queues yet; `holdfast send QUEUE BODY` makes one")


def _stream(client: Client, names: list[str], pause: float, as_json: bool) -> None:
    before: Snapshot = {}
    said: set[str] = set()
    while True:
        now = _look(client, names, said)
        for name, found in now.items():
            rates = _rates(found, before.get(name))
            if as_json:
                output.emit(_as_json(name, found) | {"rates": rates})
            else:
                counts = [f"{s} {getattr(found, s)}" for s in STATES]
                counts += [f"{name} {rate:.0f}/s" for name, rate in rates.items()]
                output.say(f"{name}  " + "  ".join(counts))
        output.flush()
        before = now
        time.sleep(pause)


def _live(client: Client, names: list[str], pause: float) -> None:
    before: Snapshot = {}
    said: set[str] = set()
    with Live(console=output.console(), auto_refresh=False) as live:
        while True:
            now = _look(client, names, said)
            hint = Text(f"every {durations.show(pause)}; Ctrl-C ends it", "dim")
            live.update(Group(_table(now, before, rates=True), hint), refresh=True)
            before = now
            time.sleep(pause)


def _rates(now: Stats, before: Stats | None) -> dict[str, float]:
    """Per second, by the server's clock."""
    passed = (now.now - before.now) / 1000 if before else 0.0
    if before is None or passed <= 0:
        return dict.fromkeys(_RATES, 0.0)
    # A queue deleted and made again in between counts from zero.
    return {
        name: round(max(getattr(now, name) - getattr(before, name), 0) / passed, 1)
        for name in _RATES
    }


def _as_json(name: str, found: Stats) -> dict[str, Any]:
    fields = {key: value for key, value in asdict(found).items() if key not in _INTERNAL}
    return {
        "queue": name,
        **fields,
        "total": found.total,
        "paused": found.paused,
        "oldest_age": round(found.oldest_age, 3),
    }


def _table(now: Snapshot, before: Snapshot, *, rates: bool = False) -> Table:
    tail = tuple(f"{name}/s" for name in _RATES) if rates else _COUNTERS
    made = output.table("queue", *STATES, "oldest", *tail, right=(*STATES, "oldest", *tail))
    for name, found in now.items():
        title = Text(output.preview(name.encode()))
        if found.paused:
            title.append(" (paused)", "yellow")
        cells: list[Text] = []
        for state in STATES:
            n = getattr(found, state)
            cells.append(Text(f"{n:,}", output.STYLES[state] if n else "dim"))
        cells.append(Text(durations.show(found.oldest_age) if found.oldest_ready else "", "dim"))
        if rates:
            speeds = _rates(found, before.get(name))
            cells += [
                Text(f"{speeds[each]:,.0f}", "" if speeds[each] else "dim") for each in _RATES
            ]
        else:
            cells += [Text(f"{getattr(found, each):,}") for each in _COUNTERS]
        made.add_row(title, *cells)
    return made
