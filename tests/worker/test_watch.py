"""Watching a worker from beside its loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.worker import watch
from holdfast.worker.counts import Counts
from holdfast.worker.orders import Config, Progress
from holdfast.worker.watch import Watch
from tests.servers import wait_until


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_TICK", 0.01)


class Growing(dict[str, dict[str, int]]):
    """Whoever walks through it has the loop count a task of a new name meanwhile."""

    def __init__(self, counts: Counts) -> None:
        super().__init__(counts.by_task)
        self._counts = counts
        self.counting: list[threading.Thread] = []

    def items(self) -> Any:
        def walk() -> Iterator[tuple[str, dict[str, int]]]:
            for at, found in enumerate(super(Growing, self).items()):
                yield found
                if not at and not self.counting:
                    thread = threading.Thread(target=self._counts.add, args=("new", "succeeded"))
                    self.counting.append(thread)
                    thread.start()
                    thread.join(0.2)

        return walk()


async def test_progress_is_told_though_a_task_is_counted_for_the_first_time() -> None:
    worker = SimpleNamespace(counts=Counts(), broken=lambda: None)
    told: list[Progress] = []
    process = SimpleNamespace(started=False, tell=told.append)
    worker.counts.add("a", "succeeded")
    worker.counts.add("b", "succeeded")
    worker.counts.by_task = growing = Growing(worker.counts)
    watching = Watch(cast("Any", worker), Config(target="t"), cast("Any", process))
    watching._over.set()
    watching._thread.join()
    watching._tell_progress()
    assert [sorted(each.counts) for each in told] == [["a", "b"]]
    growing.counting[0].join()
    watching.stop()
    assert sorted(told[-1].counts) == ["a", "b", "new"]


async def test_a_fault_is_told_and_the_worker_is_watched_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    looks: list[None] = []

    def broken() -> None:
        looks.append(None)
        if len(looks) == 1:
            raise ValueError("a fault of ours")

    worker = SimpleNamespace(counts=Counts(), broken=broken)
    process = SimpleNamespace(started=True, tell=lambda _: None)
    with caplog.at_level(logging.ERROR, "holdfast.worker"):
        watching = Watch(cast("Any", worker), Config(target="t"), cast("Any", process))
        try:
            await asyncio.to_thread(wait_until, lambda: len(looks) > 2, 10, "further looks")
        finally:
            watching.stop()
    [said] = caplog.records
    assert said.exc_info is not None
