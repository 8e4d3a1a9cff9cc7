"""Settling each delivery in its own way, as a worker does, on queues with however many shards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast import Delivery, Outgoing, Queue, Subscription
from holdfast.engine import tasks
from holdfast.engine.keys import result_key
from holdfast.engine.tasks import Settlement
from holdfast.message import envelope, parse_receipt

ACTIONS = ["ack", "retry", "snooze", "release", "bury"]

# What can be done with a receipt: those for which it was done.
SETTLE: dict[str, Callable[[Queue | Subscription, list[Delivery]], list[Delivery]]] = {
    "ack": lambda q, held: q.ack_many(held),
    "nack": lambda q, held: q.nack_many(held),
    "release": lambda q, held: q.release_many(held),
    "bury": lambda q, held: q.bury_many(held, "why"),
    "extend": lambda q, held: q.extend_many(held, 99),
}


def receipt(of: Delivery | str) -> tuple[bytes, int]:
    return parse_receipt(of if isinstance(of, str) else of.receipt)


def settle(
    q: Queue | Subscription, *items: tuple[Delivery | str, dict[str, Any]]
) -> list[Delivery | str]:
    """One call for each shard; those that were not current."""
    by_shard: dict[int, list[tuple[Delivery | str, Settlement]]] = {}
    for of, how in items:
        packed, shard = receipt(of)
        by_shard.setdefault(shard, []).append((of, Settlement(packed, **how)))
    stale: list[Delivery | str] = []
    for shard, mine in by_shard.items():
        call = tasks.settle(q.refs()[shard], [s for _, s in mine])
        stale += [mine[n][0] for n in q.transport.run(call)]
    return stale


def each(held: list[Delivery], **how: Any) -> list[tuple[Delivery | str, dict[str, Any]]]:
    return [(d, how) for d in held]


def changed(d: Delivery, body: bytes, **other: Any) -> bytes:
    """The delivery's envelope with another body."""
    said = {"priority": d.priority, "group": d.group, "attributes": d.attributes, **other}
    unique = said.pop("unique", d.unique)
    return envelope(Outgoing(body, **said), None, unique)


def result_of(q: Queue, tail: str, shard: int = 0) -> Any:
    """The result that is kept, decoded; None if there is none. Fails if there are several."""
    ref = q.refs()[shard]
    found = q.transport.command("LRANGE", result_key(ref, tail), 0, -1, key=ref.key)
    assert len(found) <= 1
    return msgspec.json.decode(found[0]) if found else None


def result_ends_in(q: Queue, tail: str, shard: int = 0) -> int:
    """Ms until a result ends; -1 if it never does, -2 if there is none."""
    ref = q.refs()[shard]
    ends: int = q.transport.command("PTTL", result_key(ref, tail), key=ref.key)
    return ends
