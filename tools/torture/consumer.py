"""A consumer in a process of its own, to be killed.

    python -m tools.torture.consumer URL QUEUE PLACE HISTORY HOW

HOW is `work-first`, as it should be; or `ack-first`, the control: what it has acked and not yet worked on
when it is killed is lost, and the checker must say so.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import holdfast
from holdfast import TryAgain
from tools.torture.history import History


def main(url: str, queue: str, place: str, history: str, how: str) -> None:
    notes = History(Path(history))

    def work(d: holdfast.Delivery) -> None:
        # What a handler does; who acks first is slow, so that it always has something in hand.
        time.sleep(0.05 if how == "ack-first" else 0.01)
        notes.note("got", who="killed", place=place, body=d.body.decode(), id=d.id)

    with holdfast.connect(url, check="off") as hf:
        q = hf.queue(queue)
        while True:
            try:
                held = q.receive_many(20, wait=1, lease=1)
                if how == "ack-first":
                    q.ack_many(held)
                for d in held:
                    work(d)
                if how == "work-first":
                    q.ack_many(held)
            except TryAgain:
                continue


if __name__ == "__main__":
    main(*sys.argv[1:])
