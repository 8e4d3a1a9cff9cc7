"""What does a subscriber more cost who publishes?

The same messages published on three topics of one server, with 1, 10 and 100 subscriptions. An envelope
is stored once however many take it, so a hundred must cost far less than a hundred times as much.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from statistics import median

import holdfast
from benchmarks.bars import Bar
from benchmarks.rounds import Laps, Ratio, Rounds, interleave, ratio
from benchmarks.run import BODY_BYTES, Run, Table
from benchmarks.servers import running

SUBSCRIPTIONS = (1, 10, 100)
BATCHES = (1, 100)
LIMIT = 30.0

# Calls in one round.
_PER_ROUND = {1: 20, 100: 2}


@dataclass(frozen=True)
class Row:
    batch: int
    rounds: Rounds
    to_one: dict[int, Ratio]
    """Time of a publish to so many, of one to a single subscription."""


@dataclass(frozen=True)
class FanoutResult:
    rows: list[Row]

    def tables(self) -> list[Table]:
        lines: list[tuple[str, ...]] = []
        for row in self.rows:
            for n in SUBSCRIPTIONS:
                spent = median(row.rounds.total(str(n))) / row.rounds.messages
                of = row.to_one[n]
                lines.append(
                    (
                        f"{row.batch:,}" if n == 1 else "",
                        f"{n}",
                        f"{row.rounds.per_second(str(n)):,.0f}",
                        f"{row.rounds.per_second(str(n)) * n:,.0f}",
                        f"{spent / 1000 / n:.2f}",
                        f"{of.median:.2f} ({of.low:.2f}–{of.high:.2f})",
                    )
                )
        return [
            Table(
                "Publishing to many subscriptions, mode fast",
                (
                    "batch",
                    "subscriptions",
                    "published/s",
                    "stored/s",
                    "µs per stored",
                    "time, of to one",
                ),
                lines,
                f"{BODY_BYTES}-byte bodies, one client process. Less time is better; linear would be "
                "as many times as there are subscriptions.",
            )
        ]

    def bars(self) -> list[Bar]:
        return [
            Bar(
                f"publish of {row.batch} to 100 subscriptions, time of to one",
                row.to_one[100].median,
                "≤",
                LIMIT,
            )
            for row in self.rows
        ]


def measure(run: Run) -> FanoutResult:
    with running("fast") as server, holdfast.connect(server.url) as client:
        topics = {n: client.topic(f"fan {n}") for n in SUBSCRIPTIONS}
        for n, topic in topics.items():
            for number in range(n):
                topic.subscribe(f"consumer {number}")
        return FanoutResult([_row(run, topics, batch) for batch in BATCHES])


def _row(run: Run, topics: dict[int, holdfast.Topic], batch: int) -> Row:
    per_round = run.choose(_PER_ROUND[batch], 1)
    batches = [run.bodies(batch) for _ in range(per_round)]
    count = run.choose(40, 2)
    with run.step(f"fan-out, batches of {batch}", count + 1) as tick:
        rounds = interleave(
            {str(n): partial(_one_round, topic, batches) for n, topic in topics.items()},
            messages=batch * per_round,
            rounds=count,
            rng=run.rng,
            tick=tick,
        )
    return Row(
        batch, rounds, {n: ratio(rounds.total(str(n)), rounds.total("1")) for n in SUBSCRIPTIONS}
    )


def _one_round(topic: holdfast.Topic, batches: list[list[bytes]]) -> Laps:
    started = time.perf_counter_ns()
    for bodies in batches:
        if len(bodies) == 1:
            topic.publish(bodies[0])
        else:
            topic.publish_many(bodies)
    spent = time.perf_counter_ns() - started
    expected = [body for bodies in batches for body in bodies]
    for info in topic.subscriptions():  # all have all, and are empty for the next round
        seat = topic.subscription(info.consumer)
        got = seat.receive_many(len(expected))
        if [d.body for d in got] != expected or len(seat.ack_many(got)) != len(expected):
            raise RuntimeError(f"{seat!r} did not get what was published, in order")
    return {"publish": spent}
