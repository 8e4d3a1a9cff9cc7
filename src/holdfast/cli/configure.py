"""holdfast configure: see the settings of a queue or topic, or change them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.text import Text

from holdfast.cli import durations, output
from holdfast.cli.options import Json, QueueName, Url, connected, pairs
from holdfast.errors import InvalidArgument
from holdfast.settings import Settings


def _whole(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InvalidArgument(f"{what}: {text!r} is not a whole number")
    return int(text)


def _flag(text: str, what: str) -> bool:
    word = text.lower()
    if word in ("on", "true", "yes", "1"):
        return True
    if word in ("off", "false", "no", "0"):
        return False
    raise InvalidArgument(f"{what}: {text!r} is neither on nor off")


# Setting → how its text is read, and what it does. `none` is read before.
_Table = dict[str, tuple[Callable[[str, str], Any], str]]
_SETTINGS: _Table = {
    "lease": (durations.seconds, "a delivery is its receiver's for so long; none: until settled"),
    "max_receives": (_whole, "failed deliveries until it is a dead letter; none: never"),
    "delay": (durations.seconds, "sent messages are ready only after so long"),
    "ttl": (durations.seconds, "messages nobody took are gone after so long; none: never"),
    "max_length": (_whole, "at most so many messages; none: no limit"),
    "overflow": (lambda text, what: text, "past max_length: reject, or drop_oldest"),
    "dedup_window": (durations.seconds, "a dedup id is remembered for so long"),
    "journal": (_flag, "keep what happens, for `holdfast events --journal`"),
    "journal_length": (_whole, "at most so many journal entries"),
    "aging": (durations.seconds, "waiting so long is worth one priority; none: never"),
    "group_limit": (_whole, "messages of one group in flight at once"),
    "shards": (_whole, "parts of the queue, spread over a cluster"),
}
_OF_TOPICS: _Table = {
    **{name: entry for name, entry in _SETTINGS.items() if name != "shards"},
    "peer_timeout": (
        durations.seconds,
        "a broadcast peer silent for so long gets nothing new, if its consumer has another",
    ),
    "retention": (durations.seconds, "what nobody observes is kept for so long; none: for ever"),
}


def configure(
    queue: QueueName,
    lease: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long a delivery is held.")
    ] = None,
    max_receives: Annotated[
        str | None, typer.Option(metavar="N", help="Failed deliveries until it is a dead letter.")
    ] = None,
    delay: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Messages are ready only after so long.")
    ] = None,
    ttl: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Messages nobody took are gone after it.")
    ] = None,
    max_length: Annotated[
        str | None, typer.Option(metavar="N", help="At most so many messages.")
    ] = None,
    journal: Annotated[
        str | None, typer.Option(metavar="on|off", help="Keep a record of what happens.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="NAME=VALUE", help="Any setting; repeatable."),
    ] = None,
    topic: Annotated[
        bool, typer.Option("--topic", help="QUEUE is a topic: it, and all its subscriptions.")
    ] = False,
    url: Url = None,
    json: Json = False,
) -> None:
    """Show a queue's settings, or change some; they are kept on the server, for all who use it.

    \b
    holdfast configure orders                              show all
    holdfast configure orders --lease 5m --max-receives 3
    holdfast configure orders --max-length 10000 --set overflow=drop_oldest
    holdfast configure orders --ttl none                   `none` clears
    holdfast configure prices --topic --set retention=1d
    """
    named = {
        "lease": lease,
        "max_receives": max_receives,
        "delay": delay,
        "ttl": ttl,
        "max_length": max_length,
        "journal": journal,
    }
    words = {name: text for name, text in named.items() if text is not None}
    words |= pairs(setting, "--set")
    changes = {name.replace("-", "_"): text for name, text in words.items()}
    known = _OF_TOPICS if topic else _SETTINGS
    parsed = {name: _read(name, text, known) for name, text in changes.items()}
    with connected(url) as client:
        q = client.topic(queue) if topic else client.queue(queue)
        fresh = not parsed and not q.stats().now
        found = q.configure(**parsed)
        # MQ.POP has a lease only where somebody has set one.
        pop_lease = found.lease if "lease" in q.own_settings() else None
    if json:
        values = {name: value for name, value in asdict(found).items() if name in known}
        if not topic:
            values["pop_lease"] = pop_lease
        output.emit({"topic" if topic else "queue": queue, **values})
        return
    _show(found, set(changes), known)
    if not topic and found.lease and pop_lease is None:
        output.note("nobody has set the lease: what MQ.POP takes is leased until settled")
    if fresh:
        output.note(f"defaults: nothing was ever sent to or set on {queue!r}")


def _read(name: str, text: str, known: _Table) -> Any:
    if name not in known:
        raise InvalidArgument(f"there is no setting {name!r}; there are: {', '.join(known)}")
    if text.lower() == "none":
        return None
    return known[name][0](text, name)


def _show(found: Settings, changed: set[str], known: _Table) -> None:
    made = output.table("setting", "value", "meaning", fold=("meaning",))
    for name, (read, meaning) in known.items():
        value = getattr(found, name)
        if value is None:
            shown = "none"
        elif read is durations.seconds:
            shown = durations.show(value) if value else "0"
        elif read is _flag:
            shown = "on" if value else "off"
        else:
            shown = f"{value:,}" if isinstance(value, int) else str(value)
        style = "bold green" if name in changed else ""
        made.add_row(Text(name, style), Text(shown, style), Text(meaning, "dim"))
    output.show(made)
