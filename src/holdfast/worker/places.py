"""Places under limits of concurrency that this worker holds: taken, kept alive, and given back.

Each is held under a name of its own and ends at the server by itself, so those of a worker that was killed
are free after HOLD seconds at the latest. While we live they are renewed long before, by the event loop: a
handler that blocks it for longer than that loses them. Giving back goes in batches: while one call is under
way the next gathers.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from holdfast.client._async.client import AsyncClient
from holdfast.engine import tasks as engine
from holdfast.engine.calls import Call
from holdfast.engine.keys import LimitRef
from holdfast.errors import HoldfastError
from holdfast.tasks.limits import Need

log = logging.getLogger("holdfast.worker")

HOLD = 30.0
RENEW = 10.0
# How long the end of a worker waits for the last ones to be given back.
_GOODBYE = 2.0
# Holders in one call, at most.
_PAGE = 1000


class Refusal(NamedTuple):
    need: Need
    wait: float
    """Seconds until it is worth asking again, as far as the server can tell."""


class Places:
    """`freed` hears of the limits under which those who had a place have left it."""

    def __init__(
        self,
        client: AsyncClient,
        worker: str,
        freed: Callable[[set[str]], None],
    ) -> None:
        self._client = client
        self._freed = freed
        # Two workers of one name must not be taken for one another.
        self._prefix = f"{worker[-100:]}/{secrets.token_hex(4)}"
        self._numbers = itertools.count(1)
        self._held: dict[str, list[Need]] = {}
        self._leaving: list[tuple[str, Need]] = []
        self._left: set[str] = set()
        self._renewing: asyncio.Task[None] | None = None
        self._giving_back: asyncio.Task[None] | None = None

    def holder(self) -> str:
        """A name that nobody has had."""
        return f"{self._prefix}/{next(self._numbers)}"

    def held(self, holder: str) -> list[Need]:
        return self._held.get(holder, [])

    async def take(self, asked: Sequence[tuple[str, Need]]) -> dict[str, Refusal]:
        """A place for each holder under each limit named with it; those who did not get all have none."""
        refused: dict[str, Refusal] = {}
        pages = _pages(asked)
        try:
            answers = await self._client.transport.run_many([self._permit(*page) for page in pages])
        except HoldfastError:
            # Some of it may have been done.
            self._leave(asked)
            raise
        got: list[tuple[str, Need]] = []
        for (need, holders), answer in zip(pages, answers, strict=True):
            out = set(answer.refused)
            for i, holder in enumerate(holders):
                if i in out:
                    refused.setdefault(holder, Refusal(need, answer.wait_ms / 1000))
                else:
                    got.append((holder, need))
        self._leave((holder, need) for holder, need in got if holder in refused)
        for holder, need in got:
            if holder not in refused:
                self._held.setdefault(holder, []).append(need)
        if self._held and self._renewing is None:
            self._renewing = asyncio.get_running_loop().create_task(self._keep())
        return refused

    def give_back(self, holders: Iterable[str]) -> None:
        """All places of these holders, soon: they were of no use. One that has none is no mistake."""
        self._leave((holder, need) for holder in holders for need in self._held.pop(holder, ()))

    def leave(self, holder: str) -> list[Need]:
        """The same for one who has used them; answers where it had any."""
        needs = self.held(holder)
        self._left |= {need.name for need in needs}
        self.give_back([holder])
        return needs

    async def close(self) -> None:
        """Give back everything, if the server lets us."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        self.give_back(list(self._held))
        if self._giving_back is not None:
            await asyncio.wait([self._giving_back], timeout=_GOODBYE)

    def _permit(self, need: Need, holders: Sequence[str]) -> Call[engine.Permit]:
        return engine.permit_concurrency(LimitRef(need.name), need.limit.most, HOLD, holders)

    def _leave(self, places: Iterable[tuple[str, Need]]) -> None:
        self._leaving += places
        if self._leaving and self._giving_back is None:
            self._giving_back = asyncio.get_running_loop().create_task(self._unpermit())

    async def _unpermit(self) -> None:
        try:
            while self._leaving:
                places, self._leaving = self._leaving, []
                pages = _pages(places)
                calls = [engine.unpermit(LimitRef(need.name), names) for need, names in pages]
                try:
                    await self._client.transport.run_many(calls)
                except HoldfastError as error:
                    log.warning(
                        "giving back places under limits: %s; they end by themselves", error
                    )
                except Exception:
                    log.exception("giving back places under limits; they end by themselves")
                left, self._left = self._left, set()
                if left:
                    self._freed(left)
        finally:
            self._giving_back = None

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(RENEW)
            held = [(holder, need) for holder, needs in self._held.items() for need in needs]
            pages = _pages(held)
            try:
                answers = await self._client.transport.run_many(
                    [self._permit(*page) for page in pages]
                )
            except HoldfastError as error:
                log.warning("keeping places under limits: %s; trying again", error)
                continue
            except Exception:
                # Without this service all places would end, and more would run than is allowed.
                log.exception("keeping places under limits; trying again")
                continue
            lost = [
                need.name
                for (need, _), answer in zip(pages, answers, strict=True)
                if answer.refused
            ]
            if lost:
                # It happens after an outage or a pause of this process that was longer than HOLD.
                log.warning("places were lost, and are taken: more run than these allow: %s", lost)
            # What ended meanwhile has just been given a place again.
            self._leave(place for place in held if place[0] not in self._held)


def _pages(places: Iterable[tuple[str, Need]]) -> list[tuple[Need, list[str]]]:
    """By limit, in the order given, as many at once as one call takes."""
    by_limit: dict[str, tuple[Need, list[str]]] = {}
    for holder, need in places:
        by_limit.setdefault(need.name, (need, []))[1].append(holder)
    return [
        (need, holders[i : i + _PAGE])
        for need, holders in by_limit.values()
        for i in range(0, len(holders), _PAGE)
    ]
