"""What tasks and workers ask of the engine beyond queues: the mirror of the transitions settle, unname,
permit, unpermit, open_join, join, cancel and keep.

Apart from `calls` because a queue is whole without them. A worker settles many deliveries at once, each
in its own way and with its own result, so `settle` takes a list where ack and nack take one verdict for
all: rejected were an ack, a nack and a SET in a pipeline, between which a worker may die.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from holdfast import names
from holdfast.engine import replies
from holdfast.engine.calls import MAX_COUNT, NEVER, ONCE_NAMED, Argument, Call
from holdfast.engine.keys import FlowRef, LimitRef, QueueRef
from holdfast.errors import InvalidArgument
from holdfast.message import MAX_REASON
from holdfast.settings import MAX_MS, Seconds, milliseconds, whole

MAX_LIMIT = 1_000_000
_CUT = " … ".encode()


class Settlement(NamedTuple):
    """What came of one delivery. `action`: ack, retry, snooze, release or bury; see lua/settle.lua.

    `envelope`: the message as it shall be from now on, of the same group and unique name; empty: as it
    is. `result`: kept at `result_tail` for `result_ttl_ms`, if the delivery is still current; an empty
    tail: none is.
    """

    receipt: bytes
    action: str = "ack"
    delay_ms: int = 0
    reason: str = ""
    error: str = ""
    envelope: bytes = b""
    result_tail: str = ""
    result: bytes = b""
    result_ttl_ms: int = 0


def both_ends(text: str, most: int = MAX_REASON) -> bytes:
    """Text cut in its middle where it is too long: a traceback says where it began and, in its last
    lines, what went wrong. Never a broken character at the cut."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return data
    head = most // 4
    tail = most - head - len(_CUT)
    start = data[:head].decode("utf-8", "ignore").encode()
    return start + _CUT + data[-tail:].decode("utf-8", "ignore").encode()


def settle(ref: QueueRef, items: Sequence[Settlement]) -> Call[list[int]]:
    """Answers the positions of those whose receipts named no current delivery: nothing was done for
    these."""
    args: list[Argument] = []
    for s in items:
        args += (
            s.action,
            s.delay_ms,
            both_ends(s.reason) if s.reason else b"",
            both_ends(s.error) if s.error else b"",
            s.envelope,
            s.result_tail,
            s.result,
            s.result_ttl_ms,
            s.receipt,
        )
    return Call("settle", ref, args, replies.positions, ONCE_NAMED)


def unname(ref: QueueRef, receipts: Sequence[bytes]) -> Call[list[int]]:
    """The deliveries' unique names may be used again. Answers the positions of those that were lost."""
    return Call("unname", ref, receipts, replies.positions, ONCE_NAMED)


class Permit(NamedTuple):
    """How many of those asked for may go on, and ms until it is worth asking for more (0: at once).
    `refused`: which of the holders may not, by their positions; for concurrency only."""

    granted: int
    wait_ms: int
    refused: tuple[int, ...] = ()


def _permit(reply: list[int]) -> Permit:
    return Permit(reply[0], reply[1], tuple(reply[2:]))


def permit_rate(ref: LimitRef, limit: int, per: Seconds, want: int = 1) -> Call[Permit]:
    """Up to `want` of `limit` every `per`; the rule is told in lua/permit.lua. May be repeated freely: when
    an answer is lost, what it granted is wasted and the rate a little lower, never higher."""
    args: list[Argument] = [
        "rate",
        whole(limit, "limit", 1, MAX_LIMIT),
        milliseconds(per, "per", least=1),
        whole(want, "want", 1, MAX_COUNT),
    ]
    return Call("permit", ref, args, _permit, lends=True)


def unpermit_rate(ref: LimitRef, limit: int, per: Seconds, unused: int) -> Call[Permit]:
    """So many of those that were granted a moment ago were of no use, and others may have them. Never
    repeated: that would give back more than there was."""
    args: list[Argument] = [
        "rate",
        whole(limit, "limit", 1, MAX_LIMIT),
        milliseconds(per, "per", least=1),
        -whole(unused, "unused", 1, MAX_COUNT),
    ]
    return Call("permit", ref, args, _permit, NEVER, lends=True)


def _holders(holders: Sequence[str]) -> list[str]:
    if not 1 <= len(holders) <= 1_000:
        raise InvalidArgument(f"give 1 to 1000 holders, not {len(holders)}")
    return [names.check(holder, "a holder") for holder in holders]


def permit_concurrency(
    ref: LimitRef, limit: int, hold: Seconds, holders: Sequence[str]
) -> Call[Permit]:
    """At most `limit` hold it at once, each for `hold` from its last call: the same call keeps a place
    that one has."""
    args: list[Argument] = [
        "concurrency",
        whole(limit, "limit", 1, MAX_LIMIT),
        milliseconds(hold, "hold", least=1),
        *_holders(holders),
    ]
    return Call("permit", ref, args, _permit, lends=True)


def unpermit(ref: LimitRef, holders: Sequence[str]) -> Call[int]:
    """Answers how many of them held a place."""
    return Call("unpermit", ref, _holders(holders), int, lends=True)


class Joined(NamedTuple):
    """`missing` 0: all are there, and `rest` and `results` tell what was left at the gate."""

    missing: int
    rest: bytes
    results: list[bytes]


def _joined(reply: list[Any]) -> Joined:
    return Joined(reply[0], reply[1] if len(reply) > 1 else b"", reply[2:])


def open_join(ref: FlowRef, gate: str, total: int, rest: bytes, keep: Seconds) -> Call[bool]:
    """A gate that `total` are to reach, and what is to be known then. Answers whether it is new; one that
    is there stays as it is."""
    args: list[Argument] = [
        names.check(gate, "a gate"),
        whole(total, "total", 0, MAX_COUNT),
        rest,
        milliseconds(keep, "keep", least=1),
    ]
    return Call("open_join", ref, args, bool)


def join(ref: FlowRef, gate: str, index: int, result: bytes, keep: Seconds) -> Call[Joined]:
    """One has reached the gate. The first result for an index stays. Once all are there, each repetition
    is told everything, so that who died after the last join can be followed by another.

    InvalidArgument if there is no such gate, or none any more.
    """
    args: list[Argument] = [
        names.check(gate, "a gate"),
        whole(index, "index", 0, MAX_COUNT - 1),
        result,
        milliseconds(keep, "keep", least=1),
    ]
    return Call("join", ref, args, _joined)


def cancel(ref: QueueRef, packed_id: bytes, mark: Seconds) -> Call[int]:
    """Who works on the message is to stop. For those who look at keys.cancelled_key by ZRANGEBYSCORE; a
    mark ends by itself."""
    return Call("cancel", ref, [packed_id, milliseconds(mark, "mark", least=1)], int)


def keep(ref: QueueRef, tail: str, result: bytes, ttl: Seconds) -> Call[int]:
    """A result as settle keeps it, of work that had no delivery. It is read at keys.result_key."""
    if not tail:
        raise InvalidArgument("a result needs a name to be kept at")
    ttl_ms = whole(milliseconds(ttl, "ttl", least=1), "ttl", 1, MAX_MS)
    return Call("keep", ref, [tail, result, ttl_ms], int)
