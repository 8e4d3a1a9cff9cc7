"""Bodies of a type of your own: a dataclass goes in, the same dataclass comes out, checked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import holdfast


@dataclass
class Order:
    number: int
    tea: str
    at: datetime


def main() -> None:
    with holdfast.connect() as hf:
        q = hf.queue("example-typed", codec=holdfast.codecs.json(Order))
        q.send(Order(7, "oolong", datetime(2026, 1, 2, tzinfo=UTC)))
        q.send('{"number": "seven"}')
        for delivery in q.receive_many(2):
            try:
                print("an order for", delivery.value.tea)
                delivery.ack()
            except holdfast.Corrupt as error:
                delivery.bury(str(error))
        [letter] = q.inspect("dead")
        assert letter.death is not None
        print("put aside:", letter.death.reason)


if __name__ == "__main__":
    main()
