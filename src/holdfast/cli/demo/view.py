"""What one sees: a live view on a terminal, a few plain lines elsewhere, a table at the end."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.cli import durations, output
from holdfast.cli.demo.account import Account
from holdfast.cli.demo.orders import MAX_RECEIVES, TOO_CHEAP
from holdfast.cli.demo.pipeline import Lake
from holdfast.engine.replies import Stats

_LAST_EVENTS = 9
_PLAIN_SECONDS = 2.0


class View:
    """Tell it what happens with `event`, and how far things are with `update`."""

    def __init__(self, console: Console, orders: int) -> None:
        self.console = console
        self._orders = orders
        self._events: deque[Text] = deque(maxlen=_LAST_EVENTS)
        self._began = time.monotonic()
        self._now = Stats()
        self._workers = 0
        self._spoke = 0.0
        self._live = Live(console=console, refresh_per_second=10) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def event(self, text: str, style: str = "") -> None:
        line = Text.assemble((f"{self.seconds:5.1f} s  ", "dim"), (text, style))
        if self._live:
            self._events.append(line)
            self._live.update(self._picture())
        else:
            self.console.print(line, soft_wrap=True)

    def update(self, now: Stats, workers: int) -> None:
        self._now, self._workers = now, workers
        if self._live:
            self._live.update(self._picture())
        elif self.seconds - self._spoke >= _PLAIN_SECONDS:
            self._spoke = self.seconds
            states = "  ".join(f"{state} {getattr(now, state):,}" for state in output.STYLES)
            self.event(f"acked {now.acked:,} of {self._orders:,}  {states}")

    def _picture(self) -> Group:
        now = self._now
        bars = Table.grid(padding=(0, 2))
        bars.add_column(style="bold")
        bars.add_column(width=40)
        bars.add_column(justify="right")
        for name, n, style in (("sent", now.sent, "cyan"), ("acked", now.acked, "green")):
            bar = ProgressBar(self._orders, n, width=40, complete_style=style, finished_style=style)
            bars.add_row(name, bar, f"{n:,} / {self._orders:,}")
        states = Text()
        for state, style in output.STYLES.items():
            n = getattr(now, state)
            states.append(f"{state} ").append(f"{n:,}", style if n else "dim").append("   ")
        states.append("workers ").append(str(self._workers), "bold")
        return Group(bars, Text(), states, Text(), *self._events)


def summary(account: Account) -> Group:
    """The end of the story, in numbers that add up."""
    before, after = account.before, account.after
    states = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    states.add_column("where the orders are")
    states.add_column("before the fix", justify="right")
    states.add_column("at the end", justify="right")
    states.add_row("sent", f"{before.sent:,}", f"{after.sent:,}", end_section=True)
    for name, style in (("acked", "green"), ("dead", "red")):
        label = "acked (done, gone)" if name == "acked" else "dead letters"
        first, last = getattr(before, name), getattr(after, name)
        states.add_row(
            label, Text(f"{first:,}", style), Text(f"{last:,}", style if last else "dim")
        )
    waiting = [n.total - n.dead for n in (before, after)]
    states.add_row(
        "still in the queue", *(Text(f"{n:,}", "dim") for n in waiting), end_section=True
    )
    sums = [n.acked + n.total for n in (before, after)]
    marks = [
        Text(f"{n:,} {'✓' if n == account.orders else '✗'}",
             "green" if n == account.orders else "bold red") for n in sums
    ]  # fmt: skip
    states.add_row("adds up to", *marks)
    return Group(states, _facts(account))


def in_the_lake(lake: Lake, folder: Path) -> Group:
    """The second half: where the shipments are, and what the journals tell."""
    rows = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    rows.add_column("where the shipments are")
    rows.add_column("messages", justify="right")
    rows.add_row("sent by the workers", f"{lake.queue.sent:,}", end_section=True)
    rows.add_row(f"in {folder / 'lake' / 'shipments'}", Text(f"{lake.shipped:,}", "green"))
    rows.add_row(
        f"dead letters: cheaper than {TOO_CHEAP} cents", Text(f"{lake.queue.dead:,}", "red")
    )
    left = lake.queue.total - lake.queue.dead
    rows.add_row("still in the queue", Text(f"{left:,}", "dim"), end_section=True)
    total = lake.shipped + lake.queue.dead + left
    whole = total == lake.queue.sent and lake.distinct == lake.shipped
    mark = Text(f"{total:,} {'✓' if whole else '✗'}", "green" if whole else "bold red")
    rows.add_row("adds up to", mark)
    account, times = lake.report.account, lake.report.times
    facts = Table.grid(padding=(0, 2))
    facts.add_column(justify="right", style="bold")
    facts.add_column()
    facts.add_row(f"{lake.distinct:,}", "different orders in the lake, each of them once")
    facts.add_row(f"{lake.events:,}", "events of both queues' journals; these tell of")
    facts.add_row(f"{account.messages:,}", f"messages, {account.deliveries:,} deliveries")
    if times is not None:
        for what, spread in (("waiting in a queue", times.in_queue), ("in hand", times.in_hand)):
            half, most = (durations.show(ms / 1000) for ms in (spread.p50_ms, spread.p95_ms))
            facts.add_row(half, f"{what}, for half of them; up to {most} for 95 of 100")
    return Group(rows, facts)


def _noun(n: int, what: str) -> str:
    return output.several(n, what).partition(" ")[2]


def _facts(account: Account) -> Table:
    records = account.records
    facts = Table.grid(padding=(0, 2))
    facts.add_column(justify="right", style="bold")
    facts.add_column()

    def fact(n: int, text: str, style: str = "") -> None:
        facts.add_row(Text(f"{n:,}", style), text)

    whole = not account.missing
    fact(account.deliveries, "deliveries in all; of these")
    fact(records.failed, "failed: a bank that did not answer, or the bug")
    fact(records.lost, "went down with a killed worker, and came back when the lease ended")
    if account.given_back:
        fact(account.given_back, "were given back unhandled by workers that were told to stop")
    fact(account.deaths, f"{_noun(account.deaths, 'worker')} killed (kill -9), and replaced")
    fact(
        account.before.dead,
        f"{_noun(account.before.dead, 'dead letter')} after {MAX_RECEIVES} tries; "
        f"{output.several(account.poison, 'order')} had the bug",
    )
    fact(account.redriven, "redriven when the bug was fixed")
    facts.add_row("", "")
    fact(
        account.orders - len(account.missing),
        f"of {account.orders:,} orders handled at least once, by the workers' own records",
        "bold green" if whole else "bold red",
    )
    fact(
        account.handled_twice,
        "handled more than once: done, but the worker died before its ack",
        "yellow",
    )
    rate = account.deliveries / account.seconds
    fact(
        round(rate),
        f"deliveries a second; {account.seconds:.1f} s in all, waits for leases included",
    )
    return facts
