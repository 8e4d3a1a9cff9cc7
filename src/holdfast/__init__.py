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
    NoSuchSubscription,
    NotReplicated,
    NotSafe,
    QueueFull,
    Refused,
    ReservationLost,
    ResultTimeout,
    ServerBusy,
    ServerFull,
    TaskCancelled,
    TaskFailed,
    TooLarge,
    TryAgain,
    Unauthenticated,
    Unavailable,
    Unsupported,
    WrongType,
)

if TYPE_CHECKING:
    from holdfast import codecs, filters
    from holdfast.client._async.client import AsyncClient
    from holdfast.client._async.connecting import connect_async
    from holdfast.client._async.delivery import AsyncDelivery
    from holdfast.client._async.queue import AsyncQueue
    from holdfast.client._async.subscription import AsyncSubscription
    from holdfast.client._async.topic import AsyncTopic
    from holdfast.client._sync.client import Client
    from holdfast.client._sync.connecting import connect
    from holdfast.client._sync.delivery import Delivery
    from holdfast.client._sync.queue import Queue
    from holdfast.client._sync.subscription import Subscription
    from holdfast.client._sync.topic import Topic
    from holdfast.client.backoff import exponential
    from holdfast.engine.notes import Event
    from holdfast.engine.replies import Peer, Stats, SubscriptionInfo
    from holdfast.engine.reserving import Reader, Reservation
    from holdfast.filters import Filter
    from holdfast.message import Codec, Death, Message, MessageId, Outgoing
    from holdfast.settings import AS_SET, Settings
    from holdfast.tasks.app import App
    from holdfast.tasks.context import Context, current
    from holdfast.tasks.flows import Chain, Group, Job, chain, group
    from holdfast.tasks.handle import Handle
    from holdfast.tasks.limits import Concurrency, Rate
    from holdfast.tasks.middleware import Middleware
    from holdfast.tasks.outcomes import Discard, Retry, Snooze, TaskTimeout, WorkerProcessDied
    from holdfast.tasks.retries import Retries
    from holdfast.tasks.task import Task

__version__ = "0.6.1"

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
    "AS_SET",
    "Stats",
    "Event",
    "Reader",
    "Reservation",
    # topics
    "Topic",
    "AsyncTopic",
    "Subscription",
    "AsyncSubscription",
    "SubscriptionInfo",
    "Peer",
    "Filter",
    "filters",
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
    # tasks
    "App",
    "Task",
    "Handle",
    "Retries",
    "Retry",
    "Snooze",
    "Discard",
    "TaskTimeout",
    "WorkerProcessDied",
    "Rate",
    "Concurrency",
    "Job",
    "Chain",
    "Group",
    "chain",
    "group",
    "current",
    "Context",
    "Middleware",
    # errors
    "HoldfastError",
    "HoldfastWarning",
    "TryAgain",
    "Unavailable",
    "AnswerLost",
    "NotReplicated",
    "QueueFull",
    "ServerFull",
    "ServerBusy",
    "ResultTimeout",
    "FixTheCall",
    "InvalidArgument",
    "WrongType",
    "TooLarge",
    "Refused",
    "Unauthenticated",
    "Unsupported",
    "NotSafe",
    "AcceptTheState",
    "LeaseLost",
    "NoSuchQueue",
    "NoSuchMessage",
    "NoSuchSubscription",
    "ReservationLost",
    "TaskFailed",
    "TaskCancelled",
    "Corrupt",
]

# Loaded when first asked for: the embedded server's keeper imports this package too, and must start
# at once.
_WHERE = {
    "connect": ("holdfast.client._sync.connecting", "connect"),
    "connect_async": ("holdfast.client._async.connecting", "connect_async"),
    "Client": ("holdfast.client._sync.client", "Client"),
    "AsyncClient": ("holdfast.client._async.client", "AsyncClient"),
    "Queue": ("holdfast.client._sync.queue", "Queue"),
    "AsyncQueue": ("holdfast.client._async.queue", "AsyncQueue"),
    "Delivery": ("holdfast.client._sync.delivery", "Delivery"),
    "AsyncDelivery": ("holdfast.client._async.delivery", "AsyncDelivery"),
    "Topic": ("holdfast.client._sync.topic", "Topic"),
    "AsyncTopic": ("holdfast.client._async.topic", "AsyncTopic"),
    "Subscription": ("holdfast.client._sync.subscription", "Subscription"),
    "AsyncSubscription": ("holdfast.client._async.subscription", "AsyncSubscription"),
    "SubscriptionInfo": ("holdfast.engine.replies", "SubscriptionInfo"),
    "Peer": ("holdfast.engine.replies", "Peer"),
    "Filter": ("holdfast.filters", "Filter"),
    "filters": ("holdfast.filters", ""),
    "Settings": ("holdfast.settings", "Settings"),
    "AS_SET": ("holdfast.settings", "AS_SET"),
    "Stats": ("holdfast.engine.replies", "Stats"),
    "Reader": ("holdfast.engine.reserving", "Reader"),
    "Reservation": ("holdfast.engine.reserving", "Reservation"),
    "Event": ("holdfast.engine.notes", "Event"),
    "Outgoing": ("holdfast.message", "Outgoing"),
    "Message": ("holdfast.message", "Message"),
    "MessageId": ("holdfast.message", "MessageId"),
    "Death": ("holdfast.message", "Death"),
    "Codec": ("holdfast.message", "Codec"),
    "codecs": ("holdfast.codecs", ""),
    "exponential": ("holdfast.client.backoff", "exponential"),
    "App": ("holdfast.tasks.app", "App"),
    "Task": ("holdfast.tasks.task", "Task"),
    "Handle": ("holdfast.tasks.handle", "Handle"),
    "Retries": ("holdfast.tasks.retries", "Retries"),
    "Retry": ("holdfast.tasks.outcomes", "Retry"),
    "Snooze": ("holdfast.tasks.outcomes", "Snooze"),
    "Discard": ("holdfast.tasks.outcomes", "Discard"),
    "TaskTimeout": ("holdfast.tasks.outcomes", "TaskTimeout"),
    "WorkerProcessDied": ("holdfast.tasks.outcomes", "WorkerProcessDied"),
    "Rate": ("holdfast.tasks.limits", "Rate"),
    "Concurrency": ("holdfast.tasks.limits", "Concurrency"),
    "Job": ("holdfast.tasks.flows", "Job"),
    "Chain": ("holdfast.tasks.flows", "Chain"),
    "Group": ("holdfast.tasks.flows", "Group"),
    "chain": ("holdfast.tasks.flows", "chain"),
    "group": ("holdfast.tasks.flows", "group"),
    "current": ("holdfast.tasks.context", "current"),
    "Context": ("holdfast.tasks.context", "Context"),
    "Middleware": ("holdfast.tasks.middleware", "Middleware"),
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
