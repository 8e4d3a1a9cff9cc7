"""Limits, asked for where work begins.

A queue's limits are asked before anything is fetched from it (`room`), so that nothing is taken that may
not run; what was allowed and is not there is given back at once. Limits of tasks can only be asked once it is
known what was fetched (`admit`): who is turned away goes back to its queue for a while.

All that some calls need is asked in two round trips, places first and rates then, whatever the number of
calls and limits. What one limit allowed to somebody whom another turned away is given back. A server that
does not answer lets nobody through: too few are run then, never too many.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from holdfast.client._async.client import AsyncClient
from holdfast.engine import tasks as engine
from holdfast.engine.calls import Call
from holdfast.engine.keys import LimitRef
from holdfast.errors import HoldfastError
from holdfast.tasks.app import App
from holdfast.tasks.attempt import Verdict
from holdfast.tasks.limits import Concurrency, Need, Rate, of_call, of_queue
from holdfast.worker.piece import Piece
from holdfast.worker.places import Places, Refusal
from holdfast.worker.turns import Turns

log = logging.getLogger("holdfast.worker")

# A place may be free again at any moment and nobody tells other workers; they look this often, seconds.
_LOOK = (0.05, 0.25)
# Rates are asked for more at a time rather than more often.
_SELDOM = 0.05
_NO_ANSWER = 1.0
_MOST = 1000


class Gate:
    def __init__(self, app: App, client: AsyncClient, worker: str) -> None:
        self._client = client
        self._of_queue = {
            queue: of_queue(queue, limits) for queue, limits in app.limits.items() if limits
        }
        self.guards = bool(self._of_queue) or any(
            task.definition.limits for task in app.tasks.values()
        )
        self._places = Places(client, worker, self._freed)
        self._turns = Turns()
        # Until when, and whether it may open before.
        self._shut: dict[str, tuple[float, bool]] = {}
        # Holders that were let in to fetch from a queue and have not fetched anything yet.
        self._let_in: dict[str, list[str]] = {}
        self._inside: dict[Piece, tuple[str, float]] = {}
        self._opened = asyncio.Event()

    def limits(self, queue: str) -> bool:
        """Whether a queue has limits of its own."""
        return queue in self._of_queue

    # ---- before fetching ------------------------------------------------------------------

    async def room(self, queue: str, wanted: int) -> tuple[int, float]:
        """How many may be fetched from a queue now; if none, seconds until it is worth asking again."""
        needs = self._of_queue.get(queue)
        if needs is None:
            return wanted, 0.0
        # Of a fetch that failed.
        self._places.give_back(self._let_in.pop(queue, ()))
        now = time.monotonic()
        closed = self._shut.get(queue, (0.0, False))[0] - now
        if closed > 0:
            return 0, closed
        most = min(wanted, _MOST, *(need.limit.most for need in needs))
        holders = [self._places.holder() for _ in range(most)]
        refused = await self._ask(dict.fromkeys(holders, needs))
        closed = 0.0
        if refused:
            closed = max(_patience(each) for each in refused.values())
            places_only = all(isinstance(r.need.limit, Concurrency) for r in refused.values())
            self._shut[queue] = now + closed, places_only
        let_in = self._let_in[queue] = [holder for holder in holders if holder not in refused]
        return len(let_in), 0.0 if let_in else closed

    async def unused(self, queue: str, count: int) -> None:
        """So many of those that `room` allowed were not there."""
        let_in = self._let_in.get(queue)
        if not let_in or count <= 0:
            return
        back = let_in[-count:]
        del let_in[-count:]
        await self._send_back(queue, back)
        # Nothing was there, so there is nothing to wait for but the next message.
        self._shut.pop(queue, None)

    async def opening(self, seconds: float) -> None:
        """Wait so long, or until a place falls free here."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._opened.wait(), seconds)
        self._opened.clear()

    # ---- before running -------------------------------------------------------------------

    async def admit(self, pieces: Sequence[Piece]) -> list[tuple[Piece, Verdict | None]]:
        """For each: None if it may run now, else what is to become of it."""
        found: dict[Piece, Verdict | None] = dict.fromkeys(pieces)
        queues = {piece.queue.name for piece in pieces}
        holders: dict[Piece, str] = {}
        asked: dict[str, Sequence[Need]] = {}
        for piece in pieces:
            let_in = self._let_in.get(piece.queue.name)
            holder = holders[piece] = let_in.pop() if let_in else self._places.holder()
            attempt = piece.attempt
            limits = attempt.task.definition.limits
            if limits:
                try:
                    asked[holder] = of_call(attempt.task.name, limits, attempt.args, attempt.kwargs)
                except Exception as error:  # whatever a key function raises
                    why = f"the key of a limit of {attempt.task.name!r} cannot be told: {error!r}"
                    found[piece] = attempt.refused(why, error)
        refused = await self._ask_or_refuse(asked)
        # Also those of deliveries for which nothing can be done.
        out = {queue: self._let_in.pop(queue, []) for queue in queues}
        now = time.monotonic()
        for piece, holder in holders.items():
            if holder in refused:
                found[piece] = self._deferred(piece, refused[holder])
            if found[piece] is not None or piece.over:
                out[piece.queue.name].append(holder)
            elif places := self._places.held(holder):
                self._inside[piece] = holder, now
                piece.holds = tuple(need.name for need in places)
        for queue, back in out.items():
            await self._send_back(queue, back)
        return list(found.items())

    async def leave(self, piece: Piece) -> None:
        """It has ended: its places are free. May be said more than once."""
        holder, since = self._inside.pop(piece, ("", 0.0))
        for need in self._places.leave(holder):
            self._turns.took(need.limit, time.monotonic() - since)

    async def close(self) -> None:
        await self._places.close()

    # ---- asking ---------------------------------------------------------------------------

    async def _ask_or_refuse(self, asked: Mapping[str, Sequence[Need]]) -> dict[str, Refusal]:
        try:
            return await self._ask(asked)
        except HoldfastError as error:
            log.warning("asking for limits: %s; %d tasks are put off", error, len(asked))
            return {holder: Refusal(needs[0], _NO_ANSWER) for holder, needs in asked.items()}

    async def _ask(self, asked: Mapping[str, Sequence[Need]]) -> dict[str, Refusal]:
        """Those who may not go on."""
        refused: dict[str, Refusal] = {}
        places = [
            (holder, need)
            for holder, needs in asked.items()
            for need in needs
            if isinstance(need.limit, Concurrency)
        ]
        if places:
            refused |= await self._places.take(places)
        rates: dict[str, tuple[Need, list[str]]] = {}
        for holder, needs in asked.items():
            for need in needs:
                if isinstance(need.limit, Rate) and holder not in refused:
                    rates.setdefault(need.name, (need, []))[1].append(holder)
        if rates:
            try:
                refused |= await self._ask_rates(list(rates.values()))
            except HoldfastError:
                self._places.give_back(asked)
                raise
            self._places.give_back(refused)
        full = {each.need.name for each in refused.values()}
        for _, need in places:
            if need.name not in full:
                self._turns.open(need.name)
        return refused

    async def _ask_rates(self, rates: Sequence[tuple[Need, list[str]]]) -> dict[str, Refusal]:
        refused: dict[str, Refusal] = {}
        granted: list[tuple[Need, list[str]]] = []
        answers = await self._client.transport.run_many(
            [_permit_rate(need, len(holders)) for need, holders in rates]
        )
        for (need, holders), answer in zip(rates, answers, strict=True):
            granted.append((need, holders[: answer.granted]))
            for holder in holders[answer.granted :]:
                refused[holder] = Refusal(need, answer.wait_ms / 1000)
            if answer.granted == len(holders) and answer.wait_ms == 0:
                self._turns.open(need.name)
        await self._unrate(
            need for need, holders in granted for holder in holders if holder in refused
        )
        return refused

    async def _send_back(self, queue: str, holders: Sequence[str]) -> None:
        """They do not need what the queue's limits allowed, or any place that they have."""
        self._places.give_back(holders)
        await self._unrate(need for _ in holders for need in self._of_queue.get(queue, ()))

    async def _unrate(self, unused: Iterable[Need]) -> None:
        """What these rates have granted is of no use, once for each time they are named."""
        counts: dict[str, tuple[Need, int]] = {}
        for need in unused:
            if isinstance(need.limit, Rate):
                counts[need.name] = need, counts.get(need.name, (need, 0))[1] + 1
        if not counts:
            return
        try:
            await self._client.transport.run_many(
                [_unpermit_rate(need, count) for need, count in counts.values()]
            )
        except HoldfastError as error:
            log.debug("giving back what a rate allowed: %s; it is wasted", error)

    def _deferred(self, piece: Piece, refusal: Refusal) -> Verdict:
        need = refusal.need
        delay = self._turns.give(need.name, need.limit, refusal.wait)
        return piece.attempt.deferred(max(round(delay * 1000), 1), f"{need.limit!r} is reached")

    def _freed(self, names: set[str]) -> None:
        for queue, needs in self._of_queue.items():
            _, early = self._shut.get(queue, (0.0, False))
            if early and any(need.name in names for need in needs):
                del self._shut[queue]
                self._opened.set()


def _permit_rate(need: Need, want: int) -> Call[engine.Permit]:
    assert isinstance(need.limit, Rate)
    return engine.permit_rate(LimitRef(need.name), need.limit.most, need.limit.per_ms / 1000, want)


def _unpermit_rate(need: Need, unused: int) -> Call[engine.Permit]:
    assert isinstance(need.limit, Rate)
    ref = LimitRef(need.name)
    return engine.unpermit_rate(ref, need.limit.most, need.limit.per_ms / 1000, unused)


def _patience(refusal: Refusal) -> float:
    """Seconds after which to ask again before fetching."""
    limit = refusal.need.limit
    if isinstance(limit, Rate):
        return max(refusal.wait, min(limit.per_ms / 5000, _SELDOM))
    return random.uniform(*_LOOK)
