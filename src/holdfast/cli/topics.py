"""holdfast topics, subscribe, unsubscribe, subscriptions: who gets what."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, cast

import typer

from holdfast.cli import durations, output
from holdfast.cli.options import ConsumerId, Json, Peer, TopicName, Url, Yes, confirm, connected
from holdfast.client._sync.client import Client
from holdfast.client._sync.subscription import Subscription
from holdfast.client._sync.topic import Topic
from holdfast.engine.replies import Mode, SubscriptionInfo
from holdfast.errors import InvalidArgument, NoSuchQueue, NoSuchSubscription
from holdfast.filters import Filter
from holdfast.message import STATES


def topics(url: Url = None, json: Json = False) -> None:
    """The names of all topics, one per line.

    \b
    holdfast topics
    holdfast topics | xargs -n1 holdfast subscriptions
    """
    with connected(url) as client:
        names = client.topics()
    if json:
        output.emit({"topics": names})
        return
    for name in names:
        output.say(name)
    if not names:
        output.note("no topics yet; `holdfast publish TOPIC BODY` makes one")


def subscribe(
    topic: TopicName,
    consumer: ConsumerId,
    peer: Peer = "",
    mode: Annotated[
        str,
        typer.Option(
            metavar="MODE", help="broadcast: each peer gets all; shared: peers share them."
        ),
    ] = "broadcast",
    filter: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Only messages whose attributes match."),
    ] = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Keep what is published from now on for this consumer, until it acks it.

    The first to subscribe gets what the topic has held. Doing it again changes nothing but the
    filter.

    \b
    holdfast subscribe prices billing
    holdfast subscribe prices workers --mode shared --peer w1
    holdfast subscribe prices dash --peer tab-2
    holdfast subscribe prices vips --filter '{"attribute": "vip", "exists": true}'

    A filter is an attribute with equals, in, prefix or exists; or {"all": […]} or {"any": […]} of
    filters.
    """
    try:
        wanted = Filter.from_json(filter) if filter is not None else None
    except InvalidArgument as error:
        raise InvalidArgument(f"--filter: {error}") from error
    with connected(url) as client:
        seat = client.topic(topic).subscribe(
            consumer, peer=peer, mode=cast("Mode", mode), filter=wanted
        )
        waiting = seat.stats().ready
    if json:
        output.emit({"topic": topic, "consumer": consumer, "peer": peer, "ready": waiting})
        return
    output.say(f"{_who(consumer, peer)} is subscribed to {topic!r}")
    if waiting:
        output.note(f"{output.several(waiting, 'message')} waiting for it")


def unsubscribe(
    topic: TopicName,
    consumer: ConsumerId,
    peer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this peer; else all of them.")
    ] = None,
    yes: Yes = False,
    url: Url = None,
    json: Json = False,
) -> None:
    """Give a subscription up, with what was not acked.

    What a topic's last subscription had goes back to the topic, for whoever subscribes next.

    \b
    holdfast unsubscribe prices billing
    holdfast unsubscribe prices dash --peer tab-2 --yes
    """
    with connected(url) as client:
        found = existing_topic(client, topic)
        who = _who(consumer, peer or "")
        mine = [i for i in found.subscriptions() if i.consumer == consumer]
        if peer is not None:
            mine = [i for i in mine if peer in [p.name for p in i.peers]]
        if not mine:
            raise NoSuchSubscription(
                f"{who} is not subscribed to {topic!r}; `holdfast subscriptions` lists those who are"
            )
        left = sum(_seat(found, info).stats().total for info in mine)
        if left:
            confirm(f"unsubscribe {who}, with {output.several(left, 'message')}", yes=yes)
        found.unsubscribe(consumer, peer=peer)
    if json:
        output.emit({"topic": topic, "unsubscribed": consumer, "peer": peer})
    else:
        output.say(f"{who} is not subscribed to {topic!r} any more")


def subscriptions(topic: TopicName, url: Url = None, json: Json = False) -> None:
    """Who is subscribed to a topic, what waits for each, and when each was last seen.

    \b
    holdfast subscriptions prices
    holdfast subscriptions prices --json | jq -r 'select(.ready > 1000).consumer'
    """
    with connected(url) as client:
        found = existing_topic(client, topic)
        rows = [(info, _seat(found, info).stats()) for info in found.subscriptions()]
        held = found.stats().total
    if json:
        for info, stats in rows:
            states = {s: getattr(stats, s) for s in STATES}
            output.emit(_subscription_json(info) | states)
        return
    if not rows:
        output.note(
            f"nobody is subscribed to {topic!r}; it holds {output.several(held, 'message')}"
        )
        return
    made = output.table(
        "consumer", "peers", "mode", *STATES, "seen", "filter",
        right=STATES, fold=("peers", "filter"),
    )  # fmt: skip
    for info, stats in rows:
        seen = max((p.last_seen for p in info.peers), default=info.since)
        numbers = [f"{n:,}" for n in (getattr(stats, state) for state in STATES)]
        made.add_row(
            output.preview(info.consumer.encode()),
            ", ".join(output.preview(p.name.encode()) or "–" for p in info.peers),
            info.mode,
            *numbers,
            durations.ago(seen),
            info.filter.to_json().decode() if info.filter else "",
        )
    output.show(made)


def existing_topic(client: Client, name: str) -> Topic:
    """The topic of that name. Raises NoSuchQueue, with a guess at what was meant."""
    topic = client.topic(name)
    if topic.stats().now:
        return topic
    known = client.topics()
    close = get_close_matches(name, known, n=1)
    if close:
        hint = f"did you mean {close[0]!r}?"
    elif known:
        hint = "`holdfast topics` lists those there are"
    else:
        hint = "there are no topics yet; `holdfast publish` makes one"
    raise NoSuchQueue(f"there is no topic {name!r}; {hint}")


def _seat(topic: Topic, info: SubscriptionInfo) -> Subscription:
    return topic.subscription(info.consumer, peer=info.peer or "")


def _who(consumer: str, peer: str) -> str:
    return f"peer {peer!r} of {consumer!r}" if peer else repr(consumer)


def _subscription_json(info: SubscriptionInfo) -> dict[str, object]:
    return {
        "consumer": info.consumer,
        "peer": info.peer,
        "mode": info.mode,
        "since": info.since.isoformat(timespec="milliseconds"),
        "filter": info.filter.to_json().decode() if info.filter else None,
        "peers": [
            {
                "name": p.name,
                "last_seen": p.last_seen.isoformat(timespec="milliseconds"),
                "live": p.live,
            }
            for p in info.peers
        ],
    }
