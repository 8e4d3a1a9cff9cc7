"""Messages: what is sent, what is seen, and the bytes in between.

The packed layout is drawn in `engine/lua/shared/record.lua`; this file is its mirror. A message
travels and rests in that form, and its parts are unpacked only when somebody asks for them: most
consumers want the body and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from struct import Struct
from struct import error as struct_error
from typing import Any, Literal, Protocol, TypeVar
from zlib import crc32

import msgspec

from holdfast import names
from holdfast.errors import Corrupt, InvalidArgument
from holdfast.settings import Seconds, milliseconds, whole

State = Literal["ready", "delayed", "leased", "reserved", "dead"]
STATES: tuple[State, ...] = ("ready", "delayed", "leased", "reserved", "dead")

# Valkey refuses a bulk string past this unless told otherwise, and a queue is no place for files.
MAX_BODY = 64 * 1024 * 1024
MAX_ATTRIBUTES = 64 * 1024
MAX_REASON = 8_000

_ATTRIBUTES, _GROUP, _TTL, _UNIQUE = 1, 2, 4, 8
_ENVELOPE = Struct(">BBI")
_HEAD_SIZE = 18
# The first bit of the count is the engine's, while a message is delayed.
_RECEIVES = 0x7FFF
# The checksum covers priority and flags too: it starts from theirs.
_SEEDS = {bytes([p, f]): crc32(bytes([p, f])) for p in range(10) for f in range(16)}
_PLAIN = _SEEDS[b"\0\0"]

V = TypeVar("V")


class Codec(Protocol[V]):
    """Turns values of one type into bodies and back. See `holdfast.codecs` for ready-made ones."""

    def encode(self, value: V, /) -> bytes: ...
    def decode(self, body: bytes, /) -> V: ...


class MessageId(str):
    """The id of a sent message: `<ms>-<seq>`, and `-<shard>` where the queue has several."""

    __slots__ = ()
    duplicate: bool = False
    """True if nothing was sent, because a message with the same dedup id or unique name was."""


class DuplicateId(MessageId):
    __slots__ = ()
    duplicate = True


_ID = re.compile(r"(\d{1,15})-(\d{1,10})(?:-(\d{1,3}))?", re.ASCII)


def format_id(packed: bytes, shard: int) -> str:
    """The text of a packed 10-byte id."""
    ms, seq = int.from_bytes(packed[:6], "big"), int.from_bytes(packed[6:10], "big")
    return f"{ms}-{seq}-{shard}" if shard else f"{ms}-{seq}"


def parse_id(text: object) -> tuple[bytes, int]:
    """Packed id and shard. Raises InvalidArgument if the text cannot be an id."""
    found = _ID.fullmatch(text) if isinstance(text, str) else None
    if not found or int(found[1]) >= 1 << 48 or int(found[2]) >= 1 << 32:
        raise InvalidArgument(
            f"{text!r} is not a message id; ids look like 1599352749159-4, or 1599352749159-4-2"
        )
    packed = int(found[1]).to_bytes(6, "big") + int(found[2]).to_bytes(4, "big")
    return packed, int(found[3] or 0)


def format_receipt(message_id: str, batch: int) -> str:
    return f"{message_id}@{batch}"


def parse_receipt(text: object) -> tuple[bytes, int]:
    """What the engine wants (batch, id) and the shard. A bare id means its current delivery."""
    if not isinstance(text, str):
        raise InvalidArgument(f"a receipt or id must be text, not {type(text).__name__}")
    name, _, batch = text.partition("@")
    packed, shard = parse_id(name)
    if batch and not (batch.isascii() and batch.isdigit() and int(batch) < 1 << 48):
        raise InvalidArgument(f"{text!r} is not a receipt; receipts look like 1599352749159-4@17")
    return int(batch or 0).to_bytes(6, "big") + packed, shard


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to be sent, with everything that can be said about it.

    `delay` and `due` are two ways to say the same: seconds from now, or a point in time.
    `dedup_window`: how long its dedup_id is known, where that is not as long as the queue is set to.
    """

    body: Any
    delay: Seconds | None = None
    due: datetime | None = None
    priority: int = 0
    attributes: Mapping[str, str] | None = None
    group: str | None = None
    dedup_id: str | None = None
    ttl: Seconds | None = None
    dedup_window: Seconds | None = None


def body_bytes(body: object, codec: Codec[Any] | None = None) -> bytes:
    """The body as it is stored: bytes as they are, text as UTF-8, anything else encoded."""
    if isinstance(body, bytes):
        data = body
    elif isinstance(body, str):
        data = body.encode()
    elif isinstance(body, bytearray | memoryview):
        data = bytes(body)
    else:
        try:
            data = codec.encode(body) if codec else msgspec.json.encode(body)
        except Exception as error:
            raise InvalidArgument(
                f"cannot encode a body of type {type(body).__name__}: {error}; "
                "send bytes, text or a JSON-able object, or give the queue a codec"
            ) from error
    if len(data) > MAX_BODY:
        raise InvalidArgument(f"a body may have {MAX_BODY} bytes, this one has {len(data)}")
    return data


def _prefixed(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


def _attributes_bytes(attributes: Mapping[str, str]) -> bytes:
    for name, value in attributes.items():
        names.check(name, "an attribute's name")
        if not isinstance(value, str):
            raise InvalidArgument(
                f"attribute {name!r} must be text, not {type(value).__name__}; "
                "put structured data into the body"
            )
    data = msgspec.msgpack.encode(dict(attributes))
    if len(data) > MAX_ATTRIBUTES:
        raise InvalidArgument(f"attributes may take {MAX_ATTRIBUTES} bytes, these take {len(data)}")
    return len(data).to_bytes(4, "big") + data


def envelope(
    message: Outgoing, codec: Codec[Any] | None = None, unique: str | None = None
) -> bytes:
    """The sender's part of a packed message. Raises InvalidArgument before anything is sent."""
    flags, rest = 0, []
    if message.ttl is not None:
        flags |= _TTL
        rest.append(milliseconds(message.ttl, "ttl", least=1).to_bytes(6, "big"))
    if message.group is not None:
        flags |= _GROUP
        rest.append(_prefixed(names.check(message.group, "group")))
    if unique is not None:
        flags |= _UNIQUE
        rest.append(_prefixed(names.check(unique, "unique name")))
    if message.attributes:
        flags |= _ATTRIBUTES
        rest.append(_attributes_bytes(message.attributes))
    priority = whole(message.priority, "priority", 0, 9)
    content = b"".join([*rest, body_bytes(message.body, codec)])
    seed = _SEEDS[bytes([priority, flags])]
    return _ENVELOPE.pack(priority, flags, crc32(content, seed)) + content


def plain_envelope(body: bytes) -> bytes:
    """The envelope of one body about which nothing else is said."""
    if len(body) > MAX_BODY:
        body_bytes(body)  # raises, and says so
    return _ENVELOPE.pack(0, 0, crc32(body, _PLAIN)) + body


def plain_envelopes(bodies: Sequence[bytes]) -> list[bytes]:
    """Envelopes of bodies about which nothing else is said: the common case, made cheap."""
    if max(map(len, bodies)) > MAX_BODY:
        body_bytes(max(bodies, key=len))  # raises, and says so
    pack, crc, seed = _ENVELOPE.pack, crc32, _PLAIN
    return [pack(0, 0, crc(body, seed)) + body for body in bodies]


_CHECKED = Struct(">2sI")


def corrupt(records: Sequence[bytes]) -> list[int]:
    """Positions of those whose checksum does not match. Id and count are the server's own and not
    covered."""
    unpack, crc, seeds = _CHECKED.unpack_from, crc32, _SEEDS
    found = []
    for i, record in enumerate(records):
        try:
            kind, told = unpack(record, 12)
        except (struct_error, TypeError):  # there is not even a checksum
            found.append(i)
            continue
        if kind not in seeds or crc(record[18:], seeds[kind]) != told:
            found.append(i)
    return found


def utc(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


@dataclass(frozen=True, slots=True)
class Death:
    """Why, when and after what error a message became a dead letter."""

    reason: str
    error: str
    at: datetime


def split_dead(value: bytes) -> tuple[Death, bytes]:
    """The two parts of a dead letter as the engine keeps it: its head and the packed message."""
    at = int.from_bytes(value[:6], "big")
    middle = 8 + int.from_bytes(value[6:8], "big")
    end = middle + 2 + int.from_bytes(value[middle : middle + 2], "big")
    reason, error = (
        value[8:middle].decode("utf-8", "replace"),
        value[middle + 2 : end].decode("utf-8", "replace"),
    )
    return Death(reason, error, utc(at)), value[end:]


class Message:
    """A message as it is in the queue. Parts are unpacked when asked for."""

    _record: bytes
    _counted: int
    _codec: Codec[Any] | None
    shard: int
    state: State
    death: Death | None
    due: datetime | None
    received_at: datetime | None
    lease_until: datetime | None

    def __init__(
        self,
        record: bytes,
        shard: int,
        state: State,
        *,
        counted: int = 0,
        death: Death | None = None,
        due: datetime | None = None,
        received_at: datetime | None = None,
        lease_until: datetime | None = None,
        codec: Codec[Any] | None = None,
    ) -> None:
        self._record = record
        self._counted = counted
        self._codec = codec
        self.shard = shard
        self.state: State = state
        self.death = death
        self.due = due
        self.received_at = received_at
        self.lease_until = lease_until

    @property
    def packed(self) -> bytes:
        """As it lies in the server."""
        return self._record

    @property
    def id(self) -> str:
        return format_id(self._record, self.shard)

    @property
    def sent_at(self) -> datetime:
        return utc(int.from_bytes(self._record[:6], "big"))

    @property
    def receives(self) -> int:
        """How often it has been delivered, the current delivery included; releases do not count."""
        return (int.from_bytes(self._record[10:12], "big") & _RECEIVES) + self._counted

    @property
    def priority(self) -> int:
        return self._record[12]

    def _content_at(self, wanted: int) -> tuple[int, int]:
        """Start and end of one optional part, or of the body (0). Absent parts are empty."""
        record = self._record
        flags, at = record[13], _HEAD_SIZE
        for flag, prefix in ((_TTL, 0), (_GROUP, 2), (_UNIQUE, 2), (_ATTRIBUTES, 4)):
            start = at + prefix
            if flags & flag:
                size = int.from_bytes(record[at:start], "big") if prefix else 6
                at = start + size
            if flag == wanted:
                return (start, at) if flags & flag else (0, 0)
        return at, len(record)

    def _text(self, part: int) -> str | None:
        start, end = self._content_at(part)
        return self._record[start:end].decode() if end else None

    @property
    def body(self) -> bytes:
        record = self._record
        if not record[13]:
            return record[_HEAD_SIZE:]
        start, end = self._content_at(0)
        return record[start:end]

    def with_body(self, body: bytes) -> bytes:
        """The envelope of the same message with another body."""
        record = self._record
        start, _ = self._content_at(0)
        content = record[_HEAD_SIZE:start] + body
        priority, flags = record[12], record[13]
        seed = _SEEDS[bytes([priority, flags])]
        return _ENVELOPE.pack(priority, flags, crc32(content, seed)) + content

    @property
    def attributes(self) -> dict[str, str]:
        if not self._record[13] & _ATTRIBUTES:
            return {}
        start, end = self._content_at(_ATTRIBUTES)
        return msgspec.msgpack.decode(self._record[start:end], type=dict[str, str]) if end else {}

    @property
    def group(self) -> str | None:
        return self._text(_GROUP)

    @property
    def unique(self) -> str | None:
        return self._text(_UNIQUE)

    @property
    def expires_at(self) -> datetime | None:
        """When its own TTL ends. A queue's TTL setting applies to messages without one."""
        start, end = self._content_at(_TTL)
        if not end:
            return None
        return utc(
            int.from_bytes(self._record[:6], "big") + int.from_bytes(self._record[start:end], "big")
        )

    @property
    def size(self) -> int:
        return len(self.body)

    @property
    def text(self) -> str:
        """The body as text. Raises Corrupt if it is not UTF-8."""
        try:
            return self.body.decode()
        except UnicodeDecodeError as error:
            raise Corrupt(f"the body of {self.id} is not text: {error}; use .body") from error

    def json(self) -> Any:
        """The body as a JSON value. Raises Corrupt if it is not JSON."""
        try:
            return msgspec.json.decode(self.body)
        except msgspec.DecodeError as error:
            raise Corrupt(f"the body of {self.id} is not JSON: {error}; use .body") from error

    @property
    def value(self) -> Any:
        """The body decoded by the queue's codec, or as JSON if it has none."""
        if self._codec is None:
            return self.json()
        try:
            return self._codec.decode(self.body)
        except Exception as error:
            raise Corrupt(f"the codec cannot decode the body of {self.id}: {error}") from error

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.state} {self.size} bytes>"
