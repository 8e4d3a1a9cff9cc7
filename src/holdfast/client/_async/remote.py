"""The client of a Holdfast server: the same queues and topics, over gRPC."""

from __future__ import annotations

import secrets
from typing import Any, cast

from holdfast import forks, names
from holdfast.client._async.client import AsyncClient
from holdfast.client._async.remote_call import AsyncNoTransport, AsyncRemote
from holdfast.client._async.remote_queue import AsyncRemoteQueue
from holdfast.client._async.remote_topic import AsyncRemoteObserver, AsyncRemoteTopic
from holdfast.client.remote_address import File, parse
from holdfast.errors import Unsupported
from holdfast.message import Codec
from holdfast.settings import milliseconds
from holdfast.v1 import broker_pb2 as pb


class AsyncRemoteClient(AsyncClient):
    """Get one from `holdfast.connect_async("grpc://host:port")`. Safe to share; close it when done, or
    use it in an `async with` block.

    It offers what the server offers. The rest (events, the journal, the doctor, clocks for tests)
    raises Unsupported.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 10.0,
        retry_for: float = 30.0,
        token: str | None = None,
        ca: File | None = None,
        cert: File | None = None,
        key: File | None = None,
    ) -> None:
        # Not the base's: there is no Valkey to connect to, and no embedded server to start.
        milliseconds(timeout, "timeout", least=1)
        milliseconds(retry_for, "retry_for")
        self._remote_address = parse(url, token, ca, cert, key)
        self.remote = AsyncRemote(self._remote_address, timeout, retry_for)
        self.transport = cast("Any", AsyncNoTransport())
        self._membership = None
        self._reaper = None
        self.senders = []
        self._me = secrets.token_hex(6)
        forks.watch(self)

    async def send_named(self, method: Any, request: Any) -> Any:
        """The answer to a send or publish, under a name of ours: safe to repeat by itself."""
        sender = self.sender()
        sender.number += 1
        request.name.sender, request.name.number = sender.name, sender.number
        answer = await self.remote.call(method, request, named=True)
        # Not after an error: its last call may still be under way somewhere.
        self.senders.append(sender)
        return answer

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"

    @property
    def url(self) -> str:
        """Of the server. The token is not in it."""
        return self._remote_address.url

    def queue(self, name: str, *, codec: Codec[Any] | None = None) -> AsyncRemoteQueue:
        """The queue of that name."""
        return AsyncRemoteQueue(self, names.check(name, "a queue's name"), codec)

    def topic(self, name: str, *, codec: Codec[Any] | None = None) -> AsyncRemoteTopic:
        """The topic of that name; `codec` as for a queue."""
        return AsyncRemoteTopic(self, names.check(name, "a topic's name"), codec)

    def consumer(self, consumer: str, *, peer: str = "") -> AsyncRemoteObserver:
        """A consumer over all topics it is subscribed to, or one peer of it."""
        return AsyncRemoteObserver(self, names.check(consumer, "a consumer's id"), peer)

    async def queues(self) -> list[str]:
        """Names of the queues that the token may do anything with."""
        answer = await self.remote.call(self.remote.queues.ListQueues, pb.ListQueuesRequest())
        return list(answer.queues)

    async def topics(self) -> list[str]:
        """Names of the topics that the token may do anything with."""
        answer = await self.remote.call(self.remote.broker.ListTopics, pb.ListTopicsRequest())
        return list(answer.topics)

    async def ping(self) -> None:
        """Returns if a server answers; raises Unavailable if none does in time."""
        await self.remote.call(self.remote.queues.ListQueues, pb.ListQueuesRequest())

    async def start_reaper(self, every: float = 1.0) -> None:
        """Not for a remote client: the server does it."""
        raise Unsupported("the server tends the queues; start no reaper here")

    async def close(self) -> None:
        """Close the connection."""
        await self.remote.close()
