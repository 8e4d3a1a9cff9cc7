"""The page's tables: everything per queue, the times per priority, and the slowest messages."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.spark.jobs.report import charts, figures
from holdfast.spark.jobs.report.figures import count, duration, shown
from holdfast.spark.jobs.report.findings import Findings, Series
from holdfast.spark.jobs.report.markup import Markup, tag
from holdfast.spark.jobs.report.summary import QueueAccount

_LONGEST_NAME = 80


def _table(
    title: str, hint: str, headings: Sequence[tuple[str, str]], rows: Sequence[Sequence[Markup]]
) -> Markup:
    """A section with a table. A heading's kind is number, text, or picture, which does not sort."""
    cells = []
    for name, kind in headings:
        inside = tag("span", name) if kind == "picture" else tag("button", name, type="button")
        cells.append(
            tag(
                "th", inside, scope="col", data_kind=kind, class_="text" if kind == "text" else None
            )
        )
    table = tag(
        "table",
        tag("thead", tag("tr", cells)),
        tag("tbody", [tag("tr", list(row)) for row in rows]),
    )
    return tag(
        "section",
        tag("h2", title),
        tag("p", hint, class_="hint"),
        # A region of its own, so that the keyboard can scroll it.
        tag("div", table, class_="wide", tabindex=0, role="region", aria_label=title),
    )


def _text(value: str, class_: str = "text") -> Markup:
    return tag("td", shown(value, _LONGEST_NAME), data_v=shown(value, 400), class_=class_)


def _number(n: int, *, bad: bool = False) -> Markup:
    return tag("td", count(n), data_v=n, class_="zero" if not n else "bad" if bad else None)


def _time(ms: int | None) -> Markup:
    if ms is None:
        return tag("td", "–", data_v=-1, class_="zero")
    return tag("td", duration(ms), data_v=ms)


def queues_table(found: Findings) -> Markup:
    headings = [
        ("queue", "text"),
        *((name, "number") for name in ("messages", "acked", "dead", "other", "in flight")),
        *((name, "number") for name in ("retries", "lease ended")),
        *((name, "number") for name in ("p95 in queue", "p95 in hand")),
        *((name, "picture") for name in ("acked over time", "backlog")),
    ]
    rows = [_queue(line, found) for line in found.queues]
    hint = "other: expired, removed or dropped"
    if found.queue_count > len(rows):
        hint += f"; the {len(rows)} largest of {figures.several(found.queue_count, 'queue')}"
    return _table("Queues", hint, headings, rows)


def _queue(line: QueueAccount, found: Findings) -> list[Markup]:
    account, times = line.account, line.times
    acked = found.throughput_of[line.queue].values["acked"]
    waiting = _waiting(found.backlog_of[line.queue])
    acked_label = f"acked over time, at most {max(acked):,}"
    waiting_label = f"ready and in hand over time, at most {max(waiting):,}"
    return [
        _text(line.queue, "text name"),
        _number(account.messages),
        _number(account.outcomes["acked"]),
        _number(account.outcomes["dead"], bad=True),
        _number(account.gone_otherwise),
        _number(account.in_flight),
        _number(account.retries),
        _number(account.given_back["lease_ended"] + account.given_back["recovered"]),
        _time(times.in_queue.p95_ms if times else None),
        _time(times.in_hand.p95_ms if times else None),
        tag("td", charts.sparkline(acked_label, acked, "teal")),
        tag("td", charts.sparkline(waiting_label, waiting, "blue")),
    ]


def _waiting(backlog: Series) -> list[int]:
    pairs = zip(backlog.values["ready"], backlog.values["in_hand"], strict=True)
    return [ready + in_hand for ready, in_hand in pairs]


def latency_table(found: Findings) -> Markup:
    cuts = ("p50", "p95", "p99")
    headings = [
        ("queue", "text"),
        ("priority", "number"),
        ("messages", "number"),
        *((f"{where} {cut}", "number") for where in ("queue", "hand", "total") for cut in cuts),
    ]
    rows = [
        [
            _text(queue, "text name"),
            tag("td", str(priority), data_v=priority),
            _number(times.messages),
            *(
                _time(getattr(spread, f"{cut}_ms"))
                for spread in (times.in_queue, times.in_hand, times.total)
                for cut in cuts
            ),
        ]
        for queue, priority, times in found.priorities
    ]
    hint = "time in queue, in hand, and from first ready to settled, of settled messages"
    return _table("Times by queue and priority", hint, headings, rows)


def slowest_table(found: Findings) -> Markup:
    headings = [
        ("queue", "text"),
        ("message", "text"),
        ("outcome", "text"),
        ("priority", "number"),
        ("deliveries", "number"),
        *((name, "number") for name in ("total", "in queue", "in hand", "delayed")),
    ]
    rows = [
        [
            _text(slow.queue, "text name"),
            tag("td", tag("code", shown(slow.id)), data_v=slow.id, class_="text"),
            _text(slow.outcome),
            tag("td", str(slow.priority), data_v=slow.priority),
            _number(slow.deliveries),
            *map(
                _time,
                (slow.total_ms, slow.time_in_queue_ms, slow.time_in_hand_ms, slow.delayed_ms),
            ),
        ]
        for slow in found.slowest
    ]
    return _table("Slowest messages", "by the time from first ready to settled", headings, rows)
