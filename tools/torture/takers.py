"""The ways of taking. Each notes what it has in hand before it settles it, and what it was told then."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import holdfast
from holdfast import Delivery, HoldfastError, Queue, ReservationLost, Subscription
from holdfast.client._sync.consumer import Consumer
from holdfast.message import Message
from tools.torture.crew import LEASE, Crew
from tools.torture.hands import Hands, Held

Place = Queue | Subscription


def receive(crew: Crew, who: str, place: str, at: Place, *, count: int = 1) -> None:
    """receive or receive_many, then ack."""

    def ask() -> list[Delivery]:
        if count > 1:
            return at.receive_many(count, wait=0.5, lease=LEASE)
        d = at.receive(wait=0.5, lease=LEASE)
        return [d] if d else []

    _loop(Hands(crew, who, place), at, ask)


def observe(crew: Crew, who: str, place: str, hf: holdfast.Client, at: Subscription) -> None:
    """As a consumer over all its topics."""
    consumer = hf.consumer(at.consumer)
    _loop(Hands(crew, who, place), at, lambda: consumer.observe(10, wait=0.5, lease=LEASE))


def recover(crew: Crew, who: str, place: str, at: Place) -> None:
    """Takes over what others have held for a second; they are not asked."""
    hands = Hands(crew, who, place)
    _loop(hands, at, lambda: at.recover(20, elapsed=1.0, lease=LEASE), pace=0.2)


def abandon(crew: Crew, who: str, place: str, at: Place) -> None:
    """Takes, and is never heard of again."""
    hands = Hands(crew, who, place)

    def work() -> None:
        while not crew.done.is_set():
            done, got = crew.attempt(who, lambda: at.receive_many(5, wait=0.3, lease=120))
            for d in got if done else ():
                hands.got(hands.hold(d)._replace(left=0.0))  # it claims nothing
            crew.done.wait(0.1)

    crew.take(who, work)


def dawdle(crew: Crew, who: str, place: str, at: Place, rnd: random.Random) -> None:
    """Holds a message for longer than its lease now and then, and acks it all the same."""
    hands = Hands(crew, who, place)

    def work() -> None:
        while not crew.done.is_set():
            done, d = crew.attempt(who, lambda: at.receive(wait=0.5, lease=1))
            if not done or d is None:
                crew.done.wait(0.05)
                continue
            held = hands.hold(d)
            hands.got(held)
            crew.done.wait(rnd.choice([0.0, 0.3, 1.3]))
            _ack(hands, at, [d], [held])

    crew.take(who, work)


def consume(crew: Crew, who: str, place: str, at: Place) -> None:
    """The loop that prefetches, keeps leases and gathers acks. One that ends by an error is begun again."""
    hands = Hands(crew, who, place)

    def stop_with(loop: Consumer) -> None:
        crew.done.wait()
        loop.stop()

    def work() -> None:
        while not crew.done.is_set():
            try:
                with at.consume(prefetch=20, lease=LEASE) as loop:
                    threading.Thread(target=stop_with, args=[loop], daemon=True).start()
                    for d in loop:
                        with d:
                            held = hands.hold(d)
                            hands.got(held)
                            hands.settling([held])
            except HoldfastError as error:
                crew.failed(who, error)
            except Exception as error:
                crew.strange(who, error)
            crew.done.wait(0.05)

    crew.take(who, work)


def read_reserved(crew: Crew, who: str, place: str, at: Queue) -> None:
    """A reader: reserves, reads all of it, commits; asks for the same again until it is told."""
    hands = Hands(crew, who, place)

    def insist(call: Callable[[], Any]) -> Any:
        while True:
            done, answer = crew.attempt(who, call)
            if done:
                return answer
            if isinstance(answer, ReservationLost) or crew.done.wait(0.05):
                raise _Over

    def read(owner: str, seq: int) -> list[Held]:
        [rows] = insist(lambda: at.reserve(owner, seq, [20]))
        packed = insist(lambda: at.read_reserved(owner, seq, 0, 0, rows)) if rows else []
        messages = [Message(record, 0, "reserved") for record in packed]
        return [Held(m.body.decode(), m.id, f"{m.id}@{owner}.{seq}") for m in messages]

    def work() -> None:
        for life in itertools.count():
            owner = f"reader{life}"
            with suppress(_Over):
                for seq in itertools.count(1):
                    held = read(owner, seq)
                    for each in held:
                        hands.got(each)
                    insist(lambda: at.commit(owner, seq))  # noqa: B023 (called at once)
                    hands.told(held, {each.receipt for each in held})
                    crew.done.wait(0.05)
                    if crew.done.is_set() and not held:
                        return
            # A server that forgets has lost track of this reader: it gives all back, and begins anew.
            crew.attempt(who, lambda: at.release_reserved(owner))  # noqa: B023 (called at once)
            if crew.done.is_set():
                return

    crew.take(who, work)


class _Over(Exception):
    """This reader cannot go on."""


def _loop(hands: Hands, at: Place, ask: Callable[[], list[Delivery]], *, pace: float = 0.0) -> None:
    crew = hands.crew

    def work() -> None:
        while not crew.done.is_set():
            done, got = crew.attempt(hands.who, ask)
            if not done or not got:
                crew.done.wait(0.05)
                continue
            held = [hands.hold(d) for d in got]
            for each in held:
                hands.got(each)
            _ack(hands, at, got, held)
            crew.done.wait(pace)

    crew.take(hands.who, work)


def _ack(hands: Hands, at: Place, got: Sequence[Delivery], held: Sequence[Held]) -> None:
    """All of them in one call, and what came of each."""
    hands.settling(held)
    told, done = hands.crew.attempt(hands.who, lambda: at.ack_many(got))
    if told:
        hands.told(held, {d.receipt for d in done})
