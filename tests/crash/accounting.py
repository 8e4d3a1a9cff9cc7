"""The books: what the producer was told was stored, what consumers saw, what was acked.

    lost       stored for sure, never seen by any consumer and not in the queue either
    returned   acked for sure, then delivered again
A message whose send or ack got no answer may be either way; it is in neither list.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Books:
    stored: set[bytes] = field(default_factory=set)
    seen: set[bytes] = field(default_factory=set)
    acked: set[bytes] = field(default_factory=set)
    returned: set[bytes] = field(default_factory=set)

    def store(self, body: bytes) -> None:
        """The producer has its answer."""
        self.stored.add(body)

    def see(self, body: bytes) -> None:
        """A consumer has it in hand."""
        if body in self.acked:
            self.returned.add(body)
        self.seen.add(body)

    def ack(self, body: bytes) -> None:
        """The consumer has its answer."""
        self.acked.add(body)

    @property
    def lost(self) -> set[bytes]:
        return self.stored - self.seen

    def problems(self) -> list[str]:
        found = []
        if self.lost:
            found.append(f"{len(self.lost)} lost, for example {sorted(self.lost)[:3]}")
        if self.returned:
            found.append(f"{len(self.returned)} came back after their ack")
        return found
