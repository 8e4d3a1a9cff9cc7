"""Schedules: when a task is to run by itself.

The expression is cron's, with five fields, six with one for seconds in front, or a word like @daily; cronsim
reads it. Where a change of summer time repeats an hour or leaves one out:

- a tick at a fixed time of day (neither minute nor hour begins with a star) runs once a day: one that would
  fall into the hour that is left out comes when that hour would be over (02:30 at 03:00), and in the hour
  that is there twice only the first one counts;
- one that comes every so often (a star) goes by the time that passes: none is left out, none comes twice;
- with seconds the clock's face is taken at its word: what is not on it that day is left out, and what is on
  it twice comes twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from holdfast import names
from holdfast.errors import InvalidArgument

if TYPE_CHECKING:
    from holdfast.tasks.task import Task

Missed = Literal["skip", "run"]

WORDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
# No expression has ticks that are further apart: a 29th of February on a given day of the week.
_FURTHEST = timedelta(days=41 * 366)


class Cron:
    """One schedule of one task, which takes no arguments that have no default."""

    def __init__(
        self, name: str, task: Task[Any, Any], expression: str, tz: str, missed: Missed
    ) -> None:
        self.name = names.check(name, "a schedule's name")
        self.task = task
        self.expression = expression
        self.missed = missed
        if missed not in ("skip", "run"):
            raise InvalidArgument(f"missed must be 'skip' or 'run', not {missed!r}")
        try:
            self.tz = ZoneInfo(tz)
        except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
            raise InvalidArgument(
                f"there is no time zone {tz!r}; use a name like Europe/Paris or UTC"
            ) from error
        try:
            self._fields = WORDS.get(expression.lower(), expression)
            self.next(datetime.now(UTC))
        except (CronSimError, AttributeError, StopIteration) as error:
            raise InvalidArgument(
                f"{expression!r} is no cron expression ({error or 'it never comes'}); it has five fields: "
                "minute, hour, day of month, month, day of week, for example */5 * * * *; or six, with "
                f"seconds first; or is one of {', '.join(WORDS)}"
            ) from error
        self.arguments = task.arguments.bind((), {})

    def after(self, moment: datetime) -> Iterator[datetime]:
        """All ticks after a moment, in UTC, each later than the one before it."""
        for tick in CronSim(self._fields, moment.astimezone(self.tz)):
            # In an hour that is there twice, and around one that is left out, cronsim may repeat itself.
            found = tick.astimezone(UTC)
            if found > moment:
                moment = found
                yield found

    def next(self, moment: datetime) -> datetime:
        """The first tick after a moment."""
        return next(self.after(moment))

    def last(self, moment: datetime) -> datetime | None:
        """The last tick that is not after a moment.

        Found by halving, from what comes next after earlier moments: cronsim can go backwards, but does not
        see all ticks of an hour that is there twice then.
        """
        step = timedelta(minutes=1)
        while (tick := self.next(moment - step)) > moment:
            step *= 4
            if step > _FURTHEST:
                return None
        early, late = moment - step, moment
        while late - early > timedelta(seconds=1):
            middle = early + (late - early) / 2
            if (found := self.next(middle)) <= moment:
                early, tick = middle, found
            else:
                late = middle
        return tick

    def __repr__(self) -> str:
        return f"<Cron {self.name!r} {self.expression!r} {self.tz.key}>"
