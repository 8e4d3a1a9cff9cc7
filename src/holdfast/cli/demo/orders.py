"""Orders, and the trouble that some of them make: the same for the same seed.

poison   always fails, until the bug is fixed: becomes a dead letter
flaky    fails the first time: comes back and succeeds
fatal    the first worker that gets it is killed (-9) with everything it has in hand,
         either before the order is handled, or after that and before the ack
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

QUEUE, SHIPMENTS = "demo-orders", "demo-shipments"
LEASE_SECONDS = 2.0
MAX_RECEIVES = 4
# Cents below which nothing is shipped.
TOO_CHEAP = 150
_POISON_EVERY, _FATAL_EVERY, _FLAKY_EVERY = 250, 800, 25
_CUSTOMERS = ("Ada", "Blaise", "Charles", "Dorothy", "Edsger", "Frances", "Grace", "Hedy")


@dataclass(frozen=True)
class Orders:
    count: int
    seed: int
    poison: frozenset[int] = field(init=False)
    fatal: frozenset[int] = field(init=False)
    flaky: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        chance = random.Random(self.seed)
        sizes = {
            "poison": self.count // _POISON_EVERY or 1,
            "fatal": self.count // _FATAL_EVERY or 1,
            "flaky": self.count // _FLAKY_EVERY or 1,
        }
        picked = chance.sample(range(1, self.count + 1), sum(sizes.values()))
        for name, size in sizes.items():
            object.__setattr__(self, name, frozenset(picked[:size]))
            del picked[:size]

    def body(self, number: int) -> dict[str, Any]:
        customer = _CUSTOMERS[number % len(_CUSTOMERS)]
        return {"order": number, "customer": customer, "cents": 100 + number * 37 % 9900}

    def dies_before_the_work(self, number: int) -> bool:
        """Of a fatal order: half of them kill before, half after the work."""
        return number % 2 == 0
