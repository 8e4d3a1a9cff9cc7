"""A loop of a kit's own, for coroutines that are to be run to their end where no loop runs; or where one runs
that cannot wait for them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from holdfast.tasks.app import App

T = TypeVar("T")


def in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Loop:
    """It stays from one run to the next, and the app's connections with it."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._runner: asyncio.Runner | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        if in_a_loop():
            return self._beside(work)
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(work)

    def _beside(self, work: Coroutine[Any, Any, T]) -> T:
        """On another loop in another thread, while the one that runs here has to wait."""
        done: list[T] = []
        problem: list[BaseException] = []

        async def and_close() -> T:
            try:
                return await work
            finally:
                await self._app.close_async()

        def run() -> None:
            try:
                done.append(asyncio.run(and_close()))
            except BaseException as error:
                problem.append(error)

        thread = threading.Thread(target=run, name="holdfast-kit")
        thread.start()
        thread.join()
        if problem:
            raise problem[0]
        return done[0]

    def close(self) -> None:
        if self._runner is not None:
            self._runner.run(self._app.close_async())
            self._runner.close()
            self._runner = None
