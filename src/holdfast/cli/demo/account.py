"""Does it add up? The workers' own records, held against what the queue counted.

Each worker writes down every order it handled, failed or died on, before it acks. So the claim
"no order was lost" rests on what the workers did, not on what the queue says of itself.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.cli.demo.worker import FAILED, HANDLED
from holdfast.engine.replies import Stats


@dataclass
class Records:
    """What all workers of a run wrote down."""

    handled: Counter[int] = field(default_factory=Counter)
    failed: int = 0
    lost: int = 0
    """Deliveries of which no worker lived to tell: the order was then delivered again."""

    @classmethod
    def read(cls, folder: Path) -> Records:
        found = cls()
        for pattern in ("*[0-9].record", "*-fixed.record"):  # a redrive counts from one again
            told: dict[int, dict[int, str]] = {}  # order → delivery → its end
            for path in folder.glob(pattern):
                for line in path.read_text().splitlines():
                    number, receives, what = line.split()
                    told.setdefault(int(number), {})[int(receives)] = what
                    if what == HANDLED:
                        found.handled[int(number)] += 1
            for ends in told.values():
                failed = sum(what == FAILED for what in ends.values())
                found.failed += failed
                # All deliveries but a last good one were failures, or went down with a worker.
                last = max(ends)
                found.lost += last - failed - (ends[last] == HANDLED)
        return found


@dataclass(frozen=True)
class Account:
    orders: int
    deaths: int
    redriven: int
    poison: int
    before: Stats
    """When the first crew had done what it could."""
    after: Stats
    records: Records
    seconds: float

    @property
    def missing(self) -> list[int]:
        """Orders that no worker says it handled."""
        return [n for n in range(1, self.orders + 1) if not self.records.handled[n]]

    @property
    def handled_twice(self) -> int:
        return sum(times > 1 for times in self.records.handled.values())

    @property
    def deliveries(self) -> int:
        return self.after.received

    @property
    def given_back(self) -> int:
        """Deliveries that ended neither in an ack, nor in a failure, nor with their worker."""
        return self.deliveries - self.after.acked - self.records.failed - self.records.lost

    def faults(self) -> list[str]:
        """What does not add up; nothing, if all is well."""
        found = []
        for when, now in (("before the redrive", self.before), ("at the end", self.after)):
            kept = now.acked + now.total
            if now.sent != kept:
                found.append(f"{when}: {now.sent:,} sent, but {kept:,} acked or in the queue")
        if self.after.sent != self.orders:
            found.append(f"{self.orders:,} orders, but {self.after.sent:,} sent")
        if self.after.acked != self.orders:
            found.append(f"{self.orders:,} orders, but {self.after.acked:,} acked")
        if self.missing:
            shown = ", ".join(map(str, self.missing[:5]))
            found.append(f"{len(self.missing):,} orders that no worker handled: {shown} …")
        ends = self.after.acked + self.after.requeued + self.after.buried + self.after.leased
        if self.deliveries != ends:
            found.append(f"{self.deliveries:,} deliveries, but {ends:,} ends of deliveries")
        if self.given_back < 0:
            found.append(
                f"the workers know of {-self.given_back:,} deliveries that the queue does not"
            )
        return found
