"""The RESP door: listens, keeps its connections, and closes in good order."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time

from holdfast.server.broker import Broker
from holdfast.server.gate import Gate
from holdfast.server.meter import Meter
from holdfast.server.resp.connection import Connection
from holdfast.server.resp.table import TABLE

log = logging.getLogger("holdfast.server")

# As many connections may be made in one moment and wait to be looked at.
_BACKLOG = 1024


class RespDoor:
    def __init__(
        self,
        broker: Broker,
        gate: Gate,
        meter: Meter,
        host: str,
        port: int,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.broker = broker
        self.gate = gate
        self.meter = meter
        self.table = TABLE
        self.connections: set[Connection] = set()
        self.working: set[asyncio.Task[None]] = set()
        self.started = time.time()
        self.address = ""
        self._where = (host, port)
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._watch: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Bind and serve; `address` is then where."""
        self.loop = asyncio.get_running_loop()
        self.quieted = asyncio.Event()
        self.parted = asyncio.Event()
        host, port = self._where
        self._server = await self.loop.create_server(
            lambda: Connection(self), host, port, ssl=self._tls, backlog=_BACKLOG
        )
        bound = self._server.sockets[0].getsockname()
        name = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        self.address = f"{name}:{bound[1]}"
        self.started = time.time()
        if self.broker.limits.idle_seconds:
            self._watch = self.loop.create_task(self._part_with_idle())

    async def quiet(self) -> None:
        """Accept nobody new; calls that wait for messages end now, with nothing."""
        if self._server is not None:
            self._server.close()
        self.quieted.set()

    async def close(self, deadline_s: float) -> None:
        """Answer what has come, within the deadline, and close; what is taken for calls that are cut
        off is given back."""
        await self.quiet()
        if self._watch is not None:
            self._watch.cancel()
        for connection in list(self.connections):
            connection.finish()
        give_up = self.loop.time() + deadline_s
        while self.connections and (left := give_up - self.loop.time()) > 0:
            self.parted.clear()
            try:
                await asyncio.wait_for(self.parted.wait(), left)
            except TimeoutError:
                break
        for connection in list(self.connections):
            connection.abort()
        while self.connections:  # they are told in the next turn of the loop
            await asyncio.sleep(0)
        if self.working:
            await asyncio.wait(self.working, timeout=max(deadline_s, 1.0))
        if self._server is not None:
            await self._server.wait_closed()
            self._server = None

    async def _part_with_idle(self) -> None:
        longest = self.broker.limits.idle_seconds
        while True:
            await asyncio.sleep(min(longest / 4, 10.0))
            now = self.loop.time()
            for connection in list(self.connections):
                try:
                    if connection.idle and now - connection.active > longest:
                        connection.close()
                except Exception:
                    log.exception("parting with an idle connection; going on")
