"""Durations and moments as people type and read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.cli import durations
from holdfast.errors import InvalidArgument


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", 5),
        ("0", 0),
        ("0.5", 0.5),
        (".5", 0.5),
        ("250ms", 0.25),
        ("30s", 30),
        ("5m", 300),
        ("2h", 7200),
        ("1d", 86_400),
        ("1.5h", 5400),
        ("1h30m", 5400),
        (" 5M ", 300),
    ],
)
def test_durations_may_be_typed_in_any_usual_unit(text: str, expected: float) -> None:
    assert durations.seconds(text, "--wait") == pytest.approx(expected)


@pytest.mark.parametrize(
    "text", ["", "x", "5x", "-5", "1e9", "5 m", "m", "nan", "inf", "5m x", "٣"]
)
def test_what_is_no_duration_is_named_with_what_would_be_one(text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        durations.seconds(text, "--wait")
    assert str(caught.value) == (
        f"--wait: {text!r} is not a duration; write seconds (5, 0.5) or 250ms, 30s, 5m, 2h, 1d"
    )


def test_a_duration_past_the_calendar_is_too_long() -> None:
    with pytest.raises(InvalidArgument, match="'99999999999999d' is too long"):
        durations.seconds("99999999999999d", "--wait")


def test_a_moment_without_a_zone_is_local_time() -> None:
    assert durations.moment("2030-01-31T09:00", "--due") == datetime(2030, 1, 31, 9).astimezone()


def test_a_moment_with_a_zone_is_taken_as_it_is() -> None:
    assert durations.moment("2030-01-31T09:00Z", "--due") == datetime(2030, 1, 31, 9, tzinfo=UTC)


def test_what_is_no_moment_is_named_with_what_would_be_one() -> None:
    with pytest.raises(InvalidArgument) as caught:
        durations.moment("tomorrow", "--due")
    assert str(caught.value) == (
        "--due: 'tomorrow' is not a point in time; write 2030-01-31T09:00 (local time), "
        "or with a zone: 2030-01-31T09:00Z"
    )


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (0, "0 ms"),
        (0.25, "250 ms"),
        (0.9999, "1 s"),
        (3.42, "3.42 s"),
        (59.97, "60 s"),
        (300, "5 min"),
        (9000, "2.5 h"),
        (86_400, "1 d"),
        (864_000, "10 d"),
        (86_400 * 5000, "5,000 d"),
    ],
)
def test_durations_are_shown_as_people_say_them(length: float, expected: str) -> None:
    assert durations.show(length) == expected


def test_an_age_is_never_negative_even_if_our_clock_is_behind() -> None:
    assert durations.ago(datetime.now(UTC) + timedelta(minutes=1)) == "0 ms ago"


def test_a_time_on_another_day_has_its_date() -> None:
    assert durations.clock(datetime(2030, 1, 31, 9, 0, 5).astimezone()) == "2030-01-31 09:00:05"
