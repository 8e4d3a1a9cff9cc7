"""When a run of a kit goes on, and when it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import InvalidArgument
from holdfast.settings import Seconds, milliseconds
from holdfast.testing.records import Ran

if TYPE_CHECKING:
    from holdfast.testing.kit import Kit

# How often the clock is moved before the work is taken for endless.
_MOVES = 1000


class Steps:
    """When a run goes on: while something is ready and work gets on, and, if it is to be done with all, while
    something is due soon enough."""

    def __init__(self, kit: Kit, until_done: bool, within: Seconds) -> None:
        self._kit = kit
        self._until = kit.clock.ms + milliseconds(within, "within") if until_done else None
        self._moves = 0
        self._got_on = True
        self.ran = Ran()

    def add(self, ran: Ran) -> None:
        self._got_on = ran.total > 0
        self.ran += ran

    def go_on(self) -> bool:
        kit = self._kit
        ready = kit.anything_ready()
        if ready and self._got_on:
            return True
        if self._until is None:
            return False
        due = kit.next_due()
        if due is None or due > self._until:
            return False
        self._moves += 1
        if self._moves > _MOVES:
            raise InvalidArgument(
                f"not done after the clock was moved {_MOVES} times; is there a task that snoozes for ever, "
                "or that always sends another? Give `within` fewer seconds, or run without until_done"
            )
        kit.clock.set_ms(max(due, kit.clock.ms))
        return True
