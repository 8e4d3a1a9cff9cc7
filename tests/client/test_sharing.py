"""The synchronous client between threads: what one of them changes while another looks at it.

Each test lets the other thread act in the very moment in which it used to do harm, and waits for it only
a moment: where it is kept out, it comes later.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, cast

import pytest

from holdfast.client._sync.consumer import Consumer
from holdfast.client._sync.delivery import Delivery
from holdfast.client._sync.place import Place
from holdfast.client.backoff import exponential
from tests.servers import wait_until


def beside(act: Callable[[], object]) -> threading.Thread:
    """Another thread does it now; or soon, if it has to wait for us."""
    thread = threading.Thread(target=act)
    thread.start()
    thread.join(0.2)
    return thread


# ---- a consumer ---------------------------------------------------------------------------


class Held:
    """A delivery, as far as a consumer is concerned. After `watch`, something happens once: when it is
    compared with others, or asked whether it is settled."""

    def __init__(self, number: int) -> None:
        self.id = str(number)
        self._settled = False
        self._watched: dict[str, Callable[[], object]] = {}
        self.acting: list[threading.Thread] = []

    def watch(self, moment: Literal["compared", "asked"], act: Callable[[], object]) -> None:
        self._watched[moment] = act

    def _look(self, moment: str) -> None:
        act = self._watched.pop(moment, None)
        if act is not None:
            self.acting.append(beside(act))

    @property
    def settled(self) -> bool:
        self._look("asked")
        return self._settled

    @settled.setter
    def settled(self, value: bool) -> None:
        self._settled = value

    def __eq__(self, other: object) -> bool:
        self._look("compared")
        return isinstance(other, Held) and self.id == other.id

    def __hash__(self) -> int:
        self._look("compared")
        return hash(self.id)


class Shelf:
    """The place that a consumer receives from: ten deliveries, once."""

    name = "shelf"

    def __init__(self) -> None:
        self.deliveries = [Held(n) for n in range(10)]
        self._left = list(self.deliveries)
        self.extended: list[list[Held]] = []
        self.acked: list[Held] = []
        self.released: list[Held] = []
        self.extending: Callable[[], object] = lambda: None

    def receive_many(self, count: int, **_: Any) -> list[Held]:
        got, self._left = self._left, []
        return got

    def ack_many(self, deliveries: Sequence[Held]) -> Sequence[Held]:
        self.acked += deliveries
        return deliveries

    def extend_many(self, deliveries: Sequence[Held], _: float) -> Sequence[Held]:
        self.extended.append(list(deliveries))
        self.extending()
        return deliveries

    def release_many(self, deliveries: Sequence[Held]) -> Sequence[Held]:
        self.released += deliveries
        return deliveries


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def consumer_of(shelf: Shelf, lease: float = 0) -> Consumer:
    return Consumer(
        cast("Place", shelf),
        prefetch=10,
        lease=lease,
        backoff=exponential(),
        ack_every=100,
        idle=0.05,
    )


def taken(consumer: Consumer, count: int) -> tuple[Iterator[Delivery], list[Delivery]]:
    """An iteration that goes on, and what it gave first."""
    going_on = iter(consumer)
    return going_on, [next(going_on) for _ in range(count)]


def test_leases_are_extended_while_another_thread_acks(shelf: Shelf) -> None:
    consumer = consumer_of(shelf)
    _, got = taken(consumer, 4)
    for delivery in got[:3]:
        consumer.ack(delivery)
    watched = shelf.deliveries[0]
    watched.watch("compared", lambda: consumer.ack(got[3]))
    consumer._extend()
    for thread in watched.acting:
        thread.join()
    consumer.close()
    assert watched.acting
    assert {d.id for d in shelf.acked} == {"0", "1", "2", "3"}
    assert [d.id for d in shelf.released] == ["4", "5", "6", "7", "8", "9"]


def test_closing_while_another_thread_acks_releases_the_others(shelf: Shelf) -> None:
    consumer = consumer_of(shelf)
    _, got = taken(consumer, 2)
    consumer.ack(got[0])
    watched = shelf.deliveries[5]
    watched.watch("asked", lambda: consumer.ack(got[1]))
    consumer.close()
    for thread in watched.acting:
        thread.join()
    assert watched.acting
    assert {"5", "6", "7", "8", "9"} <= {d.id for d in shelf.released}
    assert {d.id for d in shelf.acked} == {"0", "1"}


@pytest.mark.parametrize("look", [1, 2])
def test_stop_from_another_thread_ends_the_iteration_whenever_it_comes(
    shelf: Shelf, look: int
) -> None:
    class Ready(deque[Delivery]):
        """Told to stop when somebody has just seen, for the first or second time, that there is one."""

        looks = 0

        def __bool__(self) -> bool:
            found = len(self) > 0
            self.looks += 1
            if self.looks == look:
                beside(consumer.stop)
            return found

    consumer = consumer_of(shelf)
    going_on, _ = taken(consumer, 2)
    consumer._ready = Ready(consumer._ready)
    assert len(list(going_on)) <= 2
    assert [d.id for d in shelf.released][-6:] == ["4", "5", "6", "7", "8", "9"]


def test_what_arrives_when_it_is_told_to_stop_goes_back_unseen(shelf: Shelf) -> None:
    consumer = consumer_of(shelf)
    receive = shelf.receive_many

    def and_stop(count: int, **how: Any) -> list[Held]:
        beside(consumer.stop).join()
        return receive(count, **how)

    shelf.receive_many = and_stop  # type: ignore[method-assign]
    assert list(consumer) == []
    assert len(shelf.released) == 10


def test_a_keeper_that_fails_says_so_and_goes_on(
    shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    def fail_once() -> None:
        if len(shelf.extended) == 1:
            raise RuntimeError("deque mutated during iteration")

    shelf.extending = fail_once
    consumer = consumer_of(shelf, lease=0.06)
    with caplog.at_level(logging.ERROR, "holdfast"):
        going_on, _ = taken(consumer, 1)
        wait_until(lambda: len(shelf.extended) > 2, what="leases that are extended again")
        assert list(going_on)
    [said] = caplog.records
    assert (said.name, said.exc_info is not None) == ("holdfast", True)
    assert "keeping leases on 'shelf'" in said.getMessage()
