"""docs/proof.md: promise → fault → seeds → result. Written by the command, never by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

import holdfast
from tools.torture.checker import KINDS
from tools.torture.run import Outcome
from tools.torture.scenarios import Scenario

PAGE = Path(__file__).parents[2] / "docs/proof.md"

_HEAD = """\
# Proof

What [guarantees](guarantees.md) promises, tested by breaking things: each line is a real fault, done to
real servers while every way of sending and taking is in use, both doors and a worker in front (only
where consumers are killed, those are alone). Afterwards one checker goes through what everybody wrote
down.

This page is written by `make torture SEEDS=20 WRITE=1`, and by nothing else.

**Holdfast {version}, {day}: {summary}**

"""

_TAIL = """
## How to read it

*stored* is how many messages were confirmed; *gap* is the longest that any producer went unserved, and
in brackets the same of a raw probe: the servers' own failover, or a slot's way from node to node, key by
key. Redelivery is no fault: Holdfast delivers at least once. What the checker looks for:

| kind | what it means |
|---|---|
| lost | confirmed, and never seen again |
| stuck | still in the queue when all is healed and drained; or dead, and seen by nobody |
| unexpected | delivered, and never sent |
| doubled | one send, two messages |
| returned | delivered after its ack was confirmed |
| holders | two consumers with a valid lease on one message |
| disorder | a message of a group after a later one |
| hung | a call that did not come back |
| foreign | an error that is no HoldfastError, or a traceback in a log |
| silence | a producer went unserved for two seconds longer than the raw probe |

*Not judged* are kinds that a line does not look at, because nothing promises them under that fault, or
because it has no failover to compare with.

A control breaks a rule on purpose, and is caught when the checker found the loss: a checker that finds
nothing there proves nothing anywhere.

Every run can be had again: `python -m tools.torture --only cluster.kill --seed 7`. What is drawn by
chance (victims, times, order) is drawn from the seed; threads and kernels run as they like, so a rare
fault may take several tries. `python -m tools.torture --help` tells more.
"""


def page(
    outcomes: Sequence[Outcome], scenarios: Sequence[Scenario], day: date, version: str = ""
) -> str:
    rows = [
        row(scenario, [o for o in outcomes if o.scenario == scenario.name])
        for scenario in scenarios
    ]
    good = sum(outcome.good for outcome in outcomes)
    stored = _spaced(sum(o.stored for o in outcomes))
    summary = f"{good} of {len(outcomes)} runs good, {stored} messages stored."
    lines = [
        "| promise | fault | scenario | seeds | stored | gap, s | result |",
        "|---|---|---|---|---|---|---|",
        *(f"| {' | '.join(cells)} |" for cells in rows),
        "",
    ]
    head = _HEAD.format(
        version=version or holdfast.__version__, day=day.isoformat(), summary=summary
    )
    return head + "\n".join(lines) + _TAIL


def row(scenario: Scenario, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """One line of the table, for people: here, on the page and at the end of the command."""
    name = f"`{scenario.name}`"
    if not outcomes:
        return scenario.promise, scenario.fault, name, "0", "", "", scenario.lacks or "not run"
    gaps = [o.silence for o in outcomes if o.silence is not None]
    probes = [o.probe_silence for o in outcomes if o.probe_silence is not None]
    gap = f"{max(gaps):.1f} ({max(probes):.1f})" if gaps and probes else ""
    stored = _spaced(sum(o.stored for o in outcomes))
    return (
        scenario.promise,
        scenario.fault,
        name,
        str(len(outcomes)),
        stored,
        gap,
        result(scenario, outcomes),
    )


def _spaced(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def result(scenario: Scenario, outcomes: Sequence[Outcome]) -> str:
    broken = sum(bool(o.broken) for o in outcomes)
    if scenario.control:
        caught = sum(o.good for o in outcomes)
        return "caught" if caught == len(outcomes) else f"**caught in {caught} of {len(outcomes)}**"
    found = {kind: sum(o.found.get(kind, 0) for o in outcomes) for kind in KINDS}
    told = [f"{kind} {n}" for kind, n in found.items() if n]
    told += [f"no verdict in {broken} runs"] if broken else []
    forgotten = sum(o.forgotten for o in outcomes)
    held = f"**{', '.join(told)}**" if told else "held"
    if forgotten:
        held += f"; {forgotten} lost within {scenario.rules.forgets:g} s before a cut, as may be"
    if unjudged := scenario.rules.unjudged:
        held += f" (not judged: {', '.join(unjudged)})"
    return held


def write(outcomes: Sequence[Outcome], scenarios: Sequence[Scenario], day: date) -> None:
    PAGE.write_text(page(outcomes, scenarios, day), "utf-8")
