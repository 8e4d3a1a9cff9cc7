"""How often a failed task is tried again, and when: a policy, possibly another one per exception class."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.client.backoff import exponential
from holdfast.errors import InvalidArgument
from holdfast.settings import Seconds, milliseconds, whole


class Retries:
    """`times` more tries after the first; waiting first, 2·first, 4·first … seconds, `most` at most, each
    shortened at random by up to `jitter` of itself.

    `on`: exceptions that have a policy of their own, a number or Retries; the closest class counts.
    An exception with 0 makes a dead letter at once.

        Retries(5, on={ConnectionError: Retries(20, first=0.2), ValueError: 0})
    """

    __slots__ = ("_delay", "_on", "times")

    def __init__(
        self,
        times: int = 3,
        *,
        first: Seconds = 1.0,
        most: Seconds = 300.0,
        jitter: float = 0.5,
        on: Mapping[type[BaseException], int | Retries] | None = None,
    ) -> None:
        self.times = whole(times, "retries", 0, 10_000)
        if not isinstance(jitter, int | float) or not 0 <= jitter <= 1:
            raise InvalidArgument(f"jitter must be from 0 to 1, not {jitter!r}")
        shortest = milliseconds(first, "first") / 1000
        self._delay = exponential(shortest, milliseconds(most, "most") / 1000, jitter)
        self._on: dict[type[BaseException], Retries] = {}
        for kind, policy in (on or {}).items():
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                raise InvalidArgument(f"on: {kind!r} is no exception class")
            if isinstance(policy, int):
                policy = Retries(policy, first=first, most=most, jitter=jitter)
            self._on[kind] = policy

    def for_(self, kind: type[BaseException]) -> Retries:
        """The policy for an exception of this class."""
        for base in kind.__mro__:
            if base in self._on:
                return self._on[base]
        return self

    def delay_ms(self, failures: int) -> int | None:
        """How long to wait after so many failed attempts; None: no more."""
        if failures > self.times:
            return None
        return round(self._delay(failures) * 1000)


def policy(given: int | Retries) -> Retries:
    return given if isinstance(given, Retries) else Retries(given)
