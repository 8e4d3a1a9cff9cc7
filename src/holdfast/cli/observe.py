"""holdfast observe: as receive, for a consumer of topics."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli import durations
from holdfast.cli.options import ConsumerId, Json, Peer, Url, connected
from holdfast.cli.receive import Taking, why_nothing
from holdfast.client._sync.client import Client
from holdfast.client._sync.delivery import Delivery
from holdfast.client._sync.place import Place
from holdfast.settings import Lease, whole


def observe(
    consumer: ConsumerId,
    topic: Annotated[
        str | None,
        typer.Option("--topic", "-t", metavar="TOPIC", help="Only this; else all it has."),
    ] = None,
    peer: Peer = "",
    count: Annotated[int, typer.Option("--count", "-n", help="At most so many.")] = 1,
    wait: Annotated[
        str, typer.Option("--wait", "-w", metavar="DURATION", help="Wait so long for the first.")
    ] = "0",
    lease: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Ours for so long; as the topic is set, if not given."
        ),
    ] = None,
    ack: Annotated[bool, typer.Option("--ack", help="Ack each once it is written out.")] = False,
    url: Url = None,
    json: Json = False,
) -> None:
    """Take what was published on the topics a consumer is subscribed to, under a lease.

    Without --ack topics and receipts are printed: settle with `holdfast ack TOPIC RECEIPT
    --consumer CONSUMER`. Exit status 4 says that there was nothing.

    \b
    holdfast observe billing                          one message, whichever its topic
    holdfast observe billing --topic prices -n 10     up to ten of this topic
    holdfast observe billing --wait 30s --ack         wait for one, and be done with it
    holdfast observe dash --peer tab-2                as one of several peers

    In a pipe or a file each message is a line: its topic, its receipt and the body, with tabs between;
    with --ack the body only.
    """
    wait_seconds = durations.seconds(wait, "--wait")
    lease_seconds = durations.lease(lease, "--lease")
    whole(count, "--count", 1, 100_000)
    with connected(url) as client:
        taking = _Observing(client, consumer, peer, topic, lease_seconds, json)
        if ack:
            taking.and_ack(count, wait_seconds)
        else:
            taking.and_hold(count, wait_seconds)


class _Observing(Taking):
    """From one topic, or from all that a consumer has."""

    def __init__(
        self,
        client: Client,
        consumer: str,
        peer: str,
        topic: str | None,
        lease: Lease,
        as_json: bool,
    ) -> None:
        super().__init__(lease, as_json)
        self._client = client
        self._consumer = consumer
        self._peer = peer
        self._topic = topic

    def take(self, count: int, wait: float) -> list[Delivery]:
        if self._topic is None:
            everything = self._client.consumer(self._consumer, peer=self._peer)
            return everything.observe(count, wait=wait, lease=self._lease)
        one = self._client.topic(self._topic).subscription(self._consumer, peer=self._peer)
        return one.observe(count, wait=wait, lease=self._lease)

    def ack(self, got: list[Delivery]) -> int:
        return sum(len(place.ack_many(part)) for place, part in _by_place(got))

    def release(self, got: list[Delivery]) -> None:
        for place, part in _by_place(got):
            place.release_many(part)

    def also(self, delivery: Delivery) -> dict[str, str]:
        return {"topic": delivery.source}

    def settle_with(self, delivery: Delivery) -> list[str]:
        who = ["--consumer", self._consumer, *(["--peer", self._peer] if self._peer else [])]
        return [delivery.source, delivery.receipt, *who]

    def nothing(self) -> str:
        if self._topic is None:
            return f"nothing to observe for {self._consumer!r}"
        seat = self._client.topic(self._topic).subscription(self._consumer, peer=self._peer)
        return f"nothing to observe in {self._topic!r}{why_nothing(seat.stats())}"


def _by_place(got: list[Delivery]) -> list[tuple[Place, list[Delivery]]]:
    places: dict[str, tuple[Place, list[Delivery]]] = {}
    for delivery in got:
        places.setdefault(delivery.source, (delivery.batch.queue, []))[1].append(delivery)
    return list(places.values())
