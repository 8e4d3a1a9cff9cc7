"""Cron ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.worker.worker import Worker


async def serve(worker: Worker) -> None: ...
