"""Calls to a Holdfast server: credentials, deadlines, and what is tried again.

What never left is tried again, and so is what can be repeated without harm, until `retry_for` is
over. The rest, once it was sent and the answer is lost, raises AnswerLost: whether it was done
cannot be known here.
"""

from __future__ import annotations

import random
import time
from typing import Any, NoReturn

import grpc

from holdfast import forks
from holdfast.client import remote_errors
from holdfast.client.channel_async import Channel, channel, close
from holdfast.client.io_async import sleep
from holdfast.client.remote_address import RemoteAddress
from holdfast.errors import Unavailable, Unsupported
from holdfast.v1.broker_pb2_grpc import BrokerStub, QueuesStub

# The engine knows a repetition for a minute; some of that is left to the way there. Seconds.
_REMEMBERED = 50.0
# Channels of a parent that was forked.
_inherited: list[Channel | None] = []


class AsyncRemote:
    """A channel to one server, and how to call it."""

    def __init__(self, address: RemoteAddress, timeout: float, retry_for: float) -> None:
        self._address = address
        self._timeout = timeout
        self._retry_for = retry_for
        self._channel: Channel | None = None
        self._stubs: tuple[Any, Any] | None = None
        forks.watch(self)

    def forked(self) -> None:
        """In the child of a fork: the parent's channel is neither used nor closed."""
        _inherited.append(self._channel)
        self._channel = self._stubs = None

    def _open(self) -> tuple[Any, Any]:
        stubs = self._stubs
        if stubs is None:
            made = self._channel = channel(self._address)
            stubs = self._stubs = QueuesStub(made), BrokerStub(made)
        return stubs

    @property
    def queues(self) -> Any:
        return self._open()[0]

    @property
    def broker(self) -> Any:
        return self._open()[1]

    async def call(
        self,
        method: Any,
        request: Any,
        *,
        repeatable: bool = True,
        longer: float = 0.0,
        named: bool = False,
    ) -> Any:
        """The answer, or a HoldfastError. `longer`: seconds that it may take beside the timeout.
        `named`: the request has a name by which the server knows a repetition."""
        give_up = time.monotonic() + self._retry_for
        pause = 0.05
        unsure: float | None = None
        while True:
            began = time.monotonic()
            try:
                return await method(
                    request, timeout=self._timeout + longer, metadata=self._address.metadata
                )
            except grpc.RpcError as error:
                said = remote_errors.told(error)
                again = remote_errors.never_sent(error) or (
                    repeatable
                    and (isinstance(said, Unavailable) if said else _lost_connection(error))
                )
                if not again or time.monotonic() + pause > give_up:
                    raise (
                        said
                        or remote_errors.of_grpc(error, self._address.url, repeatable=repeatable)
                    ) from None
                if named and not remote_errors.never_sent(error):
                    request.name.again = True
                    unsure = began if unsure is None else unsure
                if unsure is not None and time.monotonic() + pause > unsure + _REMEMBERED:
                    raise remote_errors.lost(error, self._address.url) from None
            await sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, 1.0)

    async def close(self) -> None:
        if self._channel is not None:
            await close(self._channel)


def _lost_connection(error: Any) -> bool:
    return bool(error.code() is grpc.StatusCode.UNAVAILABLE)


class AsyncNoTransport:
    """In the place of the connection to Valkey that a remote client does not have."""

    async def run(self, *_: Any) -> NoReturn:
        raise Unsupported(
            "this is not offered through a Holdfast server; connect to the Valkey behind it"
        )

    run_many = run_after = command = wait_for_any = examine_all = subscribe = run

    async def close(self) -> None:
        """Nothing is open."""
