"""What each worker is doing, written down every second for `holdfast top` and whoever else wants to see it.

Written from a thread: a handler that blocks the event loop stops everything else of the worker, and that is
when somebody wants to look. An entry that is not renewed is gone after a few seconds, so a worker that was
killed disappears by itself; its name is dropped from the registry by the next one who reads. Nothing depends
on any of this: it is not state of a queue, so plain commands do.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

import holdfast
from holdfast.engine import keys
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.client._sync.client import Client
    from holdfast.worker.worker import Worker

log = logging.getLogger("holdfast.worker")

# As little as possible is done each time: a task that comes in just then has to wait for it.
EVERY = 1.0
LISTED_EVERY = 3.0
TTL = 5.0
SHOWN = 20
# The loop has other things to do; past this, something keeps it from doing them.
_STALLED = 2.0
# With the server away, saying goodbye could take long; whoever stops the worker does not care.
_GOODBYE = 2.0
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class Running(msgspec.Struct, frozen=True):
    task: str
    id: str
    queue: str
    attempt: int
    seconds: float
    """For how long it has run."""


class Presence(msgspec.Struct, frozen=True):
    name: str
    host: str
    pid: int
    app: str
    version: str
    queues: dict[str, int]
    """Each queue's weight."""
    strict: bool
    concurrency: int
    started_at: float
    at: float
    """When this was written, by the worker's clock."""
    held: int
    waiting: int
    busy: int
    stopping: bool
    stalled: float
    """For how many seconds the event loop has been blocked; 0: it is not."""
    running: list[Running]
    """Those that have run longest."""
    counts: dict[str, dict[str, int]]
    """Task → moment → how often, since the worker began."""
    cpu: float
    """Cores that it kept busy, lately."""
    rss: int

    def count(self, moments: Iterable[str]) -> int:
        return sum(found.get(m, 0) for found in self.counts.values() for m in moments)


class Sign:
    """One worker's entry. `beat`: when the worker's loop was last seen alive."""

    def __init__(self, worker: Worker, client: Client) -> None:
        self._worker = worker
        self._client = client
        self._key = keys.worker_key(worker.name)
        self._spent = time.process_time(), time.monotonic()
        self._cpu = 0.0
        self._host = socket.gethostname()
        self._listed = 0.0
        self.beat = time.monotonic()
        self.stop = threading.Event()

    def keep(self) -> None:
        """Write it every second until `stop` is set, then remove it. Runs in a thread."""
        told = False
        while True:
            try:
                self.write()
                told = False
            except HoldfastError as error:
                if not told:
                    log.warning("saying what this worker does: %s; trying again", error)
                told = True
            except Exception:
                log.exception("saying what this worker does; trying again")
            if self.stop.wait(EVERY):
                break
        try:
            self.remove()
        except Exception as error:  # it goes by itself
            log.debug("saying that this worker is gone: %s", error)

    def write(self) -> None:
        command = self._client.transport.command
        value = msgspec.json.encode(self.look())
        command("SET", self._key, value, "PX", round(TTL * 1000), key=self._key)
        # Again and again: the server may have been emptied, or the name dropped while we could not write.
        if time.monotonic() - self._listed > LISTED_EVERY:
            command("SADD", keys.WORKERS, self._worker.name, key=keys.WORKERS)
            self._listed = time.monotonic()

    def remove(self) -> None:
        command = self._client.transport.command
        command("DEL", self._key, key=self._key)
        command("SREM", keys.WORKERS, self._worker.name, key=keys.WORKERS)

    def look(self) -> Presence:
        worker, plan, now = self._worker, self._worker.plan, time.monotonic()
        # Copied in one step, since pieces are compared by identity: the loop goes on meanwhile.
        pieces = list(worker.running)
        pieces.sort(key=lambda piece: piece.attempt.started or now)
        blocked = now - self.beat
        return Presence(
            name=worker.name,
            host=self._host,
            pid=os.getpid(),
            app=plan.target,
            version=holdfast.__version__,
            queues={share.queue: share.weight for share in plan.shares},
            strict=plan.strict,
            concurrency=plan.concurrency,
            started_at=worker.started_at,
            at=time.time(),
            held=len(worker.held),
            waiting=worker.waiting,
            busy=len(pieces),
            stopping=worker.stopping,
            stalled=round(blocked, 1) if blocked > _STALLED else 0.0,
            running=[_running(piece, now) for piece in pieces[:SHOWN]],
            counts=worker.counts.copy(),
            cpu=self._busy_cores(now),
            rss=_rss(),
        )

    def _busy_cores(self, now: float) -> float:
        spent, since = self._spent
        if now - since >= EVERY / 2:
            cpu = time.process_time()
            self._cpu = round((cpu - spent) / (now - since), 3)
            self._spent = cpu, now
        return self._cpu


def _running(piece: Any, now: float) -> Running:
    context = piece.attempt.context
    # 0: it is just about to begin.
    seconds = round(max(now - (piece.attempt.started or now), 0.0), 3)
    return Running(context.task, context.id, context.queue, context.attempt, seconds)


def _rss() -> int:
    try:
        statm = os.open("/proc/self/statm", os.O_RDONLY)
    except OSError:
        return _most_rss()
    try:
        return int(os.read(statm, 200).split()[1]) * _PAGE
    finally:
        os.close(statm)


def _most_rss() -> int:
    """Where there is no /proc: the most it has been."""
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


async def serve(worker: Worker) -> None:
    """Say what the worker is doing until cancelled; then that it is gone."""
    client = await asyncio.to_thread(lambda: worker.app.desk().client)
    sign = Sign(worker, client)
    # Not one of the loop's own threads: those are waited for at its end, however long they take.
    thread = threading.Thread(target=sign.keep, name="holdfast-presence", daemon=True)
    thread.start()
    try:
        while True:
            sign.beat = time.monotonic()
            await asyncio.sleep(EVERY / 2)
    finally:
        sign.stop.set()
        give_up = time.monotonic() + _GOODBYE
        while thread.is_alive() and time.monotonic() < give_up:
            await asyncio.sleep(0.01)


def read_all(client: Client) -> list[Presence]:
    """All workers that are there, by name; names of those that are not are dropped."""
    found, gone = [], []
    command = client.transport.command
    for raw in sorted(command("SMEMBERS", keys.WORKERS, key=keys.WORKERS)):
        key = keys.worker_key(raw.decode())
        value = command("GET", key, key=key)
        if value is None:
            gone.append(raw)
            continue
        try:
            found.append(msgspec.json.decode(value, type=Presence))
        except msgspec.DecodeError as error:
            # Of another version, most likely.
            log.debug("cannot read what worker %r says of itself: %s", raw, error)
    if gone:
        command("SREM", keys.WORKERS, *gone, key=keys.WORKERS)
    return found
