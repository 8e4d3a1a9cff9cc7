"""Schedules: which ticks there are, on the days on which clocks are changed too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice, pairwise, takewhile
from operator import gt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast import InvalidArgument
from holdfast.tasks.cron import Cron

PARIS = "Europe/Paris"
MOMENT = timedelta(milliseconds=1)


def cron(expression: str, tz: str = "UTC", **options: Any) -> Cron:
    app = holdfast.App()

    @app.cron(expression, tz=tz, **options)
    def tick() -> None: ...

    return app.crons["tick"]


def ticks(expression: str, start: str, count: int, tz: str = PARIS) -> list[str]:
    """The next ticks, in UTC, as short as possible."""
    found = islice(cron(expression, tz).after(datetime.fromisoformat(start + "Z")), count)
    return [tick.strftime("%m-%d %H:%M") for tick in found]


# ---- clocks that are changed ---------------------------------------------------------------------


def test_a_daily_tick_that_spring_leaves_out_comes_when_the_hour_would_be_over() -> None:
    """On 29 March 2026 it is 03:00 in Paris right after 01:59."""
    found = ticks("30 2 * * *", "2026-03-27T12:00", 3)
    assert found == ["03-28 01:30", "03-29 01:00", "03-30 00:30"]


def test_a_daily_tick_that_autumn_has_twice_comes_the_first_time_only() -> None:
    """On 25 October 2026 it is 02:00 in Paris after 02:59, once."""
    found = ticks("30 2 * * *", "2026-10-23T12:00", 3)
    assert found == ["10-24 00:30", "10-25 00:30", "10-26 01:30"]


def test_who_comes_in_the_second_of_the_two_hours_is_not_sent_back_to_the_first() -> None:
    assert ticks("30 2 * * *", "2026-10-25T01:10", 1) == ["10-26 01:30"]


def test_a_tick_every_half_hour_goes_by_the_time_that_passes() -> None:
    spring = ticks("*/30 * * * *", "2026-03-29T00:00", 4)
    assert spring == ["03-29 00:30", "03-29 01:00", "03-29 01:30", "03-29 02:00"]
    autumn = ticks("*/30 * * * *", "2026-10-25T00:00", 4)
    assert autumn == ["10-25 00:30", "10-25 01:00", "10-25 01:30", "10-25 02:00"]


def test_ticks_that_meet_at_the_end_of_the_hour_that_is_left_out_are_one() -> None:
    assert ticks("0,30 2,3 * * *", "2026-03-28T12:00", 3) == [
        "03-29 01:00",
        "03-29 01:30",
        "03-30 00:00",
    ]


def test_with_seconds_the_face_of_the_clock_counts() -> None:
    assert ticks("0 30 2 * * *", "2026-03-28T12:00", 1) == ["03-30 00:30"]
    assert ticks("0 30 2 * * *", "2026-10-24T12:00", 2) == ["10-25 00:30", "10-25 01:30"]


@pytest.mark.parametrize("tz", [PARIS, "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize("expression", ["30 2 * * *", "*/30 * * * *", "0,30 1-3 * * *", "@daily"])
@pytest.mark.slow
def test_the_last_tick_is_the_one_after_which_there_is_none(expression: str, tz: str) -> None:
    """Around every change of one of these clocks in 2026."""
    schedule = cron(expression, tz)
    for day in ("03-08", "03-29", "04-05", "10-04", "10-25", "11-01"):
        start = datetime.fromisoformat(f"2026-{day}T00:00Z") - timedelta(days=1, hours=12)
        found = list(takewhile(partial(gt, start + timedelta(days=2)), schedule.after(start)))
        for before, after in pairwise(found):
            assert before < after
            for moment in (before, before + (after - before) / 2, after - MOMENT):
                assert schedule.next(moment) == after
                assert schedule.last(moment) == before


EXPRESSIONS = [
    "* * * * * *",
    "*/5 * * * *",
    "0 9 * * MON-FRI",
    "@monthly",
    "0 0 29 2 *",
    "0 0 L * *",
]


@given(
    expression=st.sampled_from(EXPRESSIONS),
    moment=st.datetimes(datetime(2000, 3, 1), datetime(2090, 1, 1), timezones=st.just(UTC)),
)
@pytest.mark.slow
def test_last_and_next_are_the_ticks_around_a_moment(expression: str, moment: datetime) -> None:
    schedule = cron(expression, PARIS)
    last, after = schedule.last(moment), schedule.next(moment)
    assert last is not None
    assert last <= moment < after
    assert schedule.next(last) == after
    assert schedule.next(last - timedelta(seconds=1)) == last
    assert schedule.last(after) == after


# ---- expressions ---------------------------------------------------------------------------------


def test_words_stand_for_the_usual_ones() -> None:
    start = "2026-05-13T10:20"  # a Wednesday
    found = {word: ticks(word, start, 1, "UTC")[0] for word in ("@hourly", "@Daily", "@weekly")}
    assert found == {"@hourly": "05-13 11:00", "@Daily": "05-14 00:00", "@weekly": "05-17 00:00"}
    found = {word: ticks(word, start, 1, "UTC")[0] for word in ("@monthly", "@yearly")}
    assert found == {"@monthly": "06-01 00:00", "@yearly": "01-01 00:00"}


def test_a_field_in_front_is_for_seconds() -> None:
    start = datetime(2026, 5, 13, 10, 20, 7, tzinfo=UTC)
    found = [t.second for t in islice(cron("*/20 * * * * *").after(start), 4)]
    assert found == [20, 40, 0, 20]


@pytest.mark.parametrize(
    "expression",
    ["", "* * * *", "* * * * * * *", "61 * * * *", "@reboot", "0 0 31 2 *", "often", None],
)
def test_what_is_no_expression_is_refused_and_it_is_said_how_one_looks(expression: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"is no cron expression .* for example \*/5"):
        cron(expression)


@pytest.mark.parametrize("tz", ["Mars/Base", "", "../etc/passwd", 7])
def test_a_time_zone_that_is_not_there_is_refused(tz: Any) -> None:
    with pytest.raises(InvalidArgument, match="there is no time zone"):
        cron("@daily", tz)


def test_missed_is_skip_or_run() -> None:
    with pytest.raises(InvalidArgument, match="missed must be 'skip' or 'run', not 'maybe'"):
        cron("@daily", missed="maybe")


def test_a_task_that_needs_arguments_cannot_be_scheduled() -> None:
    app = holdfast.App()

    with pytest.raises(InvalidArgument, match="needs_one"):

        @app.cron("@daily")
        def needs_one(n: int) -> None: ...


def test_one_task_can_have_several_schedules_by_different_names() -> None:
    app = holdfast.App()

    @app.cron("@daily", name="at night", tz=PARIS)
    @app.cron("0 12 * * *", name="at noon", queue="chores", priority=3)
    def sweep() -> None: ...

    assert {name: c.task for name, c in app.crons.items()} == {"at noon": sweep, "at night": sweep}
    assert (sweep.definition.queue, sweep.definition.priority) == ("chores", 3)
    with pytest.raises(InvalidArgument, match="there is a schedule 'at noon' already"):
        app.cron("@daily", name="at noon")(sweep)


def test_a_schedule_refuses_a_window_that_it_would_not_keep() -> None:
    app = holdfast.App()

    with pytest.raises(InvalidArgument, match="say unique='queued'"):

        @app.cron("@daily", unique_for=60)
        def sweep() -> None: ...

    assert app.crons == {}
