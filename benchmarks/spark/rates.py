"""The table that every comparison here ends in: a line per side, its speed, and its ratios."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.rounds import Ratio, Rounds
from benchmarks.run import Table


def rate_table(title: str, rounds: Rounds, baselines: Mapping[str, str], note: str) -> Table:
    """`baselines`: the heading of a column of ratios, and the side they are ratios to."""
    return Table(
        title,
        ("side", "rows/s", *baselines),
        rate_rows(rounds, tuple(baselines.values())),
        f"{note} × is the median of the rounds' own ratios, with its quartiles: more is faster.",
    )


def rate_rows(rounds: Rounds, baselines: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [
        (
            side,
            f"{rounds.per_second(side):,.0f}",
            *("1" if side == base else shown(rounds.speed(side, base)) for base in baselines),
        )
        for side in rounds.times
    ]


def shown(ratio: Ratio) -> str:
    return f"{ratio.median:.2f} ({ratio.low:.2f}–{ratio.high:.2f})"
