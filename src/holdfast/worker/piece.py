"""A delivery in a worker's hands, from the fetch until it is settled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.client._async.delivery import AsyncDelivery
from holdfast.tasks.attempt import Attempt

if TYPE_CHECKING:
    from holdfast.client._async.queue import AsyncQueue


class Piece:
    """`renewed`: when its lease last began, by our own clock. `stop`: tells whoever runs it to stop. `over`:
    what is to become of it is decided, whatever its handler still does. `holds`: limits under which it has a
    place."""

    __slots__ = ("attempt", "delivery", "fetched", "holds", "over", "queue", "renewed", "stop")

    def __init__(
        self, delivery: AsyncDelivery, queue: AsyncQueue, attempt: Attempt, now: float
    ) -> None:
        self.delivery = delivery
        self.queue = queue
        self.attempt = attempt
        self.fetched = now
        self.renewed = now
        self.over = False
        self.stop: Callable[[], object] | None = None
        self.holds: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, str]:
        """Of the task and of its message, for logs."""
        return self.attempt.task.name, self.delivery.id

    @property
    def extra(self) -> dict[str, object]:
        """For logs that are read by machines."""
        return {"holdfast_context": self.attempt.context}

    @property
    def running(self) -> bool:
        return self.attempt.started > 0 and not self.over
