"""Proto messages to the values of the broker, and back. One function per shape, no rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from holdfast.client._async.delivery import AsyncDelivery
from holdfast.client.sender import CallName
from holdfast.engine.replies import Stats
from holdfast.errors import InvalidArgument
from holdfast.message import Death, Message, MessageId, Outgoing, State, utc
from holdfast.server.entrance import Place, Seat
from holdfast.settings import AS_SET, MAX_MS, LeaseOf, Seconds, Settings
from holdfast.v1 import broker_pb2 as pb

STATES: Mapping[int, State] = {
    pb.STATE_READY: "ready",
    pb.STATE_DELAYED: "delayed",
    pb.STATE_LEASED: "leased",
    pb.STATE_RESERVED: "reserved",
    pb.STATE_DEAD: "dead",
}
_STATE_NUMBERS = {word: number for number, word in STATES.items()}


class Placed(Protocol):
    """A request that names a queue or a seat."""

    @property
    def queue(self) -> str: ...
    @property
    def seat(self) -> pb.Seat: ...
    def WhichOneof(self, oneof_group: Any, /) -> Any: ...


def place(request: Placed) -> Place:
    chosen = request.WhichOneof("place")
    if chosen is None:
        raise InvalidArgument("the request must name a queue or a seat")
    if chosen == "queue":
        return request.queue
    return seat(request.seat)


def seat(named: pb.Seat) -> Seat:
    return Seat(named.topic, named.consumer, named.peer)


def name(request: pb.SendRequest | pb.PublishRequest) -> CallName | None:
    """The caller's own name for this call, if it gave one."""
    if not request.HasField("name"):
        return None
    return CallName(request.name.sender, request.name.number, request.name.again)


def moment(ms: int, what: str) -> datetime:
    if not 0 <= ms <= MAX_MS:
        raise InvalidArgument(f"{what} must be from 0 to {MAX_MS}, in ms since 1970, not {ms}")
    return utc(ms)


def ms(value: datetime) -> int:
    return round(value.timestamp() * 1000)


def state(number: int) -> State:
    if number not in STATES:
        raise InvalidArgument(
            "state must be one of STATE_READY, _DELAYED, _LEASED, _RESERVED and _DEAD"
        )
    return STATES[number]


def seconds(request: Any, name: str) -> float | None:
    """An optional duration: None if it is not set."""
    return getattr(request, name) / 1000 if request.HasField(name) else None


def lease(request: Any) -> Seconds | LeaseOf | None:
    """Absent: as the queue is set. 0: until settled."""
    if not request.HasField("lease_ms"):
        return AS_SET
    return request.lease_ms / 1000 or None


def ending_lease(request: Any) -> Seconds | LeaseOf:
    """Absent or 0: as the subscription is set, whose leases always end."""
    return lease(request) or AS_SET


def outgoing(message: pb.OutgoingMessage) -> Outgoing:
    when = message.WhichOneof("when")
    return Outgoing(
        message.body,
        delay=message.delay_ms / 1000 if when == "delay_ms" else None,
        due=moment(message.due_at_ms, "due_at_ms") if when == "due_at_ms" else None,
        priority=message.priority,
        attributes=dict(message.attributes) or None,
        group=message.group if message.HasField("group") else None,
        dedup_id=message.dedup_id if message.HasField("dedup_id") else None,
        ttl=seconds(message, "ttl_ms"),
    )


def only_bodies(messages: Sequence[pb.OutgoingMessage]) -> list[bytes] | None:
    """The bodies, if nothing else is said about any of these messages."""
    bodies: list[bytes] = []
    for message in messages:
        fields = message.ListFields()
        if len(fields) > 1 or (fields and fields[0][0].number != 1):
            return None
        bodies.append(message.body)
    return bodies


def sent(ids: Iterable[MessageId]) -> list[pb.SentMessage]:
    return [pb.SentMessage(id=i, duplicate=i.duplicate) for i in ids]


def _death(death: Death) -> pb.Death:
    return pb.Death(reason=death.reason, error=death.error, at_ms=ms(death.at))


def _common(message: Message) -> dict[str, Any]:
    expires, death, unique = message.expires_at, message.death, message.unique
    return {
        "id": message.id,
        "sent_at_ms": ms(message.sent_at),
        "body": message.body,
        "attributes": message.attributes,
        "priority": message.priority,
        "group": message.group,
        "receives": message.receives,
        "expires_at_ms": ms(expires) if expires else None,
        "unique": unique,
        "death": _death(death) if death else None,
        "lease_until_ms": ms(message.lease_until) if message.lease_until else None,
    }


def delivery(got: AsyncDelivery, *, settled: bool = False) -> pb.Delivery:
    return pb.Delivery(source=got.source, receipt="" if settled else got.receipt, **_common(got))


def stored(message: Message) -> pb.StoredMessage:
    return pb.StoredMessage(
        state=_STATE_NUMBERS[message.state],  # type: ignore[arg-type]
        due_at_ms=ms(message.due) if message.due else None,
        received_at_ms=ms(message.received_at) if message.received_at else None,
        **_common(message),
    )


def stats(found: Stats) -> pb.StatsResponse:
    renamed = {
        "paused_until": "paused_until_ms",
        "next_due": "next_due_at_ms",
        "oldest_ready": "oldest_ready_at_ms",
        "now": "now_ms",
    }
    known = pb.StatsResponse.DESCRIPTOR.fields_by_name
    values = {renamed.get(name, name): getattr(found, name) for name in Stats.__slots__}
    return pb.StatsResponse(**{name: value for name, value in values.items() if name in known})


# Setting → its field, and how many of the field's units one of the setting's is. None is 0.
SETTINGS: dict[str, tuple[str, int]] = {
    "lease": ("lease_ms", 1000),
    "max_receives": ("max_receives", 1),
    "delay": ("delay_ms", 1000),
    "ttl": ("ttl_ms", 1000),
    "max_length": ("max_length", 1),
    "overflow": ("overflow", 0),
    "dedup_window": ("dedup_window_ms", 1000),
    "journal": ("journal", 0),
    "journal_length": ("journal_length", 1),
    "aging": ("aging_ms", 1000),
    "group_limit": ("group_limit", 1),
    "shards": ("shards", 1),
    "peer_timeout": ("peer_timeout_ms", 1000),
    "retention": ("retention_ms", 1000),
}
# Those for which 0 is a value of its own.
_ZERO_IS_ZERO = {"delay", "dedup_window"}


def settings(found: Settings) -> pb.SettingsResponse:
    values: dict[str, Any] = {}
    for name, (field, factor) in SETTINGS.items():
        if not hasattr(found, name):
            continue
        value = getattr(found, name)
        values[field] = value if factor == 0 else round((value or 0) * factor)
    return pb.SettingsResponse(settings=pb.QueueSettings(**values))


def changes(asked: pb.QueueSettings) -> dict[str, Any]:
    """As `configure` wants them."""
    found: dict[str, Any] = {}
    for name, (field, factor) in SETTINGS.items():
        if asked.HasField(field):  # type: ignore[arg-type]
            value = getattr(asked, field)
            if factor == 1000:
                value = value / 1000
            found[name] = value if value or name in _ZERO_IS_ZERO or factor == 0 else None
    return found
