"""Does a receive cost the same however much is in the queue?

The server's own time for one receive of 100 messages (INFO commandstats), on two queues of the same
server: one with few messages in a state, one with very many. They take turns, and between two
receives everything is put back as it was. Wall time would say the same, less clearly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import holdfast
from benchmarks.bars import Bar, flat
from benchmarks.rounds import Ratio, ratio
from benchmarks.run import Run, Table
from benchmarks.servers import running

COUNT = 100
FEW = 1_000
TOLERANCE = 0.25
_STEP = 1_000
_AN_HOUR = 3_600


@dataclass(frozen=True)
class State:
    """The server's µs for one receive, each time, and many's as a multiple of few's."""

    few_us: list[int]
    many_us: list[int]
    ratio: Ratio


@dataclass(frozen=True)
class FlatResult:
    few: int
    many: int
    states: dict[str, State]

    def tables(self) -> list[Table]:
        return [
            Table(
                f"Server time of one receive of {COUNT}, by what the queue holds",
                ("state", f"{self.few:,}, µs", f"{self.many:,}, µs", "many ÷ few"),
                [
                    (
                        state,
                        f"{median(of.few_us):,.0f}",
                        f"{median(of.many_us):,.0f}",
                        f"{of.ratio.median:.2f} ({of.ratio.low:.2f}–{of.ratio.high:.2f})",
                    )
                    for state, of in self.states.items()
                ],
                "1 is flat.",
            )
        ]

    def bars(self) -> list[Bar]:
        return [
            flat(f"receive with many {state}, of with few", of.ratio.median, TOLERANCE)
            for state, of in self.states.items()
        ]


def measure(run: Run) -> FlatResult:
    many = run.choose(1_000_000, 5_000)
    states = {"ready": _fill_ready, "leased": _fill_leased, "delayed": _fill_delayed}
    return FlatResult(
        FEW, many, {name: _state(run, name, fill, many) for name, fill in states.items()}
    )


def _state(run: Run, name: str, fill: Callable[[Run, holdfast.Queue], None], many: int) -> State:
    turns = run.choose(150, 5)
    with (
        running("fast") as server,
        server.connect() as client,
        holdfast.connect(server.url) as ours,
    ):
        queues = {FEW: ours.queue("few"), many: ours.queue("many")}
        with run.step(f"flat: {many:,} {name}", (FEW + many) // _STEP + turns) as tick:
            for size, queue in queues.items():
                for _ in range(size // _STEP):
                    fill(run, queue)
                    tick()
            bodies = run.bodies(COUNT)
            if name != "ready":
                for queue in queues.values():
                    queue.send_many(bodies)
            spent: dict[int, list[int]] = {FEW: [], many: []}
            order = [FEW, many]
            for number in range(-5, turns):
                run.rng.shuffle(order)
                for size in order:
                    before = _function_us(client)
                    got = queues[size].receive_many(COUNT)
                    took = _function_us(client) - before
                    if len(got) != COUNT or len(queues[size].ack_many(got)) != COUNT:
                        raise RuntimeError(f"{len(got)} of {COUNT} messages came")
                    queues[size].send_many(bodies)
                    if number >= 0:
                        spent[size].append(took)
                tick()
    return State(spent[FEW], spent[many], ratio(spent[many], spent[FEW]))


def _fill_ready(run: Run, queue: holdfast.Queue) -> None:
    queue.send_many(run.bodies(_STEP))


def _fill_leased(run: Run, queue: holdfast.Queue) -> None:
    queue.send_many(run.bodies(_STEP))
    for _ in range(_STEP // COUNT):  # as many leases as consumers would have made
        queue.receive_many(COUNT, lease=_AN_HOUR)


def _fill_delayed(run: Run, queue: holdfast.Queue) -> None:
    queue.send_many(
        [
            holdfast.Outgoing(body, delay=_AN_HOUR + run.rng.randrange(_AN_HOUR))
            for body in run.bodies(_STEP)
        ]
    )


def _function_us(client: Any) -> int:
    return int(client.info("commandstats").get("cmdstat_fcall", {"usec": 0})["usec"])
