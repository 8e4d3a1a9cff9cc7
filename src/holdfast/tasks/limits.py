"""Limits that all workers share: so many in a while, so many at a time; of a task, of a queue, per key.

The server counts (engine: permit), on its own clock, so it does not matter how many workers there are or
what their clocks say. What a limit turns away is not a failure: it comes back a little later, and no attempt
of it is counted. Rejected: dividing a limit by the number of workers, which is wrong whenever one is idle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from holdfast import names
from holdfast.errors import InvalidArgument
from holdfast.settings import Seconds, milliseconds, whole

Key = Callable[..., str]


class Limit:
    """`key`: from the task's arguments, as the task itself is called with them, to the name of what is
    limited; without one, all count together. Limits with the same `name` count together wherever they are
    used, and should then say the same."""

    kind = ""

    def __init__(self, most: int, *, key: Key | None, name: str | None) -> None:
        self.most = whole(most, "a limit", 1, 1_000_000)
        if key is not None and not callable(key):
            raise InvalidArgument("a limit's key must be a function of the task's arguments")
        self.key = key
        self.name = name if name is None else names.check(name, "a limit's name")

    def named(
        self, owner: str, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> str:
        """What this counts for one call, as all workers call it. `owner`: what the limit belongs to and
        which of its limits it is. Raises what the key raises; InvalidArgument where that is no name."""
        # An owner has a slash in front and a name has none, so that they never meet.
        name = f"{self.kind}:{self.name or '/' + owner}"
        if self.key is None:
            return name
        return f"{name}:{names.check(self.key(*args, **(kwargs or {})), 'a limit key')}"


class Rate(Limit):
    """At most `most` in `per` seconds; up to so many may come at once after a pause."""

    kind = "rate"

    def __init__(
        self, most: int, per: Seconds = 1, *, key: Key | None = None, name: str | None = None
    ) -> None:
        super().__init__(most, key=key, name=name)
        self.per_ms = milliseconds(per, "per", least=1)

    @property
    def each(self) -> float:
        """Seconds between two, where they come evenly."""
        return self.per_ms / 1000 / self.most

    def __repr__(self) -> str:
        return f"Rate({self.most}, per={self.per_ms / 1000:g})"


class Concurrency(Limit):
    """At most `most` at a time. What a worker has fetched and not yet begun with counts too."""

    kind = "concurrency"

    def __init__(self, most: int, *, key: Key | None = None, name: str | None = None) -> None:
        super().__init__(most, key=key, name=name)

    def __repr__(self) -> str:
        return f"Concurrency({self.most})"


class Need(NamedTuple):
    """A limit that one call has to pass, by the name under which it is counted."""

    name: str
    limit: Limit


def of_queue(queue: str, limits: Sequence[Limit]) -> list[Need]:
    return [Need(limit.named(f"queue/{queue}/{i}"), limit) for i, limit in enumerate(limits)]


def of_call(
    task: str, limits: Sequence[Limit], args: Sequence[Any], kwargs: dict[str, Any]
) -> list[Need]:
    """Raises what a key raises; InvalidArgument where it is no name."""
    return [
        Need(limit.named(f"task/{task}/{i}", args, kwargs), limit) for i, limit in enumerate(limits)
    ]
