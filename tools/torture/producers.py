"""The ways of sending. Each offers bodies that nobody else sends, and writes down which are stored."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import holdfast
from holdfast import Outgoing
from tools.torture.crew import Crew

Send = Callable[[list[str]], Sequence[Any]]


def produce(
    crew: Crew,
    who: str,
    places: Sequence[str],
    send: Send,
    *,
    batch: int = 1,
    pace: float = 0.08,
    groups: Sequence[str] = (),
    insist: bool = False,
) -> None:
    """Sends batches by `send`, one after the other. `insist`: the same again until it is stored."""

    def work() -> None:
        for n in itertools.count():
            if crew.stop.is_set():
                return
            bodies = [f"{who}-{n}.{i}" if batch > 1 else f"{who}-{n}" for i in range(batch)]
            group = groups[n % len(groups)] if groups else ""
            for place in places:
                for body in bodies:
                    crew.history.note("offered", who=who, place=place, body=body, group=group)
            while True:
                done, ids = crew.attempt(who, lambda: send(bodies))  # noqa: B023 (called at once)
                if done or not insist or crew.stop.wait(pace):
                    break
            if done:
                for place in places:
                    for body, id in zip(bodies, ids, strict=True):
                        crew.history.note(
                            "stored", who=who, place=place, body=body, id=id, group=group
                        )
                crew.stored(who, len(bodies))
            crew.stop.wait(pace)

    crew.produce(who, work)


def _bytes(bodies: Sequence[str]) -> list[bytes]:
    return [body.encode() for body in bodies]


def singly(q: holdfast.Queue) -> Send:
    return lambda bodies: [q.send(body) for body in _bytes(bodies)]


def many(q: holdfast.Queue) -> Send:
    return lambda bodies: q.send_many(_bytes(bodies))


def by_dedup_id(q: holdfast.Queue) -> Send:
    return lambda bodies: [q.send(body.encode(), dedup_id=body) for body in bodies]


def ensured(q: holdfast.Queue) -> Send:
    return lambda bodies: [q.ensure(body, body.encode()) for body in bodies]


def delayed(q: holdfast.Queue, rnd: random.Random) -> Send:
    return lambda bodies: q.send_many(
        [Outgoing(body.encode(), delay=rnd.uniform(0, 1.5)) for body in bodies]
    )


def by_priority(q: holdfast.Queue, rnd: random.Random) -> Send:
    return lambda bodies: [q.send(body.encode(), priority=rnd.randint(0, 9)) for body in bodies]


def grouped(q: holdfast.Queue, groups: Sequence[str]) -> Send:
    """In turn, by the number at the end of a body, as `produce` counts them."""

    def group(body: str) -> str:
        return groups[int(body.rpartition("-")[2]) % len(groups)]

    return lambda bodies: [q.send(body.encode(), group=group(body)) for body in bodies]


def published(topic: holdfast.Topic) -> Send:
    return lambda bodies: [topic.publish(body) for body in _bytes(bodies)]


def published_many(topic: holdfast.Topic) -> Send:
    return lambda bodies: topic.publish_many(_bytes(bodies))
