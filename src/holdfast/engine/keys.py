"""The only place that spells a key.

Every key of a queue starts with its *base*, `hf1:{name}`, whose braces put all of them into one
hash slot of a cluster. Shard 0 of a queue lies there; its further shards, if it has any, lie at
`hf1:{name#1}`, `hf1:{name#2}` … each in a slot of its own, so that a queue can grow. The name is
escaped, so that no two names share a base whatever is in them.

A topic lies at `hf1:{name#t}`, its subscriptions below it in the same slot: `hf1:{name#t}/consumer`, or
`hf1:{name#t}/consumer/peer` where each peer has its own. `hf1:{name#c}` lists a consumer's topics.
Consumer and peer are escaped too; nothing users name can be mistaken for a separator.

A limit that workers share lies at `hf1:{name#l}`, what a flow of tasks has to remember at `hf1:{id#f}`,
what a worker says of itself at `hf1:{name#w}`.

The suffixes below are handed to the Lua side when the library is assembled; no Lua file spells one.
Adding a key? Describe it here, and see `purge.lua`, which must know how to empty it.
"""

from __future__ import annotations

from urllib.parse import unquote

PREFIX = "hf1:"

# Lua name → suffix, type, what it holds.
CATALOGUE: dict[str, tuple[str, str, str]] = {
    "ready": (":r", "list", "ready messages, one list per priority: the level 0–9 is appended"),
    "group": (":g:", "list", "messages of one ordering group: the group's name is appended"),
    "slots": (":gs", "hash", "group → how many of its places in flight are taken or offered"),
    "leased": (":l:", "hash", "id → lease head and message, of those sent in one 256 ms: appended"),
    "packed": (":b:", "list", "messages of a batch that is as it was handed out: number appended"),
    "runs": (":i", "zset", "runs of consecutive ids in packed batches, to find a batch by an id"),
    "batches": (":o", "zset", "delivery batch number → time and ids, in order of delivery"),
    "deadlines": (":x", "zset", "batch (or single message with its own deadline) → lease end, ms"),
    "settled": (":a", "hash", "batch → how many of its messages are settled, while some are not"),
    "due": (":z", "zset", "delayed message id → due time, ms"),
    "delayed": (":y", "hash", "id → message, for every delayed message"),
    "died": (":k", "zset", "dead message id → time of death, ms"),
    "dead": (":q", "hash", "id → dead head and message, for every dead letter"),
    "dedup": (":u", "hash", "dedup id → id of the message sent with it"),
    "dedup_until": (":v", "zset", "dedup id → end of its window, ms"),
    "unique": (":n", "hash", "unique name → id and ttl, while a message sent by ensure is there"),
    "last_send": (
        ":p:",
        "string",
        "a sender's last call and its answer, kept a minute for retries",
    ),
    "last_one": (
        ":po:",
        "string",
        "the same of a single send, once another sender's lies in the queue's hash",
    ),
    "stamp": (
        ":ps",
        "string",
        "a write for those who wait until replicas have what came before it",
    ),
    "last_numbers": (
        ":pn",
        "string",
        "last id and batch of a queue that was deleted, until the clock is past them",
    ),
    "ledger": (":d:", "list", "rows that one writing task has sent: the task's name is appended"),
    "reservations": (":h", "hash", "owner → how far it is; owner/seq → rows, sealed, since, end"),
    "reserved": (":h:", "list", "messages of one reservation: owner/seq is appended"),
    "places": (":hg:", "hash", "group → places that a reservation holds in it: owner/seq appended"),
    "condemned": (":hc:", "hash", "id → why it is to die when its reservation is committed: same"),
    "reservation_ends": (":he", "zset", "owner/seq → when it goes back by itself, ms, or far off"),
    "cancelled": (":tc", "zset", "message id → until when it is marked as cancelled, ms"),
    "result": (":tr:", "list", "the result of a task, one element: the task's id is appended"),
    "gate": (
        ":tg:",
        "hash",
        "flow: total, rest, and index → result of those who have come: its name",
    ),
    "flow": (":tf", "string", "flow: when it began, ms, until it has ended"),
    "rate": (":lr", "string", "limit: when its bucket is full again, µs"),
    "permits": (":lc", "zset", "limit: holder → until when it holds a place, ms"),
    "seats": (":s", "hash", "topic: seat → its mode, state, since when, and filter"),
    "seen": (":t", "zset", "topic: peer → when it last observed, ms"),
    "bodies": (":m", "hash", "topic: id → envelope, of a message that several seats took"),
    "takers": (":c", "hash", "topic: id → how many seats still have it"),
    "wake": (":w", "list", "the marker that waiting receivers block on"),
    "wake_dead": (":wd", "list", "the same for those who wait for dead letters"),
    "journal": (":j", "stream", "events of this queue, if its journal is on"),
    "events": (":e", "channel", "events of this queue, while somebody listens"),
}

# Each in a slot of its own; the client adds a name when it first writes to a queue or topic.
REGISTRY = PREFIX + "queues"
TOPICS = PREFIX + "topics"
# Names of workers that have been seen; what each is doing lies at its `worker_key`.
WORKERS = PREFIX + "workers"

_ESCAPES = str.maketrans({"%": "%25", "{": "%7B", "}": "%7D", "#": "%23"})
_SEAT_ESCAPES = str.maketrans({"%": "%25", "/": "%2F", ":": "%3A"})


def base(name: str, shard: int = 0) -> str:
    """The base key of a queue, or of one of its further shards."""
    tag = name.translate(_ESCAPES)
    return f"{PREFIX}{{{tag}#{shard}}}" if shard else f"{PREFIX}{{{tag}}}"


def suffixed(base_key: str, lua_name: str, tail: str = "") -> str:
    """A key below a base, by its name in the catalogue."""
    return base_key + CATALOGUE[lua_name][0] + tail


class QueueRef:
    """One shard of one queue: what a Call is addressed to."""

    __slots__ = ("key", "name", "shard")

    def __init__(self, name: str, shard: int = 0) -> None:
        self.name = name
        self.shard = shard
        self.key = base(name, shard)

    def below(self, lua_name: str) -> str:
        return suffixed(self.key, lua_name)

    def __repr__(self) -> str:
        return f"QueueRef({self.name!r}, {self.shard})"


def owner(key: bytes) -> str | None:
    """The queue or topic that a key belongs to, by its name; None for what is nobody's."""
    head, _, rest = key.partition(b"{")
    tag, brace, _ = rest.partition(b"}")
    if head != PREFIX.encode() or not brace:
        return None
    return unquote(tag.partition(b"#")[0].decode("utf-8", "replace"))


def never(base_key: str) -> str:
    """A key of the same slot that never exists: no suffix of the catalogue is like it."""
    return f"{base_key}:-"


def at(key: str) -> QueueRef:
    """Where any key lies."""
    ref = QueueRef("")
    ref.name = ref.key = key
    return ref


def reserved_list(ref: QueueRef, owner: str, seq: int) -> str:
    """Where a reservation's messages lie, for those who read ranges of it without a function."""
    return suffixed(ref.key, "reserved", f"{owner}/{seq}")


def result_key(ref: QueueRef, tail: str) -> str:
    """Where a task's result is, for those who wait for it or read it without a function."""
    return suffixed(ref.key, "result", tail)


def cancelled_key(ref: QueueRef) -> str:
    """The marks of a queue's cancelled tasks: packed id → end of the mark, by the server's clock."""
    return suffixed(ref.key, "cancelled")


class LimitRef(QueueRef):
    """A limit on rate or concurrency, by the name that all who keep to it share."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        self.name = name
        self.shard = 0
        self.key = f"{PREFIX}{{{name.translate(_ESCAPES)}#l}}"


class FlowRef(QueueRef):
    """What one flow of tasks has to remember."""

    __slots__ = ()

    def __init__(self, flow_id: str) -> None:
        self.name = flow_id
        self.shard = 0
        self.key = f"{PREFIX}{{{flow_id.translate(_ESCAPES)}#f}}"


class TopicRef(QueueRef):
    """A topic: what it holds itself is a queue too."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        self.name = name
        self.shard = 0
        self.key = f"{PREFIX}{{{name.translate(_ESCAPES)}#t}}"


class SeatRef(QueueRef):
    """A subscription's queue, by its seat below the topic."""

    __slots__ = ()

    def __init__(self, topic: TopicRef, seat: str) -> None:
        self.name = topic.name
        self.shard = 0
        self.key = topic.key + seat


def consumer_seat(consumer: str) -> str:
    return f"/{consumer.translate(_SEAT_ESCAPES)}"


def peer_seat(consumer: str, peer: str) -> str:
    return f"{consumer_seat(consumer)}/{peer.translate(_SEAT_ESCAPES)}"


def names_of(seat: str) -> tuple[str, str | None]:
    """Consumer and peer of a seat; None for the peer of a seat that peers share."""
    _, consumer, *peer = seat.split("/")
    return unquote(consumer), unquote(peer[0]) if peer else None


def worker_key(name: str) -> str:
    """What a worker says of itself: JSON, gone soon after it stops saying so."""
    return f"{PREFIX}{{{name.translate(_ESCAPES)}#w}}"


def topics_of(consumer: str) -> str:
    """The set of topics that a consumer has subscribed to."""
    return f"{PREFIX}{{{consumer.translate(_ESCAPES)}#c}}"
