"""Plots over time, as SVG: lines, and areas stacked on one another.

Drawn by hand rather than by a plotting library: they take the page's colours, light or dark, answer to
the pointer without a script, and cost nothing to install. All numbers here are a few hundred at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from holdfast.spark.jobs.report import figures
from holdfast.spark.jobs.report.findings import Series
from holdfast.spark.jobs.report.markup import Markup, tag

WIDTH, HEIGHT = 560, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 10, 12, 34
_SPARK_WIDTH, _SPARK_HEIGHT, _SPARK_POINTS = 120, 26, 60

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_STEPS = [
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 30, 90, 365, 3650)),
]

# What is shown, under which name, in which of the page's colours.
Shown = Sequence[tuple[str, str, str]]


class _Frame:
    """Where a value and a time lie in the picture, and the axes that say so."""

    def __init__(self, times_ms: Sequence[int], bucket_ms: int, highest: float) -> None:
        self.start, self.end = times_ms[0], times_ms[-1] + bucket_ms
        self.step = nice_step(highest)
        self.top = self.step * max(1, -(-highest // self.step))

    def x(self, ms: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (ms - self.start) / (self.end - self.start)

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / self.top

    def axes(self) -> list[Markup]:
        drawn = []
        value = 0.0
        while value <= self.top * 1.001:
            y = self.y(value)
            drawn += [
                tag("line", class_="grid", x1=_LEFT, x2=WIDTH - _RIGHT, y1=y, y2=y),
                tag("text", figures.short(value), class_="ytick", x=_LEFT - 7, y=y + 4),
            ]
            value += self.step
        for ms, label in time_ticks(self.start, self.end):
            x = self.x(ms)
            at_the_edge = x > WIDTH - 40
            drawn.append(
                tag(
                    "text",
                    label,
                    class_="xtick end" if at_the_edge else "xtick",
                    x=WIDTH if at_the_edge else x,
                    y=HEIGHT - _BOTTOM + 20,
                )
            )
        return drawn


def nice_step(highest: float, ticks: int = 5) -> float:
    """1, 2 or 5 times a power of ten, so that about `ticks` of them reach `highest`; whole."""
    step = 1.0
    while True:
        for factor in (1, 2, 5):
            if highest <= step * factor * ticks:
                return step * factor
        step *= 10


def time_ticks(start_ms: int, end_ms: int, most: int = 5) -> list[tuple[int, str]]:
    """Round moments between the two, and how to write them."""
    step = next((s for s in _STEPS if (end_ms - start_ms) // s <= most), _STEPS[-1])
    form = "%H:%M:%S" if step < _MINUTE else "%H:%M" if step < _DAY else "%d %b"
    if step >= 90 * _DAY:
        form = "%b %Y"
    first = -(-start_ms // step) * step
    return [(ms, _utc(ms).strftime(form)) for ms in range(first, end_ms, step)]


def _utc(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def lines(title: str, desc: str, series: Series, bucket_ms: int, shown: Shown) -> Markup:
    """One line for each name."""
    highest = max((max(series.values[name]) for name, _, _ in shown), default=0)
    frame = _Frame(series.times_ms, bucket_ms, highest)
    drawn = []
    for i, (name, _, colour) in enumerate(shown):
        points = _points(frame, series, bucket_ms, series.values[name])
        line = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        if i == 0:
            floor = f"L{points[-1][0]:.1f} {frame.y(0):.1f}L{points[0][0]:.1f} {frame.y(0):.1f}Z"
            drawn.append(tag("path", class_=f"area soft {colour}", d=line + floor))
        drawn.append(tag("path", class_=f"line {colour}", d=line))
    return _picture(title, desc, frame, drawn, _pointers(frame, series, bucket_ms, shown))


def stacked(title: str, desc: str, series: Series, bucket_ms: int, shown: Shown) -> Markup:
    """One area for each name, on top of those before it."""
    below = [0] * len(series.times_ms)
    layers = []
    for name, _, colour in shown:
        above = [a + b for a, b in zip(below, series.values[name], strict=True)]
        layers.append((below, above, colour))
        below = above
    frame = _Frame(series.times_ms, bucket_ms, max(below))
    drawn = []
    for low, high, colour in layers:
        if low == high:
            continue
        top = _points(frame, series, bucket_ms, high)
        bottom = reversed(_points(frame, series, bucket_ms, low))
        d = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in [*top, *bottom]) + "Z"
        drawn.append(tag("path", class_=f"area {colour}", d=d))
    return _picture(title, desc, frame, drawn, _pointers(frame, series, bucket_ms, shown))


def _points(
    frame: _Frame, series: Series, bucket_ms: int, values: Sequence[int]
) -> list[tuple[float, float]]:
    """Each value in the middle of its bucket; flat from there to the edges of the picture."""
    middle = [
        (frame.x(ms + bucket_ms / 2), frame.y(value))
        for ms, value in zip(series.times_ms, values, strict=True)
    ]
    return [
        (frame.x(frame.start), middle[0][1]),
        *middle,
        (frame.x(frame.end), middle[-1][1]),
    ]


def _pointers(frame: _Frame, series: Series, bucket_ms: int, shown: Shown) -> list[Markup]:
    """For each bucket a strip that says its numbers when pointed at."""
    strips = []
    form = "%Y-%m-%d %H:%M:%S" if bucket_ms < _DAY else "%Y-%m-%d"
    for i, ms in enumerate(series.times_ms):
        left, right = frame.x(ms), frame.x(ms + bucket_ms)
        numbers = [f"{label}: {series.values[name][i]:,}" for name, label, _ in shown]
        middle = (left + right) / 2
        strips.append(
            tag(
                "g",
                tag("title", "\n".join([_utc(ms).strftime(form), *numbers])),
                tag("rect", x=left, y=_TOP, width=right - left, height=HEIGHT - _TOP - _BOTTOM),
                tag("line", x1=middle, x2=middle, y1=_TOP, y2=HEIGHT - _BOTTOM),
                class_="at",
            )
        )
    return strips


def _picture(
    title: str, desc: str, frame: _Frame, drawn: Sequence[Markup], pointers: Sequence[Markup]
) -> Markup:
    return tag(
        "svg",
        tag("title", title),
        tag("desc", desc),
        frame.axes(),
        drawn,
        pointers,
        class_="chart",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"{title}. {desc}",
    )


def sparkline(label: str, values: Sequence[int], colour: str) -> Markup:
    """A line without axes, to stand in a table."""
    group = -(-len(values) // _SPARK_POINTS) or 1
    # The highest of each group: a peak must not vanish because there is little room.
    kept = [max(values[i : i + group]) for i in range(0, len(values), group)]
    if len(kept) == 1:
        kept *= 2
    highest = max(kept, default=0) or 1
    high = _SPARK_HEIGHT - 3
    points = [
        f"{_SPARK_WIDTH * i / (len(kept) - 1):.1f} {1.5 + high * (1 - v / highest):.1f}"
        for i, v in enumerate(kept)
    ]
    line = "M" + "L".join(points)
    floor = f"L{_SPARK_WIDTH} {_SPARK_HEIGHT}L0 {_SPARK_HEIGHT}Z"
    return tag(
        "svg",
        tag("title", label),
        tag("path", class_=f"area soft {colour}", d=line + floor),
        tag("path", class_=f"line thin {colour}", d=line),
        class_="sparkline",
        viewBox=f"0 0 {_SPARK_WIDTH} {_SPARK_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )
