"""The clock of all queues of a kit: it stands, and moves when told to.

Dues, leases, dedup windows and TTLs of messages are by a queue's clock, and so by this one. Results are kept
and rates are counted by the server's own; a kit starts rates anew whenever its clock moves.
Rejected: a clock that runs ahead by an offset, under which no due time could be told exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from holdfast.errors import InvalidArgument
from holdfast.message import utc
from holdfast.settings import MAX_MS, Seconds, milliseconds


class Clock:
    """`moved` is told each new time, in ms."""

    def __init__(self, ms: int, moved: Callable[[int], None]) -> None:
        self._ms = ms
        self._moved = moved

    @property
    def now(self) -> datetime:
        return utc(self._ms)

    @property
    def ms(self) -> int:
        return self._ms

    def at(self, seconds: float) -> datetime:
        """So many seconds from now."""
        return self.now + timedelta(seconds=seconds)

    def advance(self, seconds: Seconds) -> None:
        """So many seconds pass. What falls due is run by the next `kit.run()`."""
        self.set_ms(self._ms + milliseconds(seconds, "seconds"))

    def set(self, time: datetime) -> None:
        """It is that time now; not before the present one."""
        if time.tzinfo is None:
            raise InvalidArgument("a time must have a time zone, for example UTC")
        self.set_ms(round(time.timestamp() * 1000))

    def set_ms(self, ms: int) -> None:
        if not self._ms <= ms <= MAX_MS:
            raise InvalidArgument(
                f"the clock stands at {self.now:%Y-%m-%d %H:%M:%S} UTC and goes forward only; a kit "
                "can begin at another time: holdfast_kit(app, at=…)"
            )
        self._ms = ms
        self._moved(ms)

    def __repr__(self) -> str:
        return f"<Clock {self.now.isoformat()}>"
