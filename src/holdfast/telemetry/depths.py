"""How much is in which queue, for whoever scrapes: looked up when asked, remembered for a moment.

A scrape never waits long for the server: the look goes on in a thread, and a scrape that it is too slow
for says what was seen before, as long as that is not stale; after that it says nothing about queues,
which is how one sees that the server is away.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast import forks
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.engine.replies import Stats
    from holdfast.tasks.app import App

log = logging.getLogger("holdfast.telemetry")

_FRESH = 1.0
_STALE = 15.0
_WAIT = 1.0


class Depths:
    def __init__(self) -> None:
        self._found: dict[str, Stats] = {}
        self._at = -math.inf  # not 0: the clock may have begun with the machine, a moment ago
        self._lock = threading.Lock()
        self._look: threading.Thread | None = None
        forks.watch(self)

    def forked(self) -> None:
        """In the child of a fork: nobody here holds the lock, and nobody looks."""
        self._lock, self._look = threading.Lock(), None

    def of(self, app: App, queues: Iterable[str]) -> dict[str, Stats]:
        """Each queue's stats, a moment old at most if the server answers. May be called from any
        thread."""
        with self._lock:
            if time.monotonic() - self._at < _FRESH:
                return self._found
            if self._look is None or not self._look.is_alive():
                names = sorted(queues)
                self._look = threading.Thread(
                    target=self._run, args=(app, names), name="holdfast-depths", daemon=True
                )
                self._look.start()
            look = self._look
        look.join(_WAIT)
        return self._found if time.monotonic() - self._at < _STALE else {}

    def _run(self, app: App, queues: list[str]) -> None:
        try:
            self._found, unreadable = app.desk().client.all_stats(queues)
            self._at = time.monotonic()
            for name, problem in unreadable.items():
                log.warning("looking at queue %r for metrics: %s", name, problem)
        except HoldfastError as error:
            log.warning("looking at queues for metrics: %s", error)
        except Exception:
            log.exception("looking at queues for metrics")
