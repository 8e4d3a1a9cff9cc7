"""A failed gRPC call as the error that a direct client would have raised.

The server says the class in its details. What has none comes from gRPC itself: the connection, the
deadline, or a limit of the channel.
"""

from __future__ import annotations

from typing import Any

import grpc
from google.rpc.error_details_pb2 import ErrorInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from holdfast.errors import (
    AnswerLost,
    HoldfastError,
    InvalidArgument,
    ServerBusy,
    TooLarge,
    Unavailable,
    Unsupported,
    by_code,
)

_DETAILS = "grpc-status-details-bin"
_DOMAIN = "holdfast"
# gRPC's words for a call that never left this machine.
_NEVER_SENT = ("failed to connect to all addresses", "DNS resolution failed", "empty address list")


def told(error: Any) -> HoldfastError | None:
    """What the server said; None if it did not say anything."""
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS:
            status = Status.FromString(value)
            for detail in status.details:
                info = ErrorInfo()
                if detail.Unpack(info) and info.domain == _DOMAIN:
                    return by_code(info.reason)(status.message)
    return None


def never_sent(error: Any) -> bool:
    text = error.details() or ""
    return error.code() is grpc.StatusCode.UNAVAILABLE and text.startswith(_NEVER_SENT)


def lost(error: Any, where: str) -> AnswerLost:
    """It was sent, and repeating it is not safe, or not any more."""
    return AnswerLost(
        f"no answer from {where}: {error.details() or 'no more is known'}; it may have been done or not. To "
        "make a send safe to repeat, give each message a dedup_id"
    )


def of_grpc(error: Any, where: str, *, repeatable: bool) -> HoldfastError:
    """The error for one that gRPC raised by itself. `repeatable`: doing it again does no harm."""
    code, text = error.code(), error.details() or "no more is known"
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        if "larger than max" in text:
            return TooLarge(f"the message is too large for {where}: {text}; send less at once")
        return ServerBusy(f"{where} has as much to do as it may: {text}; try later")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return Unsupported(f"{where} does not offer this: {text}; is it an older server?")
    if code is grpc.StatusCode.INVALID_ARGUMENT:
        return InvalidArgument(text)
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
        if repeatable or never_sent(error):
            return Unavailable(f"no answer from {where}: {text}")
        return lost(error, where)
    return HoldfastError(f"{where} failed: {code.name}: {text}")
