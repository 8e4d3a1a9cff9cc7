"""One line of JSON as a message to send: `{"body": …, "delay": "5m", "priority": 3}`.

What `receive --json` and `inspect --json` print is taken back; what only describes the message as
it was in the queue is left aside.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import msgspec

from holdfast.cli import durations
from holdfast.errors import InvalidArgument
from holdfast.message import Outgoing

_TAKEN = (
    "body",
    "body_base64",
    "delay",
    "due",
    "priority",
    "attributes",
    "group",
    "dedup_id",
    "ttl",
)
_DESCRIBES = frozenset(
    (
        "id",
        "receipt",
        "state",
        "receives",
        "sent_at",
        "expires_at",
        "received_at",
        "lease_until",
        "death",
        "topic",
    )
)


def outgoing(line: bytes, default: Outgoing) -> Outgoing:
    """The message in a line; what it does not say is as in `default`. Raises InvalidArgument."""
    try:
        fields = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise InvalidArgument(f"not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise InvalidArgument(f'must be an object like {{"body": …}}, not {type(fields).__name__}')
    unknown = [name for name in fields if name not in _TAKEN and name not in _DESCRIBES]
    if unknown:
        raise InvalidArgument(f"unknown field {unknown[0]!r}; there are: {', '.join(_TAKEN)}")
    said = {name: value for name, value in fields.items() if value is not None}
    when = "delay" in said or "due" in said
    return Outgoing(
        body=_body(fields),
        delay=_seconds(said, "delay") if when else default.delay,
        due=durations.moment(_text(said, "due"), "due")
        if "due" in said
        else (None if when else default.due),
        priority=said.get("priority", default.priority),
        attributes={**(default.attributes or {}), **_attributes(said)} or None,
        group=said.get("group", default.group),
        dedup_id=said.get("dedup_id", default.dedup_id),
        ttl=_seconds(said, "ttl") if "ttl" in said else default.ttl,
    )


def _body(fields: dict[str, Any]) -> Any:
    if ("body" in fields) == ("body_base64" in fields):
        raise InvalidArgument('must have either "body" or "body_base64"')
    if "body" in fields:
        body = fields["body"]
        # A bare null, number or flag is JSON too, and text goes as it is.
        return body if isinstance(body, str) else msgspec.json.encode(body)
    try:
        return b64decode(_text(fields, "body_base64"), validate=True)
    except ValueError as error:
        raise InvalidArgument(f"body_base64: {error}") from error


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} must be text, not {type(value).__name__}")
    return value


def _seconds(said: dict[str, Any], name: str) -> Any:
    value = said.get(name)
    return durations.seconds(value, name) if isinstance(value, str) else value


def _attributes(said: dict[str, Any]) -> dict[str, Any]:
    value = said.get("attributes", {})
    if not isinstance(value, dict):
        raise InvalidArgument(f"attributes must be an object, not {type(value).__name__}")
    return value
