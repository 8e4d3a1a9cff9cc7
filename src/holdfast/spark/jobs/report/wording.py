"""What a report says in words: the same sentences on the page and on the terminal."""

from __future__ import annotations

from holdfast.spark.jobs.report.figures import duration, percent, several, shown
from holdfast.spark.jobs.report.steps import IN_HAND
from holdfast.spark.jobs.report.summary import Summary

ENDINGS = {
    "acked": "acked",
    "nacked": "nacked",
    "lease_ended": "lease ended",
    "recovered": "recovered",
    "buried": "buried",
    "released": "released",
    "removed": "removed",
}


def period(summary: Summary) -> str:
    """The time that the report covers."""
    if summary.first is None or summary.last is None:
        return "no events"
    first, last = summary.first, summary.last
    end = "%H:%M:%S" if first.date() == last.date() else "%Y-%m-%d %H:%M:%S"
    took = duration((last - first).total_seconds() * 1000)
    return f"{first:%Y-%m-%d %H:%M:%S} to {last.strftime(end)} UTC ({took})"


def reason(text: str, most: int = 120) -> str:
    """Why, in somebody's own words, if there are any."""
    return shown(text, most) if text.strip() else "(no reason given)"


def where(queue: str, queues: int) -> str:
    """orders · orders and 3 more"""
    return shown(queue, 60) + (f" and {queues - 1:,} more" if queues > 1 else "")


def notable(summary: Summary) -> list[str]:
    """What somebody who looks for trouble should see first, or that there is none."""
    account, said = summary.account, []
    if not account.messages:
        return ["The archive holds no events: nothing has happened, or it was not archived yet."]
    dead = account.outcomes["dead"]
    if summary.deaths:
        top = summary.deaths[0]
        said.append(
            f"{several(dead, 'message')} of {account.messages:,} ({percent(dead, account.messages)}) "
            f"{'is a dead letter' if dead == 1 else 'are dead letters'} now; the most frequent cause "
            f"of death: {reason(top.reason, 80)}, {several(top.deaths, 'time')}, on "
            f"{where(top.queue, top.queues)}."
        )
    lost = account.given_back["lease_ended"] + account.given_back["recovered"]
    if lost:
        said.append(
            f"{several(lost, 'delivery', 'deliveries')} ended without a word "
            "from the consumer, which crashed or took too long; "
            "their messages were given to others, or died if that was the last try."
        )
    if account.retries:
        said.append(
            f"{several(account.retries, 'retry', 'retries')} in "
            f"{several(account.deliveries, 'delivery', 'deliveries')}."
        )
    waits = [(q.times.in_queue.p95_ms, q.queue) for q in summary.queues if q.times]
    if len(waits) > 1:
        p95_ms, queue = max(waits)
        said.append(f"Messages wait longest on {shown(queue, 60)}: p95 {duration(p95_ms)} there.")
    if account.in_flight:
        hand = sum(account.outcomes[name] for name in IN_HAND)
        said.append(
            f"{several(account.in_flight, 'message')} had not been settled when the archive ends: "
            f"{account.outcomes['ready']:,} ready, {account.outcomes['delayed']:,} delayed, "
            f"{hand:,} in hand."
        )
    if account.gone_otherwise:
        each = (f"{account.outcomes[n]:,} {n}" for n in ("expired", "removed", "dropped"))
        said.append(f"Never settled by a consumer: {', '.join(each)}.")
    if account.incomplete:
        said.append(
            f"{several(account.incomplete, 'message')} began before the journal did, or had a gap in "
            "it: counted, but left out of the times."
        )
    return said or ["Nothing: every message was acked, and none had to be tried again."]


EXPLAINED = {
    "Life": "All events of one message on one queue, in the order of the journal. It is complete if "
    "it begins with the sending and has no gap.",
    "Time in queue": "While a message was ready and nobody had it, all waits added up. Delays do not "
    "count: neither one the sender asked for nor one before another try.",
    "Time in hand": "While a consumer had it, all deliveries added up.",
    "Ready to settled": "From when it could first be received to its ack or death, delays between "
    "tries and time as a dead letter included.",
    "Percentiles": "Of messages with a complete life that were received and are settled. p95: 95 of "
    "100 took no longer.",
    "Retry": "A delivery that failed and was followed by another try. A release is no failure.",
    "Lease ended": "The consumer said nothing until its lease was over: it crashed, or was too slow.",
    "Recovered": "Another consumer took the delivery over.",
    "Last try": "Of a delivery that was the last the queue allows, the journal says no more than "
    "max_receives; it is put down to the lease if that was over by then, else to a nack.",
    "Backlog": "Begins with nothing: what was there before the journal is not in it.",
}
