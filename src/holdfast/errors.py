"""Every error Holdfast raises, and what the caller can do about it.

    HoldfastError
    ├── TryAgain                 the same call may succeed later
    │   ├── Unavailable          no server, or it is loading, failing over or down
    │   ├── AnswerLost           the call was sent, its answer never came, and repeating is not safe
    │   ├── NotReplicated        written, but too few replicas confirmed it
    │   ├── QueueFull            the queue is at its max_length
    │   ├── Resharded            this shard is none of the queue's any more; its clients send to another
    │   ├── ServerFull           the server is out of memory
    │   ├── ServerBusy           the Holdfast server has as many connections or bytes in hand as it may
    │   └── ResultTimeout        a task has not ended in the time one was ready to wait
    ├── FixTheCall               the same call can never succeed
    │   ├── InvalidArgument      an argument is out of range or of the wrong type (a ValueError)
    │   ├── WrongType            the key belongs to something that is not a Holdfast queue
    │   ├── TooLarge             a message, batch or request is past a limit of the Holdfast server
    │   ├── Refused              the server denies access: missing right
    │   │   └── Unauthenticated  no credentials, or wrong ones
    │   ├── Unsupported          the server or platform lacks something Holdfast needs
    │   └── NotSafe              the server may lose messages and you asked to refuse that
    └── AcceptTheState           the call was fine; the world has moved on
        ├── LeaseLost            the receipt is of an earlier delivery (stale)
        ├── NoSuchQueue          nothing was ever sent to or set on this queue
        ├── NoSuchMessage        the message is in no state: acked, expired, removed or never sent
        ├── NoSuchSubscription   this consumer, or this peer of it, is not subscribed to the topic
        ├── TaskFailed           a task whose result is wanted has failed for good
        ├── TaskCancelled        a task whose result is wanted was cancelled, or discarded itself
        ├── ReservationLost      a reader's reservation is not what the reader takes it for
        └── Corrupt              a message's checksum does not match its content

Each class carries its stable code word, the exit status for the CLI, and the status it has on the
gRPC and HTTP doors, so that no caller needs a switch statement.
Adding an error? Give it a code of its own; the engine's words are mapped by `from_server`.
"""

from __future__ import annotations

import re
from typing import ClassVar

__all__ = [
    "AcceptTheState",
    "AnswerLost",
    "Corrupt",
    "FixTheCall",
    "HoldfastError",
    "HoldfastWarning",
    "InvalidArgument",
    "LeaseLost",
    "NoSuchMessage",
    "NoSuchQueue",
    "NoSuchSubscription",
    "NotReplicated",
    "NotSafe",
    "QueueFull",
    "Refused",
    "ReservationLost",
    "Resharded",
    "ResultTimeout",
    "ServerBusy",
    "ServerFull",
    "TaskCancelled",
    "TaskFailed",
    "TooLarge",
    "TryAgain",
    "Unauthenticated",
    "Unavailable",
    "Unsupported",
    "WrongType",
    "by_code",
    "from_server",
]


class HoldfastWarning(UserWarning):
    """The connected server guarantees less than it could; the text says what and how to fix it."""


class HoldfastError(Exception):
    """The root of all errors raised by Holdfast."""

    code: ClassVar[str] = "ERROR"
    exit_status: ClassVar[int] = 1
    grpc_status: ClassVar[str] = "INTERNAL"
    http_status: ClassVar[int] = 500


class TryAgain(HoldfastError):
    """The same call may succeed later."""

    code = "TRYAGAIN"
    exit_status = 75
    grpc_status = "UNAVAILABLE"
    http_status = 503


class Unavailable(TryAgain):
    code = "UNAVAILABLE"


class AnswerLost(TryAgain):
    code = "ANSWERLOST"
    grpc_status = "UNKNOWN"
    http_status = 502


class NotReplicated(TryAgain):
    code = "NOTREPLICATED"


class QueueFull(TryAgain):
    code = "FULL"
    grpc_status = "RESOURCE_EXHAUSTED"
    http_status = 429


class Resharded(TryAgain):
    """`shards`: how many the queue has."""

    code = "RESHARDED"
    grpc_status = "ABORTED"
    http_status = 409

    @property
    def shards(self) -> int:
        return int(str(self).partition(" ")[0])


class ServerFull(TryAgain):
    code = "OOM"
    grpc_status = "RESOURCE_EXHAUSTED"
    http_status = 507


class ServerBusy(TryAgain):
    code = "TOOMANY"
    grpc_status = "RESOURCE_EXHAUSTED"
    http_status = 429


class ResultTimeout(TryAgain, TimeoutError):
    code = "NORESULT"
    grpc_status = "DEADLINE_EXCEEDED"
    http_status = 504


class FixTheCall(HoldfastError):
    """The same call can never succeed."""

    code = "BADCALL"
    exit_status = 64
    grpc_status = "INVALID_ARGUMENT"
    http_status = 400


class InvalidArgument(FixTheCall, ValueError):
    code = "INVALID"


class WrongType(FixTheCall):
    code = "WRONGTYPE"
    grpc_status = "FAILED_PRECONDITION"
    http_status = 409


class Refused(FixTheCall):
    code = "NOPERM"
    exit_status = 77
    grpc_status = "PERMISSION_DENIED"
    http_status = 403


class Unauthenticated(Refused):
    code = "NOAUTH"
    grpc_status = "UNAUTHENTICATED"
    http_status = 401


class TooLarge(FixTheCall):
    code = "TOOLARGE"
    grpc_status = "RESOURCE_EXHAUSTED"
    http_status = 413


class Unsupported(FixTheCall):
    code = "UNSUPPORTED"
    exit_status = 69
    grpc_status = "UNIMPLEMENTED"
    http_status = 501


class NotSafe(FixTheCall):
    code = "NOTSAFE"
    exit_status = 69
    grpc_status = "FAILED_PRECONDITION"
    http_status = 409


class AcceptTheState(HoldfastError):
    """The call was fine; the world has moved on."""

    code = "STATE"
    exit_status = 3
    grpc_status = "FAILED_PRECONDITION"
    http_status = 409


class LeaseLost(AcceptTheState):
    code = "STALE"


class NoSuchQueue(AcceptTheState):
    code = "NOQUEUE"
    grpc_status = "NOT_FOUND"
    http_status = 404


class NoSuchMessage(AcceptTheState):
    code = "NOMESSAGE"
    grpc_status = "NOT_FOUND"
    http_status = 404


class NoSuchSubscription(AcceptTheState):
    code = "NOSUBSCRIPTION"
    grpc_status = "NOT_FOUND"
    http_status = 404


class TaskFailed(AcceptTheState):
    """`trace` is the traceback of the last attempt, as text."""

    code = "TASKFAILED"

    def __init__(self, message: str = "", trace: str = "") -> None:
        super().__init__(message)
        self.trace = trace


class TaskCancelled(AcceptTheState):
    code = "CANCELLED"
    grpc_status = "CANCELLED"


class ReservationLost(AcceptTheState):
    code = "RESERVATION"


class Corrupt(AcceptTheState):
    code = "CORRUPT"
    grpc_status = "DATA_LOSS"
    http_status = 500


# The first word of a server's error → our class. The engine's own words, then Valkey's.
_BY_WORD: dict[str, type[HoldfastError]] = {
    cls.code: cls
    for cls in (
        AnswerLost,
        QueueFull,
        Resharded,
        InvalidArgument,
        NoSuchQueue,
        NoSuchMessage,
        NoSuchSubscription,
        ReservationLost,
    )
} | {
    "WRONGTYPE": WrongType,
    "OOM": ServerFull,
    "NOAUTH": Refused,
    "WRONGPASS": Refused,
    "NOPERM": Refused,
    "READONLY": Unavailable,
    "LOADING": Unavailable,
    "BUSY": Unavailable,
    "MASTERDOWN": Unavailable,
    "CLUSTERDOWN": Unavailable,
    "TRYAGAIN": Unavailable,
    # Refused before anything was written; another primary may have replicas enough.
    "NOREPLICAS": Unavailable,
    "MISCONF": Unavailable,
}


def from_server(text: str) -> HoldfastError:
    """The typed error for what the server answered; an unknown word becomes a plain HoldfastError.

    The engine's own words are dropped from the message, since the class says the same; a foreign
    server's text is kept whole.
    """
    # Servers add where in the library it happened; that is of no use to a caller.
    text = re.sub(r" script: \S*,? ?on @user_function:\d+\.$", "", text)
    word, _, rest = text.partition(" ")
    cls = _BY_WORD.get(word, HoldfastError)
    return cls(rest if cls.code == word and rest else text)


def _classes(root: type[HoldfastError]) -> dict[str, type[HoldfastError]]:
    found = {root.code: root}
    for cls in root.__subclasses__():
        found |= _classes(cls)
    return found


def by_code(code: str) -> type[HoldfastError]:
    """The class with that code word; HoldfastError itself for one nobody knows."""
    return _classes(HoldfastError).get(code, HoldfastError)
