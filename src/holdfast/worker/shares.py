"""Which queues a worker serves, and in which order it looks at them.

Weighted: each look goes through all queues in an order drawn at random, a queue of weight 3 being first three
times as often as one of weight 1, and takes from each its portion of what there is room for; what it does not
need is for those after it. So none starves, and weights count whether tasks are taken singly or by hundreds.
Strict: always in the order given, the next one only when those before it have nothing.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import NamedTuple

from holdfast import names
from holdfast.errors import InvalidArgument


class Share(NamedTuple):
    queue: str
    weight: int = 1


def parse(text: str) -> list[Share]:
    """`emails:3,default` → shares. Raises InvalidArgument."""
    shares: list[Share] = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, colon, weight = item.rpartition(":")
        if colon and weight.isascii() and weight.isdigit():
            shares.append(Share(names.check(name, "a queue's name"), int(weight)))
        else:
            shares.append(Share(names.check(item, "a queue's name")))
    return check(shares)


def check(shares: Sequence[Share]) -> list[Share]:
    if not shares:
        raise InvalidArgument("name at least one queue, for example emails:3,default")
    for share in shares:
        if not 1 <= share.weight <= 1000:
            raise InvalidArgument(f"the weight of {share.queue!r} must be from 1 to 1000")
    if len({share.queue for share in shares}) < len(shares):
        raise InvalidArgument("each queue can be named once")
    return list(shares)


def order(shares: Sequence[Share], *, strict: bool) -> list[str]:
    """In which order to look this time."""
    if strict or len(shares) == 1:
        return [share.queue for share in shares]
    drawn = sorted(shares, key=lambda share: random.random() ** (1 / share.weight), reverse=True)
    return [share.queue for share in drawn]


def portions(shares: Sequence[Share], names: Sequence[str]) -> dict[str, float]:
    """Which part of the room that is left each may take, where they are asked in this order: that of its
    weight among those that have not been asked. The last may take all of it."""
    weights = {share.queue: share.weight for share in shares}
    left = sum(weights[name] for name in names)
    found = {}
    for name in names:
        found[name] = weights[name] / left
        left -= weights[name]
    return found


def part_of(room: int, portion: float) -> int:
    """A portion of the room, in whole tasks. Rounded up or down at random, so that it is right on average:
    always up, the heavier queue would take most of a small room."""
    return math.floor(room * portion + random.random()) if portion < 1 else room
