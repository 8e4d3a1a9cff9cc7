"""What the remote clients send and get, to and from the contract's messages. No I/O here.

A delivery or message is packed again as the engine packs it, so that the same classes unpack it:
whoever holds one cannot tell which way it came.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from holdfast.engine.calls import Packed, pack
from holdfast.engine.replies import Mode, Peer, Stats, SubscriptionInfo
from holdfast.errors import InvalidArgument
from holdfast.filters import Filter
from holdfast.message import (
    Codec,
    Death,
    DuplicateId,
    Message,
    MessageId,
    Outgoing,
    State,
    body_bytes,
    envelope,
    parse_id,
    plain_envelopes,
    utc,
)
from holdfast.settings import Settings, WireSettings, from_wire, milliseconds, to_wire
from holdfast.v1 import broker_pb2 as pb

STATES: dict[State, pb.State.ValueType] = {
    "ready": pb.STATE_READY,
    "delayed": pb.STATE_DELAYED,
    "leased": pb.STATE_LEASED,
    "reserved": pb.STATE_RESERVED,
    "dead": pb.STATE_DEAD,
}
_STATE_NAMES = {number: name for name, number in STATES.items()}
MODES: dict[Mode, pb.SubscribeRequest.Mode.ValueType] = {
    "broadcast": pb.SubscribeRequest.MODE_BROADCAST,
    "shared": pb.SubscribeRequest.MODE_SHARED,
}
_MODE_NAMES = {number: name for name, number in MODES.items()}


class Parcel(Packed):
    """A checked message, ready to be sent. It was packed only for the sake of the checks, which are
    then the same whichever way a message goes."""

    __slots__ = ("proto",)

    def __init__(self, message: Any, codec: Codec[Any] | None, unique: str | None = None) -> None:
        if not isinstance(message, Outgoing):
            message = Outgoing(message)
        if message.dedup_window is not None:
            raise InvalidArgument(
                "a dedup_window of a message's own does not go through a Holdfast server; "
                "set that of the queue, or connect to Valkey itself"
            )
        message = replace(message, body=body_bytes(message.body, codec))
        packed = pack(message, None, unique)
        super().__init__(packed.envelope, packed.when, packed.dedup_id, packed.home)
        self.proto = pb.OutgoingMessage(
            body=message.body,
            attributes=message.attributes,
            priority=message.priority,
            group=message.group,
            dedup_id=message.dedup_id,
            ttl_ms=None if message.ttl is None else milliseconds(message.ttl, "ttl"),
            **when(packed),
        )


def when(packed: Packed) -> dict[str, Any]:
    """The due time as the contract's fields have it."""
    if not packed.when:
        return {}
    return {"delay_ms" if packed.when[0] == "+" else "due_at_ms": int(packed.when[1:])}


def message_id(sent: pb.SentMessage) -> MessageId:
    return DuplicateId(sent.id) if sent.duplicate else MessageId(sent.id)


def record(message: pb.Delivery | pb.StoredMessage, counted: int) -> tuple[bytes, int]:
    """The packed message and its shard. `counted`: deliveries that are not in the record."""
    packed, shard = parse_id(message.id)
    receives = min(max(message.receives - counted, 0), 0x7FFF).to_bytes(2, "big")
    group = message.group if message.HasField("group") else None
    unique = message.unique if message.HasField("unique") else None
    ttl = None
    if message.HasField("expires_at_ms"):
        ttl = max(message.expires_at_ms - message.sent_at_ms, 1) / 1000
    if message.priority or message.attributes or group or unique or ttl:
        outgoing = Outgoing(
            message.body,
            priority=message.priority,
            attributes=dict(message.attributes),
            group=group,
            ttl=ttl,
        )
        content = envelope(outgoing, None, unique)
    else:
        content = plain_envelopes([message.body])[0]
    return packed + receives + content, shard


def death(found: pb.Delivery | pb.StoredMessage) -> Death | None:
    if not found.HasField("death"):
        return None
    return Death(found.death.reason, found.death.error, utc(found.death.at_ms))


def stored(found: pb.StoredMessage, codec: Codec[Any] | None) -> Message:
    packed, shard = record(found, 0)
    return Message(
        packed,
        shard,
        _STATE_NAMES[found.state],
        death=death(found),
        due=utc(found.due_at_ms) if found.HasField("due_at_ms") else None,
        received_at=utc(found.received_at_ms) if found.HasField("received_at_ms") else None,
        lease_until=utc(found.lease_until_ms) if found.HasField("lease_until_ms") else None,
        codec=codec,
    )


def stats(found: pb.StatsResponse) -> Stats:
    names = {
        f.name: f.name.removesuffix("_ms").removesuffix("_at") for f in found.DESCRIPTOR.fields
    }
    names["last_ms"] = "last_ms"
    return Stats(**{ours: getattr(found, theirs) for theirs, ours in names.items()})


# Where the contract's word for a setting is not the engine's.
_FIELDS = {"dedup_ms": "dedup_window_ms", "journal_max": "journal_length"}


def settings(found: pb.QueueSettings) -> Settings:
    values = {
        name: getattr(found, _FIELDS.get(name, name)) for name in WireSettings.__struct_fields__
    }
    values["journal"] = int(values["journal"])
    return from_wire(msgspec.json.encode(values))


def changes(asked: dict[str, Any]) -> pb.QueueSettings:
    """Checked as for a direct client. Raises InvalidArgument."""
    wire: dict[str, Any] = {_FIELDS.get(k, k): v for k, v in to_wire(asked).items()}
    if "journal" in wire:
        wire["journal"] = bool(wire["journal"])
    return pb.QueueSettings(**wire)


def subscription(found: pb.Subscription) -> SubscriptionInfo:
    return SubscriptionInfo(
        found.consumer,
        found.peer if found.HasField("peer") else None,
        _MODE_NAMES[found.mode],
        utc(found.since_ms),
        Filter.from_json(found.filter_json) if found.filter_json else None,
        tuple(Peer(p.name, utc(p.last_seen_at_ms), p.live) for p in found.peers),
        "",
    )
