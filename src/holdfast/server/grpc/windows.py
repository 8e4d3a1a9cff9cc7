"""Flow control of streams: what each has handed out and nobody has settled.

A `Window` belongs to one stream and has room for so many messages. Acks and nacks come as calls of
their own, so the door keeps one register over all windows, `Windows`, from which a settled message
is taken out wherever it was handed out. (Turned down: settling inside the stream. It ties a message
to a connection, needs a second way to answer errors, and most languages' stubs make it clumsy.)

What was settled behind the door's back (directly in the store, through another server) makes room
when its lease would have ended. Time is this process's own, and never compared with the store's.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.client._async.delivery import AsyncDelivery
from holdfast.server.entrance import Place

Key = tuple[Place, str]


@dataclass(slots=True)
class Held:
    delivery: AsyncDelivery
    receipt: str
    until: float


class Window:
    def __init__(self, size: int, register: dict[Key, Window]) -> None:
        self.size = size
        self.held: dict[Key, Held] = {}
        self._register = register
        self._changed = asyncio.Event()
        # No lease ends before this: saves looking at all of them.
        self._earliest = math.inf

    @property
    def room(self) -> int:
        return self.size - len(self.held)

    def add(self, place: Place, deliveries: Iterable[AsyncDelivery], lease: float) -> None:
        """`lease`: seconds, 0 for one without end."""
        until = time.monotonic() + lease if lease else math.inf
        for delivery in deliveries:
            key = (place, delivery.id)
            # Handed out again after its lease ended, perhaps from another stream.
            if (other := self._register.get(key)) is not None:
                other.drop(key)
            self.held[key] = Held(delivery, delivery.receipt, until)
            self._register[key] = self
        self._earliest = min(self._earliest, until)

    def drop(self, key: Key) -> None:
        self.held.pop(key, None)
        if self._register.get(key) is self:
            del self._register[key]
        self._changed.set()

    def extended(self, key: Key, lease: float) -> None:
        self.held[key].until = time.monotonic() + lease if lease else math.inf

    def stir(self) -> None:
        self._changed.set()

    async def change(self, seconds: float) -> None:
        """Until something is settled, a lease ends, somebody stirs, or the time is over."""
        now = time.monotonic()
        if now >= self._earliest:
            for key in [k for k, held in self.held.items() if held.until <= now]:
                self.drop(key)
            self._earliest = min((h.until for h in self.held.values()), default=math.inf)
        if not self._changed.is_set():
            # Not wait_for: before Python 3.12 it can swallow a cancellation.
            try:
                async with asyncio.timeout(min(seconds, self._earliest - now)):
                    await self._changed.wait()
            except TimeoutError:
                return
        self._changed.clear()

    def close(self) -> list[AsyncDelivery]:
        """What nobody has settled; the window is empty then."""
        rest = [held.delivery for held in self.held.values()]
        for key in list(self.held):
            self.drop(key)
        return rest


class Windows:
    def __init__(self) -> None:
        self._register: dict[Key, Window] = {}
        self._open: set[Window] = set()

    def open(self, size: int) -> Window:
        window = Window(size, self._register)
        self._open.add(window)
        return window

    def close(self, window: Window) -> list[AsyncDelivery]:
        self._open.discard(window)
        return window.close()

    def __len__(self) -> int:
        return len(self._open)

    def settled(self, place: Place, receipts: Sequence[str]) -> None:
        for key, window in self._found(place, receipts):
            window.drop(key)

    def extended(self, place: Place, receipts: Sequence[str], lease: float) -> None:
        for key, window in self._found(place, receipts):
            window.extended(key, lease)

    def stir(self) -> None:
        for window in self._open:
            window.stir()

    def _found(self, place: Place, receipts: Sequence[str]) -> Iterable[tuple[Key, Window]]:
        if not self._register:
            return
        for receipt in receipts:
            key = (place, receipt.partition("@")[0])
            if (window := self._register.get(key)) is not None:
                yield key, window
