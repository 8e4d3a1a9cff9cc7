"""The page: one HTML file with everything in it, which asks nobody for anything.

Its policy lets the browser run only the script we put there, by its hash, and load nothing from
anywhere: should a text slip through `markup` after all, it could do nothing.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

from holdfast.spark.jobs.report import bars, charts, figures, wording
from holdfast.spark.jobs.report.figures import count, duration, percent
from holdfast.spark.jobs.report.findings import ATTEMPTS, Findings
from holdfast.spark.jobs.report.listings import latency_table, queues_table, slowest_table
from holdfast.spark.jobs.report.markup import Markup, tag
from holdfast.spark.jobs.report.summary import Account, Summary, Times
from holdfast.spark.jobs.report.timeline import Buckets

ROWS = 20

_THROUGHPUT = (
    ("sent", "sent", "blue"),
    ("acked", "acked", "teal"),
    ("requeued", "given back", "amber"),
    ("dead", "dead", "red"),
)
# Without the dead: they pile up for as long as nobody looks after them, and dwarf the rest.
_BACKLOG = (
    ("in_hand", "in hand", "teal"),
    ("ready", "ready", "blue"),
    ("delayed", "delayed", "violet"),
)
_ENDINGS = tuple(
    (name, label, colour)
    for (name, label), colour in zip(
        wording.ENDINGS.items(),
        ("teal", "amber", "red", "violet", "ink", "blue", "grey"),
        strict=True,
    )
)


def render(summary: Summary, found: Findings, cut: Buckets) -> str:
    """The whole page."""
    script = Markup(_own("page.js"))
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"Holdfast report: {wording.period(summary)}"),
        tag("style", Markup(_own("page.css"))),
    )
    body = tag("body", tag("main", _content(summary, found, cut)), tag("script", script))
    return "<!doctype html>\n" + tag("html", head, body, lang="en") + "\n"


def _own(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _content(summary: Summary, found: Findings, cut: Buckets) -> list[Markup]:
    top = [_header(summary), _cards(summary.account, summary.times), _notable(summary)]
    if not summary.account.messages:
        return [*top, _explained()]
    return [
        *top,
        _pair(_throughput(found, cut), _backlog(found, cut)),
        _pair(
            _times("Time in queue", "ready and waiting for a consumer", "in_queue", found),
            _times("Time in hand", "with a consumer, over all deliveries", "in_hand", found),
        ),
        _pair(_endings(found), _attempts(found)),
        _pair(_deaths(found), _failures(found)),
        queues_table(found),
        latency_table(found),
        slowest_table(found),
        _explained(),
    ]


def _header(summary: Summary) -> Markup:
    return tag(
        "header",
        tag("h1", "What happened to the messages"),
        tag("p", wording.period(summary), class_="about"),
        tag(
            "p",
            f"{figures.several(summary.events, 'event')} of "
            f"{figures.several(summary.queue_count, 'queue')} from {summary.source}",
            class_="about",
        ),
    )


def _cards(account: Account, times: Times | None) -> Markup:
    def card(name: str, number: str, note: str, colour: str) -> Markup:
        return tag(
            "div",
            tag("dt", name),
            tag("dd", number, class_="number"),
            tag("dd", note, class_="note"),
            class_="card",
            style=f"--accent:var(--{colour})",
        )

    def p95(name: str, spread: str, colour: str) -> Markup:
        if times is None:
            return card(name, "–", "nothing settled yet", colour)
        of = getattr(times, spread)
        return card(name, duration(of.p95_ms), f"p95; half within {duration(of.p50_ms)}", colour)

    acked, dead = account.outcomes["acked"], account.outcomes["dead"]
    dead_note = percent(dead, account.messages)
    if account.deaths != dead:
        dead_note += f"; {figures.several(account.deaths, 'death')} in all"
    tries = figures.several(account.deliveries, "delivery", "deliveries")
    return tag(
        "dl",
        card("Messages", count(account.messages), figures.size(account.bytes), "blue"),
        card("Acked", count(acked), percent(acked, account.messages), "teal"),
        card("Dead letters", count(dead), dead_note, "red"),
        card("Retries", count(account.retries), f"in {tries}", "amber"),
        card("In flight", count(account.in_flight), "at the end of the archive", "violet"),
        p95("Time in queue", "in_queue", "blue"),
        p95("Time in hand", "in_hand", "teal"),
        p95("Ready to settled", "total", "grey"),
        class_="cards",
    )


def _notable(summary: Summary) -> Markup:
    said = [tag("li", line) for line in wording.notable(summary)]
    return tag("section", tag("h2", "What stands out"), tag("ul", said, class_="notable"))


def _pair(left: Markup, right: Markup) -> Markup:
    return tag("div", left, right, class_="pair")


def _section(title: str, hint: str, *inside: object, class_: str | None = None) -> Markup:
    return tag("section", tag("h2", title), tag("p", hint, class_="hint"), inside, class_=class_)


def _legend(shown: charts.Shown) -> Markup:
    dots = [tag("li", label, style=f"--dot:var(--{colour})") for _, label, colour in shown]
    return tag("ul", dots, class_="legend")


def _throughput(found: Findings, cut: Buckets) -> Markup:
    title, hint = "Throughput", f"messages per {cut.name}, all queues, UTC"
    chart = charts.lines(title, hint, found.throughput, cut.size_ms, _THROUGHPUT)
    return _section(title, hint, _legend(_THROUGHPUT), chart)


def _backlog(found: Findings, cut: Buckets) -> Markup:
    title, hint = (
        "Backlog",
        f"messages not settled yet at the end of each {cut.name}, all queues, UTC",
    )
    chart = charts.stacked(title, hint, found.backlog, cut.size_ms, _BACKLOG)
    return _section(title, hint, _legend(_BACKLOG), chart)


def _times(title: str, what: str, spread: str, found: Findings) -> Markup:
    timed = [(q.queue, getattr(q.times, spread)) for q in found.queues if q.times]
    rows = sorted(timed, key=lambda row: -row[1].p95_ms)[:ROWS]
    hint = f"{what}: from p50 to p99, with a mark at p95" + _foremost(len(timed), "slowest")
    if not rows:
        return _section(title, what, _nothing("No message was settled yet."))
    return _section(title, hint, bars.ranges(rows, "blue" if spread == "in_queue" else "teal"))


def _foremost(there: int, which: str) -> str:
    return f"; the {ROWS} {which} of {there} queues" if there > ROWS else ""


def _endings(found: Findings) -> Markup:
    rows = {queue: counts for queue, counts in found.endings.items() if counts}
    shown = dict(list(rows.items())[:ROWS])
    seen = {name for counts in shown.values() for name in counts}
    legend = [each for each in _ENDINGS if each[0] in seen]
    title = "How deliveries ended"
    hint = "an ended lease or a recovery means a consumer that crashed or was too slow"
    if not shown:
        return _section(title, hint, _nothing("No delivery has ended yet."))
    return _section(
        title,
        hint + _foremost(len(rows), "largest"),
        _legend(legend),
        bars.parts(shown, legend, "deliveries"),
    )


def _attempts(found: Findings) -> Markup:
    title, hint = "Deliveries per message", "how often settled messages were received"
    rows = []
    whole = sum(found.attempts.values())
    for deliveries in range(1, max(found.attempts, default=0) + 1):
        n = found.attempts.get(deliveries, 0)
        label = f"{deliveries} ×" if deliveries < ATTEMPTS else f"{deliveries} × or more"
        rows.append((label, percent(n, whole), n, f"{n:,} of {figures.several(whole, 'message')}"))
    if not rows:
        return _section(title, hint, _nothing("No message was received and settled yet."))
    return _section(title, hint, bars.single(rows, "blue"))


def _deaths(found: Findings) -> Markup:
    title, hint = "Dead letters by reason", "deaths, also of messages that were redriven since"
    rows = [
        (
            wording.reason(death.reason),
            f"{wording.where(death.queue, death.queues)} · {count(death.still_dead)} still dead",
            death.deaths,
            figures.several(death.deaths, "death"),
        )
        for death in found.deaths
    ]
    if not rows:
        return _section(title, hint, _nothing("No message died."))
    return _section(title, hint, bars.single(rows, "red"), class_="reasons")


def _failures(found: Findings) -> Markup:
    title, hint = "Why deliveries were not acked", "in the words of those who gave them back"
    rows = [
        (
            wording.reason(failure.reason),
            f"{wording.where(failure.queue, failure.queues)} · {wording.ENDINGS[failure.ending]}, "
            f"{figures.several(failure.messages, 'message')}",
            failure.deliveries,
            figures.several(failure.deliveries, "delivery", "deliveries"),
        )
        for failure in found.failures
    ]
    if not rows:
        return _section(title, hint, _nothing("Every delivery ended with an ack."))
    return _section(title, hint, bars.single(rows, "amber"), class_="reasons")


def _nothing(said: str) -> Markup:
    return tag("p", said, class_="nothing")


def _explained() -> Markup:
    said = [
        part
        for term, meaning in wording.EXPLAINED.items()
        for part in (tag("dt", term), tag("dd", meaning))
    ]
    return tag("section", tag("details", tag("summary", "What the numbers mean"), tag("dl", said)))
