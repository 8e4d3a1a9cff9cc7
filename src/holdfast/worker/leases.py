"""Keeping leases, in a thread of its own: who blocks the event loop must not lose what others hold.

Every moment it looks at what the worker holds and extends what has not been for a third of its lease. What
the server says is no longer ours is lost; so is, by our own clock, what could not be extended in time. An
attempt that is past its timeout is not extended any more: should the loop be blocked for good, its message
goes to others.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from holdfast.engine import calls, keys
from holdfast.engine.keys import QueueRef
from holdfast.errors import HoldfastError
from holdfast.message import parse_id

if TYPE_CHECKING:
    from holdfast.client._sync.client import Client
    from holdfast.worker.piece import Piece

log = logging.getLogger("holdfast.worker")

_TICK = 1.0
_GRACE = 5.0


class Leases:
    """`held`: what the worker holds now. `lost` and `cancelled` are called from this thread. `nudge` has the
    loop call `alive`."""

    def __init__(
        self,
        client: Client,
        lease: dict[str, float],
        held: Callable[[], Iterable[Piece]],
        lost: Callable[[Piece], None],
        cancelled: Callable[[Piece], None],
        nudge: Callable[[], None],
    ) -> None:
        self._client = client
        self._lease = lease
        self._held = held
        self._lost = lost
        self._cancelled = cancelled
        self._nudge = nudge
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdfast-leases", daemon=True)
        self.beat = time.monotonic()
        self.stalled = False

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(5)

    def alive(self) -> None:
        """The loop says so."""
        self.beat = time.monotonic()

    def _run(self) -> None:
        shortest = min(self._lease.values(), default=30.0) or 30.0
        while not self._stop.wait(min(_TICK, shortest / 10)):
            try:
                self._nudge()
            except RuntimeError:
                return  # the loop is closed
            try:
                self._watch()
                # Copied in one step, since pieces are compared by identity: the loop goes on meanwhile.
                pieces = list(self._held())
                self._extend(pieces)
                self._look_for_cancelled(pieces)
            except HoldfastError as error:
                log.warning("keeping leases: %s; trying again", error)
            except Exception:
                if self._stop.is_set():
                    return  # the loop may be closed by now
                log.exception("keeping leases; trying again")

    def _watch(self) -> None:
        """Say so when a handler blocks the loop, and which."""
        still = time.monotonic() - self.beat
        if still < _GRACE:
            self.stalled = False
        elif not self.stalled:
            self.stalled = True
            frame = sys._current_frames().get(threading.main_thread().ident or 0)
            where = "".join(traceback.format_stack(frame, limit=5)) if frame else ""
            log.warning("something has blocked the event loop for %.0f s:\n%s", still, where)

    def blocked_by(self) -> Piece | None:
        """What runs on the loop past its timeout, while the loop does not move."""
        now = time.monotonic()
        if now - self.beat < _GRACE:
            return None
        for piece in list(self._held()):
            limit = piece.attempt.task.definition.timeout
            if not piece.running or limit is None or not piece.attempt.task.is_async:
                continue
            if now - piece.attempt.started > limit + _GRACE:
                return piece
        return None

    def _wanted(self, piece: Piece, now: float) -> bool:
        attempt = piece.attempt
        limit = attempt.task.definition.timeout
        if attempt.started and limit is not None and now - attempt.started > limit + _GRACE:
            return False
        # What waits behind a blocked loop is better off elsewhere.
        return bool(attempt.started) or now - self.beat < self._lease[piece.queue.name]

    def _extend(self, pieces: list[Piece]) -> None:
        now = time.monotonic()
        by_place: dict[QueueRef, list[Piece]] = {}
        refs: dict[tuple[str, int], QueueRef] = {}
        for piece in pieces:
            lease = self._lease[piece.queue.name]
            if not lease or piece.attempt.context.lost or now - piece.renewed < lease / 3:
                continue
            if not self._wanted(piece, now):
                continue
            place = (piece.queue.name, piece.delivery.shard)
            ref = refs.setdefault(place, QueueRef(*place))
            by_place.setdefault(ref, []).append(piece)
        for ref, due in by_place.items():
            for start in range(0, len(due), 1000):
                self._extend_some(ref, due[start : start + 1000])
        for piece in pieces:
            lease = self._lease[piece.queue.name]
            if lease and time.monotonic() - piece.renewed > lease:
                self._tell_lost(piece)

    def _extend_some(self, ref: QueueRef, pieces: list[Piece]) -> None:
        began = time.monotonic()
        wires = [piece.delivery.wire for piece in pieces]
        call = calls.extend(ref, self._lease[ref.name], wires)
        _, gone = self._client.transport.run(call)
        lost = set(gone)
        for i, piece in enumerate(pieces):
            if i in lost:
                self._tell_lost(piece)
            else:
                piece.renewed = began

    def _tell_lost(self, piece: Piece) -> None:
        # Settled meanwhile is not lost.
        if not piece.over and not piece.attempt.context.lost:
            piece.attempt.context.lost = True
            self._lost(piece)

    def _look_for_cancelled(self, pieces: list[Piece]) -> None:
        by_place: dict[tuple[str, int], list[Piece]] = {}
        for piece in pieces:
            by_place.setdefault((piece.queue.name, piece.delivery.shard), []).append(piece)
        for place, there in by_place.items():
            key = keys.cancelled_key(QueueRef(*place))
            marked = set(self._client.transport.command("ZRANGE", key, 0, -1, key=key))
            if not marked:
                continue
            for piece in there:
                context = piece.attempt.context
                if not context.cancelled and parse_id(context.id)[0] in marked:
                    context.cancelled = True
                    self._cancelled(piece)
