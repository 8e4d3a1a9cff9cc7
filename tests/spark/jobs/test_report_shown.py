"""How numbers are written and plots are laid out."""

from __future__ import annotations

import pytest

from holdfast.spark.jobs.report import charts, figures, markup
from holdfast.spark.jobs.report.bars import ranges
from holdfast.spark.jobs.report.findings import Series
from holdfast.spark.jobs.report.summary import Spread


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.00 s"),
        (9_999, "9.99 s"),
        (59_999, "59.9 s"),
        (60_000, "1 m"),
        (200_000, "3 m 20 s"),
        (3_600_000, "1 h"),
        (7_500_000, "2 h 5 m"),
        (86_400_000, "1 d"),
        (100 * 3_600_000, "4 d 4 h"),
    ],
)
def test_a_duration_is_short_and_never_rounded_up_to_the_next_unit(ms: int, said: str) -> None:
    assert figures.duration(ms) == said


@pytest.mark.parametrize(
    ("part", "whole", "said"),
    [
        (0, 0, "0 %"),
        (0, 5, "0 %"),
        (1, 10_000, "< 0.1 %"),
        (3, 1000, "0.3 %"),
        (12, 100, "12 %"),
        (9_999, 10_000, "> 99.9 %"),
        (7, 7, "100 %"),
    ],
)
def test_a_share_is_none_or_all_only_if_it_is(part: int, whole: int, said: str) -> None:
    assert figures.percent(part, whole) == said


def test_sizes_and_axis_numbers() -> None:
    assert [figures.size(n) for n in (0, 1023, 1024, 1536, 20 * 1024**2, 2**60)] == [
        "0 B",
        "1023 B",
        "1.0 KB",
        "1.5 KB",
        "20.0 MB",
        "1048576.0 TB",
    ]
    assert [figures.short(n) for n in (0, 950, 1200, 15_000, 3e6)] == [
        "0",
        "950",
        "1.2k",
        "15k",
        "3M",
    ]


def test_markup_made_by_tag_is_kept_and_all_else_is_escaped() -> None:
    inner = markup.tag("b", "<i>")
    assert inner == "<b>&lt;i&gt;</b>"
    made = markup.tag("p", inner, [None, "&", ["\x07"]], 3, class_="a", data_v='"', title=None)
    assert made == '<p class="a" data-v="&quot;"><b>&lt;i&gt;</b>&amp;\\x073</p>'


@pytest.mark.parametrize("highest", [0, 1, 3, 7, 10, 99, 850, 12_345])
def test_an_axis_reaches_the_highest_value_in_a_few_round_steps(highest: int) -> None:
    step = charts.nice_step(highest)
    assert step >= 1
    assert 0 <= highest / step <= 5
    assert str(step).rstrip("0.")[:1] in ("1", "2", "5")


@pytest.mark.parametrize("span", [1_000, 90_000, 3_600_000, 86_400_000, 30 * 86_400_000, 10**12])
def test_time_ticks_are_few_and_lie_within_the_picture(span: int) -> None:
    start = 1_772_366_400_123
    ticks = charts.time_ticks(start, start + span)
    assert len(ticks) <= 7
    assert all(start <= ms < start + span for ms, _ in ticks)


def test_one_bucket_is_enough_for_a_chart() -> None:
    series = Series((1_000,), {"a": (3,), "b": (0,)})
    shown = [("a", "a", "blue"), ("b", "b", "red")]
    for draw in (charts.lines, charts.stacked):
        drawn = draw("Title", "what it is", series, 1_000, shown)
        assert "<title>Title</title>" in drawn
        assert "a: 3" in drawn
        assert "nan" not in drawn
    assert "nan" not in charts.sparkline("x", [0], "blue")


def test_times_of_nothing_and_of_months_fit_one_scale() -> None:
    rows = [("a", Spread(0, 0, 0, 0)), ("b", Spread(1, 10, 90 * 86_400_000, 10**12))]
    drawn = ranges(rows, "blue")
    assert "1 ms" in drawn
    assert "10 d" in drawn
    assert "nan" not in drawn
