"""Holdfast holds every message fast until somebody acknowledges it.

import holdfast

with holdfast.connect() as hf:
    q = hf.queue("orders")
    q.send(b"hello")
    for delivery in q.consume(idle=1):
        with delivery:
            print(delivery.body)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import (
    AcceptTheState,
    AnswerLost,
    Corrupt,
    FixTheCall,
    HoldfastError,
    HoldfastWarning,
    InvalidArgument,
    LeaseLost,
    NoSuchMessage,
    NoSuchQueue,
    NotReplicated,
    NotSafe,
    QueueFull,
    Refused,
    ServerFull,
    TryAgain,
    Unavailable,
    Unsupported,
    WrongType,
)

if TYPE_CHECKING:
    from holdfast import codecs
    from holdfast.client._async.client import AsyncClient
    from holdfast.client._async.client import AsyncClient as connect_async
    from holdfast.client._async.delivery import AsyncDelivery
    from holdfast.client._async.queue import AsyncQueue
    from holdfast.client._sync.client import Client
    from holdfast.client._sync.client import Client as connect
    from holdfast.client._sync.delivery import Delivery
    from holdfast.client._sync.queue import Queue
    from holdfast.client.backoff import exponential
    from holdfast.engine.notes import Event
    from holdfast.engine.replies import Stats
    from holdfast.message import Codec, Death, Message, MessageId, Outgoing
    from holdfast.settings import Settings

__version__ = "0.1.0"

__all__ = [  # noqa: RUF022 (grouped)
    # connecting
    "connect",
    "connect_async",
    "Client",
    "AsyncClient",
    # queues
    "Queue",
    "AsyncQueue",
    "Settings",
    "Stats",
    "Event",
    # messages
    "Outgoing",
    "Message",
    "MessageId",
    "Delivery",
    "AsyncDelivery",
    "Death",
    "Codec",
    "codecs",
    "exponential",
    # errors
    "HoldfastError",
    "HoldfastWarning",
    "TryAgain",
    "Unavailable",
    "AnswerLost",
    "NotReplicated",
    "QueueFull",
    "ServerFull",
    "FixTheCall",
    "InvalidArgument",
    "WrongType",
    "Refused",
    "Unsupported",
    "NotSafe",
    "AcceptTheState",
    "LeaseLost",
    "NoSuchQueue",
    "NoSuchMessage",
    "Corrupt",
]

# Loaded when first asked for: the embedded server's keeper imports this package too, and must start
# at once.
_WHERE = {
    "connect": ("holdfast.client._sync.client", "Client"),
    "connect_async": ("holdfast.client._async.client", "AsyncClient"),
    "Client": ("holdfast.client._sync.client", "Client"),
    "AsyncClient": ("holdfast.client._async.client", "AsyncClient"),
    "Queue": ("holdfast.client._sync.queue", "Queue"),
    "AsyncQueue": ("holdfast.client._async.queue", "AsyncQueue"),
    "Delivery": ("holdfast.client._sync.delivery", "Delivery"),
    "AsyncDelivery": ("holdfast.client._async.delivery", "AsyncDelivery"),
    "Settings": ("holdfast.settings", "Settings"),
    "Stats": ("holdfast.engine.replies", "Stats"),
    "Event": ("holdfast.engine.notes", "Event"),
    "Outgoing": ("holdfast.message", "Outgoing"),
    "Message": ("holdfast.message", "Message"),
    "MessageId": ("holdfast.message", "MessageId"),
    "Death": ("holdfast.message", "Death"),
    "Codec": ("holdfast.message", "Codec"),
    "codecs": ("holdfast.codecs", ""),
    "exponential": ("holdfast.client.backoff", "exponential"),
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _WHERE[name]
    found = import_module(module)
    value = getattr(found, attribute) if attribute else found
    globals()[name] = value
    return value
