"""Plots with a row for each thing: stacked bars, single bars, and ranges of time.

The labels are the page's own text and only the bar is a picture, stretched to the room there is: so they
stay readable on a phone, where a scaled drawing would not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import log10

from holdfast.spark.jobs.report import figures
from holdfast.spark.jobs.report.markup import Markup, tag
from holdfast.spark.jobs.report.summary import Spread

_WIDTH, _HEIGHT = 1000, 16

_MARKS = {
    1: "1 ms",
    10: "10 ms",
    100: "100 ms",
    1_000: "1 s",
    10_000: "10 s",
    60_000: "1 m",
    600_000: "10 m",
    3_600_000: "1 h",
    36_000_000: "10 h",
    86_400_000: "1 d",
    864_000_000: "10 d",
    8_640_000_000: "100 d",
}


def _row(label: str, picture: Markup, value: str, note: str = "") -> Markup:
    return tag(
        "div",
        tag("div", tag("b", figures.shown(label)), note and tag("i", note), class_="what"),
        picture,
        tag("div", value, class_="value"),
        class_="row",
    )


def _picture(label: str, drawn: Iterable[Markup]) -> Markup:
    return tag(
        "svg",
        tag("title", label),
        drawn,
        class_="bar",
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def _piece(left: float, width: float, colour: str, title: str) -> Markup:
    return tag(
        "g",
        tag("title", title),
        # Something is always seen of what is there at all.
        tag("rect", class_=colour, x=left, y=0, width=max(width, 2.0), height=_HEIGHT),
        class_="at",
    )


def single(
    rows: Sequence[tuple[str, str, int, str]],
    colour: str,
) -> Markup:
    """Label, note, number and what the number is: one bar each, the largest as wide as there is room."""
    most = max((n for _, _, n, _ in rows), default=0) or 1
    return tag(
        "div",
        [
            _row(
                label,
                _picture(f"{label}: {n:,} {what}", [_piece(0, _WIDTH * n / most, colour, what)]),
                figures.count(n),
                note,
            )
            for label, note, n, what in rows
        ],
        class_="rows",
    )


def parts(
    rows: Mapping[str, Mapping[str, int]], shown: Sequence[tuple[str, str, str]], what: str
) -> Markup:
    """For each label its parts as shares of the whole, and the whole in numbers."""
    drawn = []
    for label, counts in rows.items():
        whole = sum(counts.values())
        left, pieces = 0.0, []
        for name, named, colour in shown:
            n = counts.get(name, 0)
            if n:
                width = _WIDTH * n / whole
                title = f"{named}: {n:,} of {whole:,} ({figures.percent(n, whole)})"
                pieces.append(_piece(left, width, colour, title))
                left += width
        drawn.append(_row(label, _picture(f"{label}: {whole:,} {what}", pieces), f"{whole:,}"))
    return tag("div", drawn, class_="rows")


def ranges(rows: Sequence[tuple[str, Spread]], colour: str) -> Markup:
    """For each label a bar from p50 to p99 with a mark at p95, all on one logarithmic scale."""
    low = min((spread.p50_ms for _, spread in rows), default=1)
    high = max((spread.p99_ms for _, spread in rows), default=1)
    start = max((ms for ms in _MARKS if ms <= max(low, 1)), default=1)
    end = min((ms for ms in _MARKS if ms >= max(high, start * 10)), default=max(_MARKS))
    marks = {ms: name for ms, name in _MARKS.items() if start <= ms <= end}

    def x(ms: float) -> float:
        at = (log10(max(ms, start)) - log10(start)) / (log10(end) - log10(start))
        return _WIDTH * min(at, 1.0)

    grid = [
        tag("rect", class_="mark", x=min(x(ms), _WIDTH - 1.5), y=0, width=1.5, height=_HEIGHT)
        for ms in marks
    ]
    drawn = []
    for label, spread in rows:
        said = (
            f"p50 {figures.duration(spread.p50_ms)}, p95 {figures.duration(spread.p95_ms)}, "
            f"p99 {figures.duration(spread.p99_ms)}, longest {figures.duration(spread.max_ms)}"
        )
        left, right, p95 = x(spread.p50_ms), x(spread.p99_ms), x(spread.p95_ms)
        bar = tag(
            "g",
            tag("title", f"{label}\n{said}"),
            tag("rect", class_="hit", x=0, y=0, width=_WIDTH, height=_HEIGHT),
            tag(
                "rect",
                class_=f"faint {colour}",
                x=left,
                y=5,
                width=max(right - left, 4.0),
                height=6,
            ),
            tag("rect", class_=colour, x=left, y=5, width=max(p95 - left, 4.0), height=6),
            tag("rect", class_=colour, x=min(p95, _WIDTH - 6.0), y=1, width=6, height=14),
            class_="at",
        )
        picture = _picture(f"{label}: {said}", [*grid, bar])
        drawn.append(_row(label, picture, figures.duration(spread.p95_ms)))
    # Short of the crowd: a scale of many decades names every other one.
    named = list(marks.items())[:: 1 if len(marks) <= 5 else 2]
    scale = tag(
        "div",
        tag("div", class_="what"),
        tag(
            "div",
            [tag("span", name, style=f"left:{x(ms) / _WIDTH:.2%}") for ms, name in named],
            class_="scale",
        ),
        tag("div", "p95", class_="value"),
        class_="row head",
    )
    return tag("div", scale, drawn, class_="rows")
