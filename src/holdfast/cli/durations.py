"""Times as people type and read them: 30s, 5m, 2026-01-31T09:00, "3 s ago".

Moments without a time zone are local time, since that is what a person at a terminal means.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from holdfast.errors import InvalidArgument
from holdfast.settings import AS_SET, Lease

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(ms|s|m|h|d)", re.ASCII)
_NUMBER = re.compile(r"\d+(?:\.\d+)?|\.\d+", re.ASCII)
# Longer ones would overflow the calendar; the engine's own limit is lower and has its own message.
_LONGEST = 1e12


def seconds(text: str, what: str) -> float:
    """5, 0.5, 250ms, 30s, 5m, 2h, 1d, 1h30m as seconds. Raises InvalidArgument, naming `what`."""
    typed = text.strip().lower()
    if _NUMBER.fullmatch(typed):
        total = float(typed)
    else:
        parts = _PART.findall(typed)
        if not parts or "".join(number + unit for number, unit in parts) != typed:
            raise InvalidArgument(
                f"{what}: {text!r} is not a duration; write seconds (5, 0.5) or 250ms, 30s, 5m, 2h, 1d"
            )
        total = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if total > _LONGEST:
        raise InvalidArgument(f"{what}: {text!r} is too long")
    return total


def optional_seconds(text: str | None, what: str) -> float | None:
    return None if text is None else seconds(text, what)


def lease(text: str | None, what: str) -> Lease:
    """A lease: a duration, `none` for until settled, or not given: as the queue is set. Raises
    InvalidArgument, also for 0."""
    if text is None:
        return AS_SET
    found = end_of_lease(text, what)
    if found == 0:
        raise InvalidArgument(
            f"{what}: a lease of 0 is none at all; write `none` for one that lasts until settled"
        )
    return found


def end_of_lease(text: str, what: str) -> float | None:
    """When a lease ends from now; None for `none`: when settled."""
    return None if text.strip().lower() == "none" else seconds(text, what)


def moment(text: str, what: str) -> datetime:
    """An ISO 8601 point in time, local unless it says otherwise. Raises InvalidArgument."""
    try:
        found = datetime.fromisoformat(text.strip())
        return found.astimezone() if found.tzinfo is None else found
    except (ValueError, OverflowError):
        raise InvalidArgument(
            f"{what}: {text!r} is not a point in time; write 2030-01-31T09:00 (local time), "
            "or with a zone: 2030-01-31T09:00Z"
        ) from None


def show(duration: float) -> str:
    """How a person would say it: 250 ms, 3.4 s, 5 min, 2.5 h, 3 d."""
    if duration < 0.9995:
        return f"{duration * 1000:.0f} ms"
    for limit, size, unit in ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h")):
        if duration < limit:
            return f"{duration / size:.3g} {unit}"
    return f"{duration / 86_400:,.3g} d" if duration < 86_400e3 else f"{duration / 86_400:,.0f} d"


def ago(then: datetime) -> str:
    """How long ago; a clock that runs behind the server's must not show a negative age."""
    passed = (datetime.now(UTC) - then) / timedelta(seconds=1)
    return f"{show(max(passed, 0.0))} ago"


def ahead(then: datetime) -> str:
    """In how long, or how long ago."""
    left = (then - datetime.now(UTC)) / timedelta(seconds=1)
    return f"in {show(left)}" if left > 0 else ago(then)


def clock(then: datetime) -> str:
    """Local time of day; with the date if that is not today's."""
    local = then.astimezone()
    today = datetime.now(UTC).astimezone().date()
    return f"{local:%H:%M:%S}" if local.date() == today else f"{local:%Y-%m-%d %H:%M:%S}"
