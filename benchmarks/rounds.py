"""Fair comparison on a noisy machine: many short rounds, every side in each, medians of ratios.

A round runs all sides one after the other in a shuffled order, so that noise which lasts longer
than a round hits all of them alike and cancels out of the round's ratio. Rejected: all of one side,
then all of the other, and the ratio of the means; on a shared machine that measures the weather.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median, quantiles

Laps = dict[str, int]
"""ns by phase."""


@dataclass(frozen=True)
class Ratio:
    """The median over the rounds, and the quartiles around it."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f}"


@dataclass(frozen=True)
class Rounds:
    """What was measured: times[side][phase][round], in ns, each for `messages` messages."""

    messages: int
    times: dict[str, dict[str, list[int]]]

    def total(self, side: str, phases: tuple[str, ...] = ()) -> list[int]:
        """ns of each round, over these phases or all."""
        chosen = [of for phase, of in self.times[side].items() if not phases or phase in phases]
        return [sum(parts) for parts in zip(*chosen, strict=True)]

    def speed(self, side: str, baseline: str, phases: tuple[str, ...] = ()) -> Ratio:
        """Throughput of a side as a part of the baseline's: 0.5 is half as fast, 2 twice."""
        return ratio(self.total(baseline, phases), self.total(side, phases))

    def per_second(self, side: str, phases: tuple[str, ...] = ()) -> float:
        """Messages a second, in the median round."""
        return self.messages * 1e9 / median(self.total(side, phases))


def ratio(above: list[int], below: list[int]) -> Ratio:
    """Of what belongs together, round by round."""
    each = [a / b for a, b in zip(above, below, strict=True)]
    if len(each) < 2:
        return Ratio(each[0], each[0], each[0])
    low, middle, high = quantiles(each, n=4, method="inclusive")
    return Ratio(middle, low, high)


def interleave(
    sides: Mapping[str, Callable[[], Laps]],
    *,
    messages: int,
    rounds: int,
    rng: random.Random,
    tick: Callable[[], None],
    warm_up: int = 1,
) -> Rounds:
    """Run every side once per round, in random order; the first rounds are thrown away."""
    times: dict[str, dict[str, list[int]]] = {side: {} for side in sides}
    order = list(sides)
    for number in range(-warm_up, rounds):
        rng.shuffle(order)
        for side in order:
            gc.collect()  # nobody pays for another's garbage
            laps = sides[side]()
            if number >= 0:
                for phase, ns in laps.items():
                    times[side].setdefault(phase, []).append(ns)
        tick()
    return Rounds(messages, times)
