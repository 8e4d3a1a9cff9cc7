"""The keeper of leases goes on whatever happens, for as long as there is a worker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest

from holdfast.worker.leases import Leases
from holdfast.worker.piece import Piece
from tests.servers import wait_until


def leases(held: Callable[[], Iterable[Piece]], nudge: Callable[[], None]) -> Leases:
    def nothing(_: Piece) -> None: ...

    return Leases(cast("Any", None), {"q": 0.05}, held, nothing, nothing, nudge)


def test_a_fault_is_told_and_leases_are_kept_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    looks: list[None] = []

    def held() -> list[Piece]:
        looks.append(None)
        if len(looks) == 1:
            # Not to be taken for a loop that is closed.
            raise RuntimeError("dictionary changed size during iteration")
        return []

    kept = leases(held, lambda: None)
    with caplog.at_level(logging.ERROR, "holdfast.worker"):
        kept.start()
        try:
            wait_until(lambda: len(looks) > 2, what="further looks at what is held")
        finally:
            kept.stop()
    [said] = caplog.records
    assert said.exc_info is not None


def test_it_ends_with_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    def closed() -> None:
        raise RuntimeError("Event loop is closed")

    kept = leases(list, closed)
    kept.start()
    wait_until(lambda: not kept._thread.is_alive(), what="its end")
    assert not caplog.records
