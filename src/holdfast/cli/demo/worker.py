"""One worker process: `python -m holdfast.cli.demo.worker`, the server in HOLDFAST_URL.

An ordinary consume loop, as anybody would write it, plus the trouble of `orders.py`. What is handled
is sent on as a shipment, under the order's number as dedup id: an order handled twice is shipped once.
What it did goes to a file of its own, unbuffered, before the ack: kill -9 loses no record. It ends when its
stdin closes, so it cannot outlive the parent.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path

from holdfast.cli.demo.orders import SHIPMENTS, Orders
from holdfast.client._sync.client import Client
from holdfast.client._sync.consumer import Consumer
from holdfast.client._sync.delivery import Delivery
from holdfast.client._sync.queue import Queue
from holdfast.client.backoff import exponential

HANDLED, FAILED, KILLED = "handled", "failed", "killed"
_WORK_SECONDS = 0.002
_PREFETCH = 20


class Worker:
    def __init__(self, orders: Orders, shipments: Queue, record: Path, fixed: bool) -> None:
        self._orders = orders
        self._shipments = shipments
        self._fixed = fixed
        self._record = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, number: int, receives: int, what: str) -> None:
        os.write(self._record, f"{number} {receives} {what}\n".encode())

    def handle(self, delivery: Delivery) -> None:
        number = delivery.json()["order"]
        first = delivery.receives == 1 and not self._fixed
        fatal = first and number in self._orders.fatal
        if fatal and self._orders.dies_before_the_work(number):
            self.die(number, delivery.receives)
        time.sleep(_WORK_SECONDS)
        if number in self._orders.poison and not self._fixed:
            self.note(number, delivery.receives, FAILED)
            raise ValueError("an address of two lines breaks the worker: the bug")
        if first and number in self._orders.flaky:
            self.note(number, delivery.receives, FAILED)
            raise ConnectionError("the bank did not answer")
        self._shipments.send(delivery.body, dedup_id=f"order-{number}")
        self.note(number, delivery.receives, HANDLED)
        if fatal:
            self.die(number, delivery.receives)

    def die(self, number: int, receives: int) -> None:
        self.note(number, receives, KILLED)
        os.kill(os.getpid(), signal.SIGKILL)


def _stop_with_the_parent(deliveries: Consumer) -> None:
    def watch() -> None:
        sys.stdin.buffer.read()
        deliveries.stop()

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("queue")
    words.add_argument("orders", type=int)
    words.add_argument("seed", type=int)
    words.add_argument("record", type=Path)
    words.add_argument("--fixed", action="store_true")
    given = words.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    logging.getLogger("holdfast").setLevel(logging.CRITICAL)  # failures are part of the show
    with (
        Client(check="off") as client,
        client.queue(given.queue).consume(
            _PREFETCH, ack_every=10, backoff=exponential(0.2, 1.0)
        ) as deliveries,
    ):
        orders, shipments = Orders(given.orders, given.seed), client.queue(SHIPMENTS)
        worker = Worker(orders, shipments, given.record, given.fixed)
        _stop_with_the_parent(deliveries)
        for delivery in deliveries:
            with delivery:
                worker.handle(delivery)


if __name__ == "__main__":
    main()
