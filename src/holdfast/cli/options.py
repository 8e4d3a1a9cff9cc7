"""What the commands share: options, the connection, questions to the user."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.errors import InvalidArgument, NoSuchQueue

if TYPE_CHECKING:
    from holdfast.client._sync.client import Client
    from holdfast.client._sync.queue import Queue
    from holdfast.client.safety import Check

# A person waits for this; a server that fails over is usually back by then.
RETRY_SECONDS = 5.0


def _given_before(context: typer.Context, parameter: Any, value: Any) -> Any:
    """`holdfast --json stats` means the same as `holdfast stats --json`."""
    root = context.find_root()
    return value or root.params.get(parameter.name) if root is not context else value


def _url(context: typer.Context, parameter: Any, value: str | None) -> str | None:
    return _given_before(context, parameter, value) or os.environ.get("HOLDFAST_URL") or None


Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        callback=_url,
        help="The server, e.g. redis://localhost:6379; or HOLDFAST_URL, where `ps` cannot see a "
        "password. Neither: the embedded server in HOLDFAST_HOME or ./.holdfast.",
        show_default=False,
    ),
]
Json = Annotated[
    bool,
    typer.Option("--json", callback=_given_before, help="JSON for scripts, one object per line."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.")]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
ConsumerId = Annotated[str, typer.Argument(metavar="CONSUMER", help="The consumer's id.")]
Peer = Annotated[
    str, typer.Option(metavar="NAME", help="Which of the consumer's peers.", show_default=False)
]
Receipts = Annotated[
    list[str],
    typer.Argument(metavar="RECEIPT…", help="Receipts or message ids; - reads one per line."),
]


@contextmanager
def connected(
    url: str | None, *, retry_for: float = RETRY_SECONDS, check: Check = "warn"
) -> Iterator[Client]:
    from holdfast.client._sync.client import Client  # `--help` needs none

    with Client(url, retry_for=retry_for, check=check) as client:
        yield client


def existing(client: Client, name: str) -> Queue:
    """The queue of that name. Raises NoSuchQueue, with a guess at what was meant."""
    queue = client.queue(name)
    if queue.stats().now:
        return queue
    known = client.queues()
    close = get_close_matches(name, known, n=1)
    if close:
        hint = f"did you mean {close[0]!r}?"
    elif known:
        hint = "`holdfast queues` lists those there are"
    else:
        hint = "there are no queues yet; `holdfast send` makes one"
    raise NoSuchQueue(f"there is no queue {name!r}; {hint}")


def confirm(action: str, *, yes: bool) -> None:
    """Goes on if the user says so; ends quietly if not. Raises InvalidArgument where nobody can
    be asked."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidArgument(f"nobody is there to ask: say --yes to {action}")
    # Not typer.confirm: it leaves a blank on stdout, which may be a pipe.
    print(f"{action[:1].upper()}{action[1:]}? [y/N]: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise typer.Exit(1)


def pairs(given: list[str] | None, option: str) -> dict[str, str]:
    """name=value, repeated, as a dict. Raises InvalidArgument."""
    found: dict[str, str] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidArgument(f"{option}: {text!r} is not name=value")
        found[name] = value
    return found
