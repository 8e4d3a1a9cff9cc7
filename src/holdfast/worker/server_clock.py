"""The server's time, counted on by our own clock since we last asked.

By the monotonic one, so a step of the local time does not matter. An answer that was long under way makes
this clock slow by as much, never fast: what goes by it comes late rather than early.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from holdfast.client._async.client import AsyncClient

_ASK_AGAIN = 60.0
# The local clocks have moved apart: one was set, or the machine slept, which not every clock counts.
_APART = 0.5


class ServerClock:
    """`key`: of whose node in a cluster."""

    def __init__(self, client: AsyncClient, key: str) -> None:
        self._client = client
        self._key = key
        self._said = 0.0
        self._asked: float | None = None
        self._ahead = 0.0

    async def now(self) -> datetime:
        asked, ahead = time.monotonic(), time.time() - time.monotonic()
        old = self._asked is None or asked - self._asked > _ASK_AGAIN
        if old or abs(ahead - self._ahead) > _APART:
            seconds, micros = await self._client.transport.command("TIME", key=self._key)
            self._said = int(seconds) + int(micros) / 1e6
            self._asked = time.monotonic()
            self._ahead = time.time() - self._asked
        assert self._asked is not None
        return datetime.fromtimestamp(self._said + time.monotonic() - self._asked, UTC)
