"""One builder per transition: checked arguments in, a `Call` out.

A Call is data: which function, on which shard, with which arguments, how to read the answer, and
whether it may be repeated when its answer is lost. Both clients run the same Calls; neither knows
a key, an argument order or a reply shape. The mirror of `calls.<verb>` is `lua/<verb>.lua`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from holdfast import names
from holdfast.engine import keys, library, replies
from holdfast.engine.keys import QueueRef
from holdfast.errors import InvalidArgument
from holdfast.message import (
    MAX_REASON,
    STATES,
    Codec,
    Message,
    Outgoing,
    State,
    envelope,
    plain_envelope,
    plain_envelopes,
)
from holdfast.settings import AS_SET, MAX_MS, Lease, LeaseOf, Seconds, lease_of, milliseconds, whole

T = TypeVar("T")
Argument = bytes | str | int

MAX_COUNT = 100_000
PAGE = 10_000


class Repeat(Enum):
    """What to do when a call was sent and its answer never came."""

    FREELY = "its effect is the same the second time"
    BY_NAME = "it carries a name by which the engine knows whether it was done"
    ONCE_NAMED = "the same, but who runs it gives it the name"
    NEVER = "doing it twice would do more than once; the caller must decide"


# To reach a member of an Enum takes a tenth of a microsecond each time.
FREELY, BY_NAME, ONCE_NAMED, NEVER = Repeat


class Caller(Protocol):
    """One who has a single call under way at a time, and numbers them."""

    name: str
    number: int


class Call(Generic[T]):
    """`name`: sender, number and whether it is a repetition, behind the arguments; sends have theirs before
    them. `caller`: who runs it, until its answer is there."""

    __slots__ = ("args", "caller", "lends", "name", "parse", "reads", "ref", "repeat", "verb")

    plain = False
    """Does the server know it without our functions?"""

    def __init__(
        self,
        verb: str,
        ref: QueueRef,
        args: Sequence[Argument],
        parse: Callable[[Any], T],
        repeat: Repeat = FREELY,
        *,
        reads: bool = False,
        lends: bool = False,
    ) -> None:
        """`reads`: nothing that it does has to outlast the server, so that no replica is waited for.
        `lends`: what it gives away comes back by itself, so that too few replicas are a warning: what
        is taken must be handed out, or it would be counted as delivered and seen by nobody."""
        self.verb = verb
        self.ref = ref
        self.args = args
        self.parse = parse
        self.repeat = repeat
        self.reads = reads
        self.lends = lends
        self.name: tuple[str, int, int] | None = None
        self.caller: Caller | None = None

    def command(self, cluster: bool = False) -> tuple[Argument, ...]:
        """As it is sent. A cluster is told of a second key, which never exists: while a slot moves key by
        key, a node then refuses the call (TRYAGAIN) instead of doing half of it on what is left."""
        function, key, name = f"{library.NAME}_{self.verb}", self.ref.key, self.name or ()
        if name:
            function += "_named"
        if cluster:
            return ("FCALL", function, 2, key, keys.never(key), *self.args, *name)
        return ("FCALL", function, 1, key, *self.args, *name)

    @property
    def has_name(self) -> bool:
        return self.name is not None or self.repeat is BY_NAME

    def again(self) -> Call[T]:
        """The same call, said to be a repetition."""
        if self.name:
            call = Call(self.verb, self.ref, self.args, self.parse, self.repeat, lends=self.lends)
            call.name = (*self.name[:2], 1)
            return call
        if self.repeat is not BY_NAME:
            return self
        sender, number, _, *rest = self.args
        return Call(self.verb, self.ref, [sender, number, 1, *rest], self.parse, self.repeat)


class Plain(Call[Any]):
    """A command of the server's own, at the place of a key; it may be repeated."""

    __slots__ = ()

    plain = True

    def __init__(
        self, key: str, words: Sequence[Argument], parse: Callable[[Any], Any] | None = None
    ) -> None:
        super().__init__(
            str(words[0]), keys.at(key), words, parse or (lambda reply: reply), reads=True
        )

    def command(self, cluster: bool = False) -> tuple[Argument, ...]:
        return tuple(self.args)


def _when(delay: Seconds | None, due: datetime | None) -> str:
    if delay is not None and due is not None:
        raise InvalidArgument("give delay or due, not both")
    if delay is not None:
        return f"+{milliseconds(delay, 'delay')}"
    if due is not None:
        return f"@{_time(due, 'due')}"
    return ""


def _time(at: object, what: str) -> int:
    if not isinstance(at, datetime):
        raise InvalidArgument(f"{what} must be a datetime, not {type(at).__name__}")
    if at.tzinfo is None:
        raise InvalidArgument(f"{what} must have a time zone, for example datetime.now(UTC)")
    return min(max(round(at.timestamp() * 1000), 0), MAX_MS)


def lease_ms(lease: Lease) -> int:
    """AS_SET: as the queue is set. IF_SET: as it is set, until settled if it is not. None: until
    settled."""
    if isinstance(lease, LeaseOf):
        return -1 if lease is AS_SET else -2
    return lease_of(lease)


def reason_bytes(text: object, what: str) -> bytes:
    """Why, as the engine keeps it: cut where it is too long."""
    if not isinstance(text, str):
        raise InvalidArgument(f"{what} must be text, not {type(text).__name__}")
    return text.encode("utf-8", "replace")[:MAX_REASON]


class Packed:
    """A checked message, ready to be part of a send call.

    `home`: messages with the same one go to the same shard, for the sake of their order, or so
    that a duplicate meets the first. `dedup_ms` 0: as long as the queue is set.
    """

    __slots__ = ("dedup_id", "dedup_ms", "envelope", "home", "when")

    def __init__(
        self,
        envelope: bytes,
        when: str = "",
        dedup_id: str = "",
        home: str = "",
        dedup_ms: int = 0,
    ) -> None:
        self.envelope = envelope
        self.when = when
        self.dedup_id = dedup_id
        self.dedup_ms = dedup_ms
        self.home = home


def pack_plain(body: bytes) -> Packed:
    """As pack, for bytes about which nothing else is said."""
    return Packed(plain_envelope(body))


def pack(message: Any, codec: Codec[Any] | None = None, unique: str | None = None) -> Packed:
    """Check and pack one message: an Outgoing, or anything that can be a body."""
    if not isinstance(message, Outgoing):
        message = Outgoing(message)
    dedup_id, dedup_ms = "", 0
    if message.dedup_id is not None:
        dedup_id = names.check(message.dedup_id, "dedup_id")
    if message.dedup_window is not None:
        if not dedup_id:
            raise InvalidArgument("a dedup_window needs a dedup_id that is to be known for so long")
        dedup_ms = milliseconds(message.dedup_window, "dedup_window", least=1)
    when = _when(message.delay, message.due)
    packed = envelope(message, codec, unique)
    return Packed(packed, when, dedup_id, message.group or unique or dedup_id, dedup_ms)


def send(
    ref: QueueRef, messages: Sequence[Packed], sender: str = "", number: int = 0
) -> Call[replies.Sent]:
    """(sender, number) names the call, so that it can be repeated safely; a sender must not have
    two calls under way at once."""
    n = len(messages)
    repeat = BY_NAME if sender else NEVER
    args: list[Argument] = [sender, number, 0, *_said(messages)]
    return Call("send", ref, args, lambda reply: replies.sent(reply, n, ref.shard), repeat)


def send_each(
    ref: QueueRef, messages: Sequence[Packed], sender: str, number: int
) -> Call[replies.SentEach]:
    """As send, for messages of several who do not know of each other: what there is room for is stored."""
    n = len(messages)
    form, *rest = _said(messages)
    args: list[Argument] = [sender, number, 0, f"each {form!s}", *rest]
    return Call("send", ref, args, lambda reply: replies.sent_each(reply, n, ref.shard), BY_NAME)


def _said(messages: Sequence[Packed]) -> list[Argument]:
    """The form, and the messages in it."""
    if any(m.dedup_ms for m in messages):
        args: list[Argument] = ["timed"]
        for m in messages:
            args += (m.when, m.dedup_id, m.dedup_ms, m.envelope)
    elif any(m.when or m.dedup_id for m in messages):
        args = ["full"]
        for m in messages:
            args += (m.when, m.dedup_id, m.envelope)
    else:
        args = ["plain", *[m.envelope for m in messages]]
    return args


def send_one(ref: QueueRef, envelope: bytes, sender: str, number: int) -> Call[replies.Sent]:
    """As send, for one message without due time and dedup id."""
    parse = replies.sent_one_to(ref.shard) if ref.shard else replies.sent_one
    return Call("send_one", ref, (sender, number, 0, envelope), parse, BY_NAME)


def send_plain(
    ref: QueueRef, bodies: Sequence[bytes], sender: str, number: int
) -> Call[replies.Sent]:
    """As send, for bodies about which nothing else is said; without an object for each."""
    n = len(bodies)
    args: list[Argument] = [sender, number, 0, "plain", *plain_envelopes(bodies)]
    return Call("send", ref, args, lambda r: replies.sent(r, n, ref.shard), BY_NAME)


def receive(
    ref: QueueRef, count: int, lease: Lease, wait_ms: int, *, dead: bool = False
) -> Call[replies.Received]:
    args = [whole(count, "count", 1, MAX_COUNT), lease_ms(lease), wait_ms]
    return Call("receive_dead" if dead else "receive", ref, args, replies.received, lends=True)


def recover(
    ref: QueueRef, count: int, elapsed: Seconds, lease: Lease, below: int = 0
) -> Call[replies.Received]:
    """To be called again where it answers `more`, with the first batch that it gave as `below`."""
    count = whole(count, "count", 1, MAX_COUNT)
    args = [count, milliseconds(elapsed, "elapsed"), lease_ms(lease)]
    if below:
        args.append(below)
    return Call("recover", ref, args, replies.received, lends=True)


class Batch(Protocol):
    """Deliveries that were handed out together."""

    @property
    def fence(self) -> bytes: ...
    @property
    def size(self) -> int: ...


def batch_receipt(batch: Batch) -> bytes:
    """One receipt for all deliveries of a batch, in their order."""
    return batch.fence + batch.size.to_bytes(2, "big")


def ack(ref: QueueRef, receipts: Sequence[bytes]) -> Call[list[int]]:
    return Call("ack", ref, receipts, replies.positions, ONCE_NAMED)


def nack(
    ref: QueueRef, action: str, delay: Seconds, text: str, receipts: Sequence[bytes]
) -> Call[list[int]]:
    what = "reason" if action == "bury" else "error"
    args: list[Argument] = [
        action,
        milliseconds(delay, "delay"),
        reason_bytes(text, what),
        *receipts,
    ]
    return Call("nack", ref, args, replies.positions, ONCE_NAMED)


def extend(
    ref: QueueRef, lease: Seconds | None, receipts: Sequence[bytes]
) -> Call[tuple[int, list[int]]]:
    """Answers the new lease end, ms (0: none), and the positions of those that were lost. `lease` 0: they
    are given back. None: until settled."""
    ms = None if lease is None else milliseconds(lease, "lease")
    args: list[Argument] = ["forever" if ms is None else ms or "now", *receipts]
    return Call(
        "extend",
        ref,
        args,
        lambda reply: (reply[0], reply[1:]),
        ONCE_NAMED,
        lends=True,
    )


def gap_us(rate: float | None) -> int:
    """The time between two messages at so many a second, in µs; 0 for no rate."""
    if rate is None:
        return 0
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= 1_000_000:
        raise InvalidArgument(
            f"rate must be a number more than 0 and at most a million a second, not {rate!r}"
        )
    return round(1_000_000 / rate)


def redrive(
    ref: QueueRef, what: int | Sequence[bytes], gap: int = 0, offset: int = 0
) -> Call[list[bytes]]:
    """`gap`: as by gap_us. `offset`: how many of this redrive were moved by earlier calls."""
    chosen: list[Argument] = [what] if isinstance(what, int) else ["ids", *what]
    return Call("redrive", ref, [gap, offset, *chosen], list, ONCE_NAMED)


def state(value: object) -> State:
    if value not in STATES:
        raise InvalidArgument(f"state must be one of {', '.join(STATES)}, not {value!r}")
    return value


def inspect(
    ref: QueueRef,
    of: State,
    start: int,
    count: int,
    group: str = "",
    cursor: int = 0,
    codec: Codec[Any] | None = None,
) -> Call[replies.Page]:
    args = [of, start, count, group, cursor]
    return Call(
        "inspect", ref, args, lambda reply: replies.page(reply, of, ref.shard, codec), reads=True
    )


def get(ref: QueueRef, packed_id: bytes, codec: Codec[Any] | None) -> Call[Message | None]:
    return Call(
        "get", ref, [packed_id], lambda reply: replies.found(reply, ref.shard, codec), reads=True
    )


def sources(ref: QueueRef, cursor: str) -> Call[replies.Sources]:
    return Call("sources", ref, [cursor], replies.sources, reads=True)


def find(
    ref: QueueRef,
    packed_id: bytes,
    source: bytes,
    cursor: tuple[int, int],
    remove: bool,
    codec: Codec[Any] | None,
) -> Call[Message | tuple[int, int]]:
    args: list[Argument] = [packed_id, source, *cursor, int(remove)]
    repeat = ONCE_NAMED if remove else FREELY
    return Call("find", ref, args, lambda reply: replies.sought(reply, ref.shard, codec), repeat)


def remove(ref: QueueRef, packed_id: bytes) -> Call[bool]:
    return Call("remove", ref, [packed_id], bool, ONCE_NAMED)


def reschedule(
    ref: QueueRef, packed_id: bytes, delay: Seconds | None, due: datetime | None
) -> Call[bool]:
    when = _when(delay, due)
    if not when:
        raise InvalidArgument("give delay or due")
    return Call("reschedule", ref, [packed_id, when], bool, ONCE_NAMED)


def purge(ref: QueueRef, of: State) -> Call[tuple[int, bool]]:
    """Answers how many went and whether to call again."""
    return Call("purge", ref, [of], lambda reply: (reply[0], bool(reply[1])), ONCE_NAMED)


def pause(ref: QueueRef, until: datetime | Seconds | None) -> Call[int]:
    if until is None:
        when = "forever"
    elif isinstance(until, datetime):
        when = f"@{_time(until, 'until')}"
    else:
        when = f"+{milliseconds(until, 'until')}"
    return Call("pause", ref, [when], int)


def resume(ref: QueueRef) -> Call[int]:
    return Call("pause", ref, ["@0"], int)


def configure(ref: QueueRef, wire: dict[str, int | str]) -> Call[replies.Configured]:
    text = msgspec.json.encode(wire) if wire else b""
    return Call("configure", ref, [text], replies.configured, reads=not wire)


def stats(ref: QueueRef) -> Call[replies.Stats]:
    return Call("stats", ref, [], replies.stats, reads=True)


def tend(ref: QueueRef, wait_ms: int = 0) -> Call[tuple[bool, int]]:
    """Answers whether a receive would get something, and ms until something falls due or -1."""
    return Call("tend", ref, [wait_ms], lambda reply: (bool(reply[0]), reply[1]), reads=True)


def listen(ref: QueueRef, for_: Seconds) -> Call[int]:
    return Call("listen", ref, [milliseconds(for_, "for_")], int, reads=True)


def stamp(ref: QueueRef) -> Call[int]:
    """A write that comes after all that this queue was told so far: who waits until a replica has it knows
    that the replica has the rest too."""
    return Call("stamp", ref, [], int)


def wake(ref: QueueRef) -> Call[bool]:
    return Call("wake", ref, [], bool, reads=True)


def clock(ref: QueueRef, ms: int | None) -> Call[int]:
    return Call("clock", ref, ["" if ms is None else whole(ms, "clock", 0, MAX_MS)], int)


def delete(ref: QueueRef) -> Call[bool]:
    return Call("delete", ref, [], bool)
