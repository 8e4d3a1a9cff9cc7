"""The same numbers on a terminal."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from holdfast.spark.jobs.report import wording
from holdfast.spark.jobs.report.figures import count, duration, several, shown
from holdfast.spark.jobs.report.summary import Account, Spread, Summary

_QUEUES, _REASONS, _SLOWEST = 20, 8, 5


def render_terminal(summary: Summary, console: Console) -> None:
    """Print the key numbers and where the page is."""
    for part in tables(summary):
        console.print(part, soft_wrap=isinstance(part, Text))


def tables(summary: Summary) -> list[RenderableType]:
    """What `render_terminal` prints, in its order. Nothing of it is taken for rich's markup."""
    parts: list[RenderableType] = [
        Text.assemble(("Report", "bold"), "  ", (wording.period(summary), "dim")),
        Group(*(Text(f"· {line}") for line in wording.notable(summary))),
    ]
    if summary.account.messages:
        parts += [_queues(summary), _times(summary)]
        if summary.deaths:
            parts.append(_deaths(summary))
        if summary.slowest:
            parts.append(_slowest(summary))
    return [*parts, Text.assemble("page  ", (summary.page, "bold cyan"))]


def _table(title: str, *columns: str, texts: int = 1) -> Table:
    """The first `texts` columns hold text, the rest numbers."""
    made = Table(title=Text(title, "bold"), box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    for i, name in enumerate(columns):
        made.add_column(
            Text(name),
            justify="left" if i < texts else "right",
            no_wrap=i >= texts,
            overflow="fold",
        )
    return made


def _row(table: Table, *cells: str, style: str = "") -> None:
    table.add_row(*(Text(cell) for cell in cells), style=style)


def _queues(summary: Summary) -> Table:
    names = ("messages", "acked", "dead", "other", "in flight", "retries", "lease ended")
    table = _table("Queues", "queue", *names)

    def add(name: str, account: Account, style: str = "") -> None:
        numbers = (
            account.messages,
            account.outcomes["acked"],
            account.outcomes["dead"],
            account.gone_otherwise,
            account.in_flight,
            account.retries,
            account.given_back["lease_ended"] + account.given_back["recovered"],
        )
        _row(table, name, *map(count, numbers), style=style)

    for line in summary.queues[:_QUEUES]:
        add(shown(line.queue, 60), line.account)
    rest = summary.queue_count - min(len(summary.queues), _QUEUES)
    if rest:
        _row(table, f"… and {several(rest, 'more queue')}", *[""] * len(names), style="dim")
    if summary.queue_count > 1:
        add("all", summary.account, "bold")
    return table


def _times(summary: Summary) -> Table:
    heads = [f"{where} {cut}" for where in ("in queue", "in hand") for cut in ("p50", "p95", "p99")]
    table = _table("Times of settled messages", "queue", *heads)

    def cells(spread: Spread) -> list[str]:
        return [duration(ms) for ms in (spread.p50_ms, spread.p95_ms, spread.p99_ms)]

    for line in summary.queues[:_QUEUES]:
        if line.times:
            _row(
                table,
                shown(line.queue, 60),
                *cells(line.times.in_queue),
                *cells(line.times.in_hand),
            )
    if summary.times and summary.queue_count > 1:
        every = summary.times
        _row(table, "all", *cells(every.in_queue), *cells(every.in_hand), style="bold")
    return table


def _deaths(summary: Summary) -> Table:
    table = _table("Dead letters by reason", "reason", "on", "deaths", "still dead", texts=2)
    for death in summary.deaths[:_REASONS]:
        _row(
            table,
            wording.reason(death.reason),
            wording.where(death.queue, death.queues),
            count(death.deaths),
            count(death.still_dead),
        )
    return table


def _slowest(summary: Summary) -> Table:
    heads = ("queue", "message", "outcome", "deliveries", "total", "in queue", "in hand")
    table = _table("Slowest messages", *heads, texts=3)
    for slow in summary.slowest[:_SLOWEST]:
        _row(
            table,
            shown(slow.queue, 60),
            shown(slow.id, 60),
            slow.outcome,
            count(slow.deliveries),
            *map(duration, (slow.total_ms, slow.time_in_queue_ms, slow.time_in_hand_ms)),
        )
    return table
