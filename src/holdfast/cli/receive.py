"""holdfast receive: take messages under a lease, or take and ack them.

With --ack a message is acked only after it was written out and flushed: whoever dies in between
gets it again. Whatever ends the command early, messages that were not written out go back.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from holdfast.cli import durations, output
from holdfast.cli.options import Json, QueueName, Url, connected
from holdfast.client._sync.delivery import Delivery
from holdfast.client._sync.queue import Queue
from holdfast.engine.replies import Stats
from holdfast.errors import HoldfastError
from holdfast.message import STATES
from holdfast.settings import Lease, whole

EMPTY, STALE = 4, 3
# With --ack: so many are written, flushed and acked at a time.
_CHUNK = 100


def receive(
    queue: QueueName,
    count: Annotated[int, typer.Option("--count", "-n", help="At most so many.")] = 1,
    wait: Annotated[
        str, typer.Option("--wait", "-w", metavar="DURATION", help="Wait so long for the first.")
    ] = "0",
    lease: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Ours for so long; none: until settled. Defaults to the queue's lease.",
        ),
    ] = None,
    ack: Annotated[bool, typer.Option("--ack", help="Ack each once it is written out.")] = False,
    dead: Annotated[bool, typer.Option("--dead", help="Take dead letters instead.")] = False,
    url: Url = None,
    json: Json = False,
) -> None:
    """Take messages: they are yours until the lease ends, then they come back to the queue.

    Without --ack the receipts are printed: settle them with `holdfast ack` or `holdfast nack`.
    Exit status 4 says that the queue was empty.

    \b
    holdfast receive orders                        one message, and its receipt
    holdfast receive orders -n 10 --wait 30s       up to ten; wait for the first
    holdfast receive orders --lease 10m            time for long work
    holdfast receive orders --ack > order.txt      take the body and be done with it
    holdfast receive orders --dead                 a dead letter; `ack` removes it for good
    holdfast receive orders --json | jq -r .body

    In a pipe or a file each message is a line: its receipt, a tab and the body, unaltered; with
    --ack the body only.
    """
    wait_seconds = durations.seconds(wait, "--wait")
    lease_seconds = durations.lease(lease, "--lease")
    whole(count, "--count", 1, 100_000)
    with connected(url) as client:
        taking = _Receiving(client.queue(queue), lease_seconds, dead, json)
        if ack:
            taking.and_ack(count, wait_seconds)
        else:
            taking.and_hold(count, wait_seconds)


class Taking:
    """Takes deliveries, writes them out, and settles them or says how. What depends on where they come
    from is in the methods at the end."""

    def __init__(self, lease: Lease, as_json: bool) -> None:
        self._lease = lease
        self._as_json = as_json

    def and_hold(self, count: int, wait: float) -> None:
        got = self.take(count, wait)
        if not got:
            self._nothing()
        self._write(got, acked=False)
        if not self._as_json:
            self._say_what_next(got)

    def and_ack(self, count: int, wait: float) -> None:
        taken, late = 0, 0
        while taken < count:
            got = self.take(min(count - taken, _CHUNK), wait if not taken else 0)
            if not got:
                break
            taken += len(got)
            self._write(got, acked=True)
            late += len(got) - self.ack(got)
        if not taken:
            self._nothing()
        if late:
            output.note(
                f"{late} of {taken} acks came too late: the lease had ended, and the messages will be "
                "or were delivered again; use a longer --lease",
                style="yellow",
            )
            raise typer.Exit(STALE)

    def _write(self, got: list[Delivery], *, acked: bool) -> None:
        """To stdout, or back into the queue."""
        try:
            if self._as_json:
                for delivery in got:
                    output.emit(
                        output.message_json(delivery, delivery.receipt) | self.also(delivery)
                    )
            elif sys.stdout.isatty():
                _table(got, acked, self.also)
            else:
                for delivery in got:
                    tags = [] if acked else [*self.also(delivery).values(), delivery.receipt]
                    output.write(b"".join(tag.encode() + b"\t" for tag in tags) + delivery.body)
            output.flush()
        except BaseException:
            self._give_back(got)
            raise

    def _give_back(self, got: list[Delivery]) -> None:
        try:
            self.release(got)
        except HoldfastError as error:
            output.note(f"could not give back {len(got)}: {error}; they come back by themselves")

    def _nothing(self) -> None:
        if not self._as_json:
            output.note(self.nothing())
        raise typer.Exit(EMPTY)

    def _say_what_next(self, got: list[Delivery]) -> None:
        first = got[0]
        if until := first.lease_until:
            output.note(
                f"leased until {durations.clock(until)} ({durations.ahead(until)}); then "
                f"{'it comes' if len(got) == 1 else 'they come'} back"
            )
        else:
            output.note("leased until settled")
        output.note(f"when done:  holdfast ack {shlex.join(self.settle_with(first))}")

    def take(self, count: int, wait: float) -> list[Delivery]:
        raise NotImplementedError

    def ack(self, got: list[Delivery]) -> int:
        """How many were still ours."""
        raise NotImplementedError

    def release(self, got: list[Delivery]) -> None:
        raise NotImplementedError

    def also(self, delivery: Delivery) -> dict[str, str]:
        """What else must be told of a delivery."""
        return {}

    def settle_with(self, delivery: Delivery) -> list[str]:
        """The arguments of `holdfast ack`."""
        raise NotImplementedError

    def nothing(self) -> str:
        """Why there was nothing."""
        raise NotImplementedError


class _Receiving(Taking):
    """From one queue, what is ready or what is dead."""

    def __init__(self, queue: Queue, lease: Lease, dead: bool, as_json: bool) -> None:
        super().__init__(lease, as_json)
        self._queue = queue
        self._dead = dead

    def take(self, count: int, wait: float) -> list[Delivery]:
        if self._dead:
            return self._queue.receive_dead(count, wait=wait, lease=self._lease)
        return self._queue.receive_many(count, wait=wait, lease=self._lease)

    def ack(self, got: list[Delivery]) -> int:
        return len(self._queue.ack_many(got))

    def release(self, got: list[Delivery]) -> None:
        self._queue.release_many(got)

    def settle_with(self, delivery: Delivery) -> list[str]:
        return [self._queue.name, delivery.receipt]

    def nothing(self) -> str:
        what = "no dead letters" if self._dead else "nothing to receive"
        return f"{what} in {self._queue.name!r}{why_nothing(self._queue.stats())}"


def why_nothing(now: Stats) -> str:
    """Where the messages of a queue are, if none can be taken."""
    if now.paused:
        return "; it is paused"
    waiting = [f"{n:,} {state}" for state in STATES
               if (n := getattr(now, state))]  # fmt: skip
    behind = "; what is ready waits behind others of its group" if now.ready else ""
    return f" now ({', '.join(waiting)}{behind})" if waiting else ""


def _table(got: list[Delivery], acked: bool, also: Callable[[Delivery], dict[str, str]]) -> None:
    grouped, tagged = any(d.group for d in got), any(d.attributes for d in got)
    died, ranked = any(d.death for d in got), any(d.priority for d in got)
    optional = {"priority": ranked, "group": grouped, "attributes": tagged, "died of": died}
    columns = list(also(got[0]))
    columns += ["id" if acked else "receipt", "receives", "sent"]
    columns += [name for name, wanted in optional.items() if wanted]
    made = output.table(
        *columns, "body", right=("receives", "priority"), fold=("body", "attributes")
    )
    for d in got:
        row = [*also(d).values()]
        row += [d.id if acked else d.receipt, str(d.receives), durations.ago(d.sent_at)]
        row += [str(d.priority)] * ranked + [output.preview((d.group or "").encode())] * grouped
        row += [", ".join(f"{k}={v}" for k, v in d.attributes.items())] * tagged
        row += [output.preview(d.death.reason.encode()) if d.death else ""] * died
        made.add_row(*row, output.safe(d.body))
    output.show(made)
