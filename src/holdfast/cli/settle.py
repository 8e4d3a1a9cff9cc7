"""holdfast ack, nack, extend, recover: what to do with deliveries that somebody has in hand."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from holdfast.cli import durations, output
from holdfast.cli.options import Json, Peer, QueueName, Receipts, Url, connected, existing
from holdfast.client._sync.client import Client
from holdfast.client._sync.queue import Queue
from holdfast.client._sync.subscription import Subscription
from holdfast.errors import InvalidArgument
from holdfast.message import parse_receipt

STALE = 3
_BATCH = 1000


Consumer = Annotated[
    str | None,
    typer.Option(
        metavar="ID",
        help="The name is a topic's, and this consumer observed it.",
        show_default=False,
    ),
]


def ack(
    queue: QueueName,
    receipts: Receipts,
    consumer: Consumer = None,
    peer: Peer = "",
    url: Url = None,
    json: Json = False,
) -> None:
    """Done: settle deliveries, so that their messages are gone for good.

    A receipt names one delivery: if its lease ended and the message went to somebody else, it is
    stale, nothing changes, and the exit status is 3. A bare id acks whichever delivery is current.

    \b
    holdfast ack orders 1599352749159-4@17
    holdfast receive orders -n 50 --json | jq -r .receipt | holdfast ack orders -
    holdfast ack prices 1599352749159-4@17 --consumer billing      what `observe` took
    """
    with connected(url) as client:
        _settle(receipts, _place(client, queue, consumer, peer).ack_many, "acked", json)


def nack(
    queue: QueueName,
    receipts: Receipts,
    delay: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Try again after so long.")
    ] = None,
    error: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What went wrong; kept if it dies of it.")
    ] = None,
    release: Annotated[
        bool, typer.Option("--release", help="Give back at once; does not count as a failure.")
    ] = False,
    bury: Annotated[
        str | None, typer.Option(metavar="REASON", help="Hopeless: straight to the dead letters.")
    ] = None,
    consumer: Consumer = None,
    peer: Peer = "",
    url: Url = None,
    json: Json = False,
) -> None:
    """Give deliveries back: to be tried again, which counts, or --release, or --bury REASON.

    After the queue's max_receives failed deliveries a message becomes a dead letter.

    \b
    holdfast nack orders 1599352749159-4@17                        again, at once
    holdfast nack orders 1599352749159-4@17 --delay 5m --error "bank is closed"
    holdfast nack orders 1599352749159-4@17 --release              as if never taken
    holdfast nack orders 1599352749159-4@17 --bury "no such customer"
    """
    retry = delay is not None or error is not None
    if retry + release + (bury is not None) > 1:
        raise InvalidArgument("give --release, or --bury, or --delay and --error: one of the three")
    seconds = durations.seconds(delay or "0", "--delay")
    with connected(url) as client:
        q = _place(client, queue, consumer, peer)
        if release:
            _settle(receipts, q.release_many, "released", json)
        elif bury is not None:
            _settle(receipts, lambda some: q.bury_many(some, bury), "buried", json)
        else:
            _settle(
                receipts,
                lambda some: q.nack_many(some, delay=seconds, error=error or ""),
                "nacked",
                json,
            )


def extend(
    queue: QueueName,
    receipts: Receipts,
    lease: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="The lease ends so long from now; 0: give it back, none: until settled.",
        ),
    ],
    consumer: Consumer = None,
    peer: Peer = "",
    url: Url = None,
    json: Json = False,
) -> None:
    """More time: move the end of leases that you hold.

    \b
    holdfast extend orders 1599352749159-4@17 --lease 10m
    holdfast extend orders 1599352749159-4@17 --lease 0            ends it: a failed delivery
    holdfast extend orders 1599352749159-4@17 --lease none         until it is settled
    """
    seconds = durations.end_of_lease(lease, "--lease")
    with connected(url) as client:
        q = _place(client, queue, consumer, peer)
        _settle(receipts, lambda some: q.extend_many(some, seconds), "extended", json)


def _place(client: Client, name: str, consumer: str | None, peer: str) -> Queue | Subscription:
    if consumer is not None:
        return client.topic(name).subscription(consumer, peer=peer)
    if peer:
        raise InvalidArgument("--peer is one of a consumer's: give --consumer too")
    return client.queue(name)


def recover(
    queue: QueueName,
    elapsed: Annotated[
        str, typer.Option(metavar="DURATION", help="What was taken so long ago, or earlier.")
    ],
    url: Url = None,
    json: Json = False,
) -> None:
    """Give back what somebody took long ago and did not settle: it is ready again, at the head.

    For messages that were taken without a lease (MQ.POP), which do not come back by themselves. Each
    counts as a failed delivery; past max_receives it becomes a dead letter. Whoever still works on one of
    them can no longer settle it by its receipt.

    \b
    holdfast recover orders --elapsed 1h
    """
    seconds = durations.seconds(elapsed, "--elapsed")
    with connected(url) as client:
        q = existing(client, queue)
        before, back = q.stats(), 0
        while got := q.recover(_BATCH, elapsed=seconds, lease=60):
            back += len(q.release_many(got))
        dead = q.stats().buried - before.buried
    if json:
        output.emit({"queue": queue, "recovered": back, "dead": dead})
    else:
        became = f"; {output.several(dead, 'message')} became dead letters" if dead else ""
        output.say(f"gave {output.several(back, 'message')} back to {queue!r}{became}")


def _settle(
    given: list[str], settle: Callable[[list[str]], list[str]], verb: str, as_json: bool
) -> None:
    """All of them, a thousand at a time; says which were really settled."""
    done: list[str] = []
    stale: list[str] = []
    for batch in _batches(given):
        for receipt in batch:
            parse_receipt(receipt)  # all of a batch are right, or none of it is touched
        settled = set(settle(batch))
        done += [receipt for receipt in batch if receipt in settled]
        stale += [receipt for receipt in batch if receipt not in settled]
    if as_json:
        output.emit({verb: done, "stale": stale})
    else:
        for receipt in done:
            output.say(f"{verb} {receipt}")
        for receipt in stale:
            output.note(
                f"stale {receipt}: already settled, or its lease ended; nothing changed",
                style="yellow",
            )
    if stale:
        raise typer.Exit(STALE)


def _batches(given: list[str]) -> Iterator[list[str]]:
    seen: dict[str, None] = {}
    for receipt in _words(given):
        seen[receipt] = None
        if len(seen) >= _BATCH:
            yield list(seen)
            seen = {}
    if seen:
        yield list(seen)


def _words(given: list[str]) -> Iterator[str]:
    for word in given:
        if word == "-":
            yield from (line.strip() for line in sys.stdin if line.strip())
        else:
            yield word
