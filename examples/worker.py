"""A worker that survives everything: run several, kill some, nothing is lost.

python examples/worker.py send 100        put orders into the queue
python examples/worker.py work            handle them until none has come for two seconds
"""

from __future__ import annotations

import sys

import holdfast


def handle(order: dict[str, int]) -> None:
    if order["number"] % 10 == 3:
        raise ValueError(f"order {order['number']} has no address")


def main(verb: str, *rest: str) -> None:
    with holdfast.connect() as hf:
        q = hf.queue("example-orders")
        if verb == "send":
            q.configure(max_receives=2)
            ids = q.send_many({"number": n} for n in range(int(rest[0])))
            print(f"sent {len(ids)}, from {ids[0]} to {ids[-1]}")
            return
        for delivery in q.consume(idle=2, backoff=holdfast.exponential(first=0.1)):
            with delivery:
                handle(delivery.json())
        stats = q.stats()
        print(f"acked {stats.acked}, dead letters {stats.dead}")
        for letter in q.inspect("dead", 0, 3):
            assert letter.death is not None
            print(f"  {letter.text}: {letter.death.error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
