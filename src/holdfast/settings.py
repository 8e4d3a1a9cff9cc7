"""What can be set on a queue. Kept on the server, the same for all who use the queue.

`Settings` is what users see, in seconds; `WireSettings` is what the engine keeps, in whole ms, 0 for
"none". The defaults are spelled once, in WireSettings; the Lua side gets them from here.
Adding a setting? A field in each class, a line in `_CONVERTERS`, and docs/settings.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import timedelta
from enum import Enum
from typing import Any, Literal, cast

import msgspec

from holdfast.errors import InvalidArgument

Seconds = float | int | timedelta


class LeaseOf(Enum):
    """For a lease: the queue's; or that only if somebody set one, else until settled."""

    AS_SET = "as set"
    IF_SET = "if set"


AS_SET, IF_SET = LeaseOf.AS_SET, LeaseOf.IF_SET
# None: until settled. 0 is no lease: see `lease_of`.
Lease = Seconds | LeaseOf | None
MAX_SHARDS = 256
MAX_MS = 2**46


class WireSettings(msgspec.Struct, frozen=True, kw_only=True):
    lease_ms: int = 30_000
    max_receives: int = 5
    delay_ms: int = 0
    ttl_ms: int = 0
    max_length: int = 0
    overflow: str = "reject"
    dedup_ms: int = 300_000
    journal: int = 0
    journal_max: int = 100_000
    aging_ms: int = 0
    group_limit: int = 1
    shards: int = 1
    peer_timeout_ms: int = 30_000
    retention_ms: int = 7 * 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Settings:
    """A queue's settings. Times in seconds; None: no lease, no TTL, no limit, no aging."""

    lease: float | None
    max_receives: int | None
    delay: float
    ttl: float | None
    max_length: int | None
    overflow: Literal["reject", "drop_oldest"]
    dedup_window: float
    journal: bool
    journal_length: int
    aging: float | None
    group_limit: int
    shards: int
    peer_timeout: float
    """Topics only: a broadcast peer that has not observed for so long gets nothing new."""
    retention: float | None
    """Topics only: how long what nobody observes is kept."""


def milliseconds(value: object, what: str, *, least: int = 0) -> int:
    """Seconds or a timedelta as whole ms. Raises InvalidArgument if it is neither or out of range."""
    if isinstance(value, timedelta):
        ms = value / timedelta(milliseconds=1)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        ms = value * 1000
    else:
        raise InvalidArgument(
            f"{what} must be seconds or a timedelta, not {type(value).__name__} {value!r}"
        )
    if not least <= ms <= MAX_MS:  # also false for NaN
        raise InvalidArgument(
            f"{what} must be from {least / 1000:g} to {MAX_MS // 1000} seconds, not {value!r}"
        )
    # 0 often means something else than "very short": what is more than nothing stays so.
    return max(round(ms), 1) if ms > 0 else 0


def lease_of(value: object, what: str = "lease") -> int:
    """A lease as whole ms; 0 for None: until settled. Raises InvalidArgument, also for 0, which in
    other queues gives a message back and once was our word for None."""
    if value is None:
        return 0
    ms = milliseconds(value, what)
    if ms == 0:
        raise InvalidArgument(
            f"{what} must be more than 0 seconds; write None for one that lasts until the message is "
            "settled"
        )
    return ms


def whole(value: object, what: str, low: int, high: int) -> int:
    """A whole number within bounds. Raises InvalidArgument otherwise."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidArgument(
            f"{what} must be a whole number, not {type(value).__name__} {value!r}"
        )
    if not low <= value <= high:
        raise InvalidArgument(f"{what} must be from {low} to {high}, not {value}")
    return value


def _ms_or_none(value: object, what: str) -> int:
    return 0 if value is None else milliseconds(value, what, least=1)


def _count_or_none(value: object, what: str) -> int:
    return 0 if value is None else whole(value, what, 1, 2**31)


def _overflow(value: object, what: str) -> str:
    if value not in ("reject", "drop_oldest"):
        raise InvalidArgument(f"{what} must be 'reject' or 'drop_oldest', not {value!r}")
    return str(value)


def _flag(value: object, what: str) -> int:
    if not isinstance(value, bool):
        raise InvalidArgument(f"{what} must be True or False, not {value!r}")
    return int(value)


# Setting → its name on the wire, and how a user's value becomes the wire's.
_CONVERTERS: dict[str, tuple[str, Callable[[object, str], int | str]]] = {
    "lease": ("lease_ms", lease_of),
    "max_receives": ("max_receives", _count_or_none),
    "delay": ("delay_ms", milliseconds),
    "ttl": ("ttl_ms", _ms_or_none),
    "max_length": ("max_length", _count_or_none),
    "overflow": ("overflow", _overflow),
    "dedup_window": ("dedup_ms", milliseconds),
    "journal": ("journal", _flag),
    "journal_length": ("journal_max", lambda v, what: whole(v, what, 1, 2**31)),
    "aging": ("aging_ms", _ms_or_none),
    "group_limit": ("group_limit", lambda v, what: whole(v, what, 1, 10_000)),
    "shards": ("shards", lambda v, what: whole(v, what, 1, MAX_SHARDS)),
    "peer_timeout": ("peer_timeout_ms", lambda v, what: milliseconds(v, what, least=1)),
    "retention": ("retention_ms", _ms_or_none),
}


def to_wire(changes: dict[str, Any]) -> dict[str, int | str]:
    """Checked changes, by their wire names. Raises InvalidArgument for an unknown or bad one."""
    wire: dict[str, int | str] = {}
    for name, value in changes.items():
        if name not in _CONVERTERS:
            known = ", ".join(field.name for field in fields(Settings))
            raise InvalidArgument(f"there is no setting {name!r}; there are: {known}")
        wire_name, convert = _CONVERTERS[name]
        wire[wire_name] = convert(value, name)
    return wire


def named(wire: str) -> str:
    """What a setting is called, by its name on the wire."""
    return next((name for name, (on_wire, _) in _CONVERTERS.items() if on_wire == wire), wire)


def from_wire(text: bytes) -> Settings:
    """The settings in the engine's JSON."""
    wire = msgspec.json.decode(text, type=WireSettings)
    return Settings(
        lease=wire.lease_ms / 1000 or None,
        max_receives=wire.max_receives or None,
        delay=wire.delay_ms / 1000,
        ttl=wire.ttl_ms / 1000 or None,
        max_length=wire.max_length or None,
        overflow=cast("Literal['reject', 'drop_oldest']", wire.overflow),
        dedup_window=wire.dedup_ms / 1000,
        journal=wire.journal == 1,
        journal_length=wire.journal_max,
        aging=wire.aging_ms / 1000 or None,
        group_limit=wire.group_limit,
        shards=wire.shards,
        peer_timeout=wire.peer_timeout_ms / 1000,
        retention=wire.retention_ms / 1000 or None,
    )
