"""What a user is promised of one queue, as plain dictionaries: the model of test_model.py."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast import Delivery
from tests.clock import START


@dataclass
class Known:
    """What the model knows of one message."""

    id: str
    priority: int
    group: str | None
    expires: int | None
    ttl: int | None
    place: float  # order among those ready: lower goes first
    failures: int = 0
    due: int = 0
    held_back: bool = False  # delayed after a delivery, not by its sender
    until: int = 0
    delivery: Delivery | None = None
    unique: str | None = None


@dataclass
class Model:
    max_receives: int
    group_limit: int
    now: int = START
    ready: dict[str, Known] = field(default_factory=dict)
    delayed: dict[str, Known] = field(default_factory=dict)
    leased: dict[str, Known] = field(default_factory=dict)
    dead: dict[str, Known] = field(default_factory=dict)
    dead_leased: dict[str, Known] = field(default_factory=dict)
    reserved: dict[str, Known] = field(default_factory=dict)
    reservations: list[list[Known]] = field(default_factory=list)
    condemned: set[str] = field(default_factory=set)
    expired: set[str] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)
    max_length: int = 0
    drops: bool = False
    dropped: int = 0
    front: float = 0.0
    back: float = 0.0

    def tail(self, m: Known) -> None:
        self.back += 1
        m.place = self.back
        self.ready[m.id] = m

    def head(self, messages: list[Known]) -> None:
        """To the head, in their order."""
        self.front -= len(messages)
        for n, m in enumerate(messages):
            m.place = self.front + n
            self.ready[m.id] = m

    def fail(self, messages: list[Known], delay: int = 0) -> None:
        again = []
        for m in messages:
            m.failures += 1
            if m.failures >= self.max_receives:
                self.dead[m.id] = m
            else:
                again.append(m)
        if not delay:
            self.head(again)
            return
        for m in again:
            self.hold_back(m, delay)

    def hold_back(self, m: Known, delay: int) -> None:
        m.due, m.held_back = self.now + delay, True
        self.delayed[m.id] = m

    def catch_up(self) -> None:
        """What every receive does first."""
        due = sorted((m.due, key(m.id)) for m in self.delayed.values() if m.due <= self.now)
        for _, (ms, seq) in due:
            m = self.delayed.pop(f"{ms}-{seq}")
            was_held_back, m.held_back = m.held_back, False
            if m.group and was_held_back:
                self.head([m])
            else:
                self.tail(m)
        over = [m for m in self.leased.values() if m.until <= self.now]
        for m in over:
            del self.leased[m.id]
        self.fail(sorted(over, key=lambda m: key(m.id)))
        for m in [m for m in self.dead_leased.values() if m.until <= self.now]:
            self.dead[m.id] = self.dead_leased.pop(m.id)

    def is_expired(self, m: Known) -> bool:
        return m.expires is not None and m.expires <= self.now

    def waiting(self) -> int:
        """What counts towards max_length."""
        return sum(not self.is_expired(m) for m in [*self.ready.values(), *self.delayed.values()])

    def too_many(self, n: int) -> int:
        """How many must go for `n` more; -1: they are refused."""
        if not self.max_length or not n:
            return 0
        over = max(self.waiting() + n - self.max_length, 0)
        if over and (not self.drops or n > self.max_length or len(self.live()) < over):
            return -1
        return over

    def holder(self, name: str) -> str | None:
        """Who has a unique name: one that will go out some time, or is in hand."""
        mid = self.names.get(name, "")
        for state in (self.ready, self.delayed, self.reserved):
            if mid in state and not self.is_expired(state[mid]):
                return mid
        return mid if mid in self.leased else None

    def in_flight(self, group: str) -> int:
        retries = [m for m in self.delayed.values() if m.held_back]
        held = sum(m.group == group for m in [*self.leased.values(), *retries])
        # A reservation holds one place, however many of the group it has.
        return held + sum(any(m.group == group for m in r) for r in self.reservations)

    def live(self) -> list[Known]:
        waiting = [m for m in self.ready.values() if not self.is_expired(m)]
        return sorted(waiting, key=lambda m: (-m.priority, m.place))

    def first_of(self, group: str) -> Known | None:
        mine = [m for m in self.ready.values() if m.group == group and not self.is_expired(m)]
        return min(mine, key=lambda m: m.place, default=None)

    def check_delivery(self, m: Known) -> None:
        """May this one go out now?"""
        assert m.id in self.ready, "not ready"
        assert not self.is_expired(m), "expired"
        if m.group:
            first = self.first_of(m.group)
            assert first is m, f"{first} of the group comes first"
            assert self.in_flight(m.group) < self.group_limit, "the group has enough in flight"
            return
        for other in self.live():
            if other.group is None:
                assert other is m, f"{other} comes first"
                return

    def deliverable(self) -> list[Known]:
        free = [m for m in self.live() if m.group is None]
        for group in {m.group for m in self.live() if m.group}:
            first = self.first_of(group)
            if first and self.in_flight(group) < self.group_limit:
                free.append(first)
        return free


def key(message_id: str) -> tuple[int, int]:
    ms, seq = message_id.split("-")
    return int(ms), int(seq)
