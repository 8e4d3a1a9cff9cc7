"""How much the server has in hand right now, over all its doors, and the refusal of more.

All doors run in one event loop, so plain numbers are exact. Refusing at once was preferred to
making callers wait in line: a line is memory too, and a caller told TOOMANY can slow down or go
elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import ServerBusy
from holdfast.server.limits import Limits
from holdfast.server.logs import Seldom

log = logging.getLogger("holdfast.server.meter")


class Meter:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._tell = Seldom(log, logging.WARNING, "refused")
        self.connections = 0
        """Open now."""
        self.in_flight = 0
        """Bytes of requests and answers held now."""
        self.connected = 0
        """Connections since the start."""
        self.refused = 0
        """Connections and requests turned away since the start."""

    def connect(self) -> None:
        """Count a connection in. Raises ServerBusy, counting nothing, if there are enough."""
        if self.connections >= self._limits.connections:
            self.refused += 1
            self._tell(why="connections", limit=self._limits.connections)
            raise ServerBusy(
                f"this server has {self.connections} connections, as many as it may; "
                "close some, try later, or raise limits.connections"
            )
        self.connections += 1
        self.connected += 1

    def disconnect(self) -> None:
        self.connections -= 1

    @contextmanager
    def holding(self, nbytes: int) -> Iterator[None]:
        """Count these bytes in until the block ends. Raises ServerBusy if they are too many now."""
        self.take(nbytes)
        try:
            yield
        finally:
            self.give(nbytes)

    def take(self, nbytes: int) -> None:
        """As holding, until `give`; for what grows and shrinks while it is held."""
        if self.in_flight + nbytes > self._limits.in_flight_bytes:
            self.refused += 1
            self._tell(why="bytes in flight", limit=self._limits.in_flight_bytes, asked=nbytes)
            raise ServerBusy(
                f"this server has {self.in_flight} bytes in hand and may have "
                f"{self._limits.in_flight_bytes}; {nbytes} more do not fit now: "
                "try later, send less at once, or raise limits.in_flight_bytes"
            )
        self.in_flight += nbytes

    def give(self, nbytes: int) -> None:
        self.in_flight -= nbytes
