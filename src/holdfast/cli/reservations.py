"""holdfast reservations: what Spark's queries hold, and how to give it back when one is gone for good."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from holdfast.cli import durations, output
from holdfast.cli.options import Json, Peer, QueueName, Url, Yes, confirm, connected, existing
from holdfast.client._sync.client import Client
from holdfast.client._sync.place import Place
from holdfast.client._sync.topic import Topic
from holdfast.engine.replies import SubscriptionInfo
from holdfast.engine.reserving import Reservation
from holdfast.errors import ReservationLost, WrongType

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Messages that readers of the Spark source hold: reserved until their batch is done.",
)

Consumer = Annotated[
    str | None,
    typer.Option(
        "--subscription", metavar="CONSUMER", help="QUEUE is a topic; of this subscription of it."
    ),
]


@app.command("list")
def list_(
    queue: Annotated[
        str | None, typer.Argument(metavar="[QUEUE]", help="Of this queue.", show_default="all")
    ] = None,
    subscription: Consumer = None,
    peer: Peer = "",
    url: Url = None,
    json: Json = False,
) -> None:
    """Show reservations: who holds how many messages, since when.

    A reader is one query: its owner's name is in its checkpoint. Each of its batches is a reservation,
    numbered by seq, with a part on each shard of the queue.

    \b
    holdfast reservations list
    holdfast reservations list orders --json
    """
    with connected(url) as client:
        if queue is None:
            places = list(_everywhere(client))
        else:
            places = [(queue, _place(client, queue, subscription, peer))]
        found = [(name, held) for name, place in places for held in _reservations(name, place)]
    if json:
        for name, held in found:
            output.emit(_as_json(name, held))
        return
    if not found:
        output.note("nothing is reserved")
        return
    columns = ("queue", "owner", "seq", "shard", "messages", "sealed", "since", "ends")
    table = output.table(*columns, right=("seq", "shard", "messages"), fold=("owner",))
    for name, held in found:
        ends = durations.ahead(held.ends) if held.ends else "never"
        table.add_row(
            name,
            held.owner,
            str(held.seq),
            str(held.shard),
            f"{held.rows:,}",
            "yes" if held.sealed else "no",
            durations.ago(held.since),
            ends,
        )
    output.show(table)


@app.command()
def release(
    queue: QueueName,
    owner: Annotated[str, typer.Argument(metavar="OWNER", help="Whose, as `list` shows it.")],
    seq: Annotated[
        int | None, typer.Argument(metavar="[SEQ]", help="Which.", show_default="all", min=1)
    ] = None,
    subscription: Consumer = None,
    peer: Peer = "",
    yes: Yes = False,
    url: Url = None,
    json: Json = False,
) -> None:
    """Give reserved messages back: they are ready again, before all others.

    For a query that will never be started again, because its checkpoint is gone. Its last batch may
    have reached its target already: such messages will be processed twice. A query that still runs, or
    is started again, fails: it cannot have these messages any more.

    \b
    holdfast reservations release orders spark-5f0c… --yes
    holdfast reservations release prices spark-5f0c… 7 --subscription billing
    """
    with connected(url) as client:
        place = _place(client, queue, subscription, peer)
        held = [r for r in place.reservations() if r.owner == owner and seq in (None, r.seq)]
        if not held:
            which = f"{owner}/{seq}" if seq else f"{owner!r}"
            raise ReservationLost(
                f"there is no reservation of {which} in {queue!r}; see `holdfast reservations list`"
            )
        rows = output.several(sum(r.rows for r in held), "message")
        if not yes:
            output.note(
                "the batch may have reached its target already, and a query that uses this "
                "reservation will fail",
                style="yellow",
            )
        confirm(f"give {rows} of {owner} back to {queue!r}", yes=yes)
        gone = place.release_reserved(owner, seq)
    if json:
        output.emit({"queue": queue, "owner": owner, "seq": seq, "released": gone})
    else:
        output.say(f"gave {output.several(gone, 'message')} back to {queue!r}")


def _place(client: Client, queue: str, subscription: str | None, peer: str) -> Place:
    if subscription is not None:
        return client.topic(queue).subscription(subscription, peer=peer)
    return existing(client, queue)


def _reservations(name: str, place: Place) -> list[Reservation]:
    """Of one that cannot be read it is said why, and the others are shown."""
    try:
        return place.reservations()
    except WrongType as error:
        output.note(f"{name!r} cannot be read: {error}", style="yellow")
        return []


def _subscriptions(topic: Topic) -> list[SubscriptionInfo]:
    try:
        return topic.subscriptions()
    except WrongType as error:
        output.note(f"topic {topic.name!r} cannot be read: {error}", style="yellow")
        return []


def _everywhere(client: Client) -> Iterator[tuple[str, Place]]:
    for name in client.queues():
        yield name, client.queue(name)
    for name in client.topics():
        topic = client.topic(name)
        for info in _subscriptions(topic):
            label = f"{name}/{info.consumer}" + (f"/{info.peer}" if info.peer else "")
            yield label, topic.subscription(info.consumer, peer=info.peer or "")


def _as_json(name: str, held: Reservation) -> dict[str, str | int | bool | None]:
    return {
        "queue": name,
        "owner": held.owner,
        "seq": held.seq,
        "shard": held.shard,
        "messages": held.rows,
        "sealed": held.sealed,
        "since": held.since.isoformat(timespec="milliseconds"),
        "ends": held.ends.isoformat(timespec="milliseconds") if held.ends else None,
    }
