"""Schedules: when a task is to run by itself.

The expression is cron's, with five fields; cronsim reads it, and knows what to do about the hours that a
change to or from summer time repeats or leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from holdfast import names
from holdfast.errors import InvalidArgument

if TYPE_CHECKING:
    from holdfast.tasks.task import Task

Missed = Literal["skip", "run"]


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
        except (ZoneInfoNotFoundError, ValueError, TypeError) as error:
            raise InvalidArgument(
                f"there is no time zone {tz!r}; use a name like Europe/Paris or UTC"
            ) from error
        try:
            CronSim(expression, datetime.now(self.tz))
        except (CronSimError, AttributeError) as error:
            raise InvalidArgument(
                f"{expression!r} is no cron expression ({error}); it has five fields: minute, hour, day of "
                "month, month, day of week, for example */5 * * * *"
            ) from error
        self.arguments = task.arguments.bind((), {})

    def after(self, moment: datetime) -> Iterator[datetime]:
        """All ticks after a moment, in UTC, in order."""
        for tick in CronSim(self.expression, moment.astimezone(self.tz)):
            yield tick.astimezone(UTC)

    def next(self, moment: datetime) -> datetime:
        """The first tick after a moment."""
        return next(self.after(moment))

    def __repr__(self) -> str:
        return f"<Cron {self.name!r} {self.expression!r} {self.tz.key}>"
