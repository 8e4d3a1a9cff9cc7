"""Limits where attempts are made one at a time: asked for before each, given back after it.

The same names and the same rules at the server as those of workers, so both count together. Rejected: the
gate of a worker, which asks for many at once on an event loop.
"""

from __future__ import annotations

import random
import secrets
import time

from holdfast.client._sync.client import Client
from holdfast.engine import tasks as engine
from holdfast.engine.keys import LimitRef
from holdfast.tasks.app import App
from holdfast.tasks.attempt import Attempt, Verdict
from holdfast.tasks.limits import Need, Rate, of_call, of_queue

# A place whose holder is not heard of for so long is free, seconds; renewed long before.
_HOLD = 30.0
_RENEW = 10.0
# Nobody knows when a place will be free; those turned away come back after about so long.
_LOOK = (0.1, 0.5)


class Permits:
    """Of one slot, which has one attempt at a time."""

    def __init__(self, app: App, client: Client) -> None:
        self._app = app
        self._client = client
        self._me = f"spark/{secrets.token_hex(8)}"
        self._places: list[Need] = []
        self._renewed = 0.0

    def take(self, attempt: Attempt) -> Verdict | None:
        """None: it may run. Else it is to come back later; or never, where a limit's key cannot be told."""
        name, limits = attempt.task.name, attempt.task.definition.limits
        queue = attempt.context.queue
        try:
            needs = of_call(name, limits, attempt.args, attempt.kwargs)
        except Exception as error:  # whatever a key function raises
            return attempt.refused(
                f"the key of a limit of {name!r} cannot be told: {error!r}", error
            )
        needs += of_queue(queue, self._app.limits.get(queue, ()))
        # Places first: what a rate has granted cannot be kept for later.
        for need in sorted(needs, key=lambda need: isinstance(need.limit, Rate)):
            wait_ms = self._ask(need)
            if wait_ms is not None:
                self.leave()
                return attempt.deferred(wait_ms, f"{need.limit!r} is reached")
        return None

    def _ask(self, need: Need) -> int | None:
        """None: granted. Else ms until it is worth asking again."""
        ref, limit = LimitRef(need.name), need.limit
        if isinstance(limit, Rate):
            call = engine.permit_rate(ref, limit.most, limit.per_ms / 1000)
        else:
            call = engine.permit_concurrency(ref, limit.most, _HOLD, [self._me])
        answer = self._client.transport.run(call)
        if answer.granted:
            if not isinstance(limit, Rate):
                self._places.append(need)
                self._renewed = time.monotonic()
            return None
        if isinstance(limit, Rate):
            return max(round(answer.wait_ms * random.uniform(1, 2)), 1)
        return round(1000 * random.uniform(*_LOOK))

    def renew(self) -> None:
        """To be called now and then while the attempt goes on."""
        if not self._places or time.monotonic() - self._renewed < _RENEW:
            return
        self._renewed = time.monotonic()
        for need in list(self._places):
            ref = LimitRef(need.name)
            call = engine.permit_concurrency(ref, need.limit.most, _HOLD, [self._me])
            self._client.transport.run(call)

    def leave(self) -> None:
        places, self._places = self._places, []
        for need in places:
            self._client.transport.run(engine.unpermit(LimitRef(need.name), [self._me]))
