"""What a call has not sent when it is given up is never sent: its repetition may be answered by then."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import uvloop
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from holdfast.client import io_async
from holdfast.client._async.node import AsyncNode
from holdfast.client._sync.node import Node
from holdfast.client.address import parse
from holdfast.client.wire import forget_unsent

LARGE = b"x" * (32 << 20)  # more than the kernel holds for one connection


class Silent:
    """A server that takes nothing until it is told to."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.port: int = listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"

    def accept(self) -> socket.socket:
        self._listener.settimeout(10)
        return self._listener.accept()[0]

    def wait_for_something(self) -> socket.socket:
        """Somebody has connected and begun to send."""
        accepted = self.accept()
        select.select([accepted], [], [], 10)
        return accepted

    def was_cut_off(self, accepted: socket.socket | None = None) -> bool:
        """Read to the end. Did the sender break the connection off, or send all that it still had?"""
        with self.wait_for_something() if accepted is None else accepted as accepted:
            accepted.settimeout(20)
            try:
                while accepted.recv(1 << 20):
                    pass
            except ConnectionResetError:
                return True
            return False


@pytest.fixture
def silent() -> Iterator[Silent]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield Silent(listener)


def test_a_connection_that_failed_sends_nothing_more(silent: Silent) -> None:
    node = Node(parse(silent.url), "127.0.0.1", silent.port, 0.1)
    with pytest.raises(RedisTimeoutError):
        node.command("SET", "x", LARGE)
    assert silent.was_cut_off()


async def test_neither_does_one_of_the_asynchronous_client(silent: Silent) -> None:
    node = AsyncNode(parse(silent.url), "127.0.0.1", silent.port, 0.1)
    with pytest.raises(RedisTimeoutError):
        await node.command("SET", "x", LARGE)
    # While the loop runs: it would go on to send what it holds itself.
    assert await asyncio.to_thread(silent.was_cut_off)


async def test_nor_does_a_send_that_was_cancelled(silent: Silent) -> None:
    node = AsyncNode(parse(silent.url), "127.0.0.1", silent.port, 10)
    task = asyncio.create_task(node.command("SET", "x", LARGE))
    accepted = await asyncio.to_thread(silent.wait_for_something)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(silent.was_cut_off, accepted)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_line_that_the_server_has_reset_is_a_lost_connection_on_every_loop(
    silent: Silent, run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    async def use() -> None:
        used = io_async.connection(parse(silent.url), "127.0.0.1", silent.port, 10)
        await used._connect()
        assert used._writer is not None
        accepted = await asyncio.to_thread(silent.accept)
        forget_unsent(accepted)
        accepted.close()
        async with asyncio.timeout(10):
            while not used._writer.transport.is_closing():
                await asyncio.sleep(0.001)
        await asyncio.sleep(0)  # it is closed in the loop's next turn
        with pytest.raises(RedisConnectionError):
            await io_async.send(used, [b"PING\r\n"], 10)
        assert not used.is_connected

    run(use())
