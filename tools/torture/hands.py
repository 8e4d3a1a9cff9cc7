"""What a taker has in hand, and what it writes down of that."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from holdfast import AsyncDelivery, Delivery
from tools.torture.crew import Crew
from tools.torture.history import Kind


class Held(NamedTuple):
    """One delivery. `left`: seconds of its lease; None: it has none."""

    body: str
    id: str
    receipt: str = ""
    left: float | None = None


@dataclass(frozen=True)
class Hands:
    """One taker at one place."""

    crew: Crew
    who: str
    place: str

    def hold(self, d: Delivery | AsyncDelivery) -> Held:
        """The part of a delivery that histories are about."""
        return Held(d.body.decode(), d.id, d.receipt, self.crew.left(d.lease_until))

    def got(self, held: Held) -> None:
        self._note("got", held)

    def settling(self, held: Iterable[Held]) -> None:
        for each in held:
            self._note("settling", each)

    def told(self, held: Iterable[Held], acked: Collection[str]) -> None:
        """Which of them were acked, by their receipts; the others came too late."""
        for each in held:
            self._note("acked" if each.receipt in acked else "late", each)

    def _note(self, kind: Kind, held: Held) -> None:
        self.crew.history.note(
            kind,
            who=self.who,
            place=self.place,
            body=held.body,
            id=held.id,
            receipt=held.receipt,
            left=held.left if kind == "got" else None,
        )
