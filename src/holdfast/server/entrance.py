"""Where every call comes in: who may do this here, and is it within the limits?

A `Seat` is to a topic what a name is to a queue; both are a `Place`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast import names
from holdfast.client._async.client import AsyncClient
from holdfast.client._async.queue import AsyncQueue
from holdfast.client._async.subscription import AsyncSubscription
from holdfast.client.sender import CallName
from holdfast.errors import InvalidArgument
from holdfast.message import Outgoing, body_bytes
from holdfast.server.access import Kind, Principal
from holdfast.server.limits import Limits
from holdfast.settings import Seconds, milliseconds


@dataclass(frozen=True, slots=True)
class Seat:
    """A place where a consumer observes a topic: what receipts of observed messages belong to."""

    topic: str
    consumer: str
    peer: str = ""


Place = str | Seat
"""A queue by its name, or a seat at a topic."""


def named(name: CallName | None) -> CallName | None:
    """The name itself, if it may be one."""
    if name is not None:
        names.check(name.sender, "a sender's name")
    return name


class Entrance:
    """What the verbs of a session stand on."""

    def __init__(self, client: AsyncClient, limits: Limits, who: Principal) -> None:
        self._client = client
        self.limits = limits
        self.who = who

    def _queue(self, verb: str, name: str) -> AsyncQueue:
        queue = self._client.queue(name)
        self.who.require(verb, "queue", name)
        return queue

    def _seat(self, verb: str, seat: Seat) -> AsyncSubscription:
        found = self._client.topic(seat.topic).subscription(seat.consumer, peer=seat.peer)
        self.who.require(verb, "topic", seat.topic)
        return found

    def _place(self, verb: str, place: Place) -> AsyncQueue | AsyncSubscription:
        return self._queue(verb, place) if isinstance(place, str) else self._seat(verb, place)

    def _checked(self, messages: Sequence[Outgoing]) -> Sequence[Outgoing]:
        self.limits.check_batch(len(messages), "messages")
        for message in messages:
            self.limits.check_message(len(body_bytes(message.body)))
        return messages

    def _wait(self, wait: Seconds) -> float:
        seconds = milliseconds(wait, "wait") / 1000
        if seconds > self.limits.wait_seconds:
            raise InvalidArgument(
                f"wait must be at most {self.limits.wait_seconds:g} seconds, not {seconds:g}"
            )
        return seconds

    def _sees(self, kind: Kind, name: str) -> bool:
        return any(
            right.permits(verb, kind, name) for right in self.who.rights for verb in right.verbs
        )
